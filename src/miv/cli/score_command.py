"""``miv score``: verify a table of any size, partition by partition, on this machine or on a cluster."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from miv.cli.app import JsonOption, ModelArgument, ResizeOption, WitnessesOption, app, counted, print_json, say
from miv.cli.verify_command import counts_of, warn_of_odd_label


@app.command("score")
def score(
    model: ModelArgument,
    table: Annotated[
        Path,
        Argument(
            help="Table with one query and bag per row, as for `miv verify --bags`; a folder of such tables; or a set "
            "that `miv data` saved."
        ),
    ],
    out: Annotated[Path, Option("--out", "-o", help="Output folder.")],
    instances: Annotated[Path | None, Option(help="A table of instances by id; queries and bags contain ids.")] = None,
    by_instance: Annotated[
        bool, Option("--by-instance", help="Write one row per instance instead of one per exemplar.")
    ] = False,
    resize: ResizeOption = None,
    witnesses: WitnessesOption = None,
    rows: Annotated[int, Option(min=1, help="Maximum number of exemplars per partition.")] = 1000,
    workers: Annotated[
        int | None,
        Option(min=1, help="Number of workers; more than 1 needs Ray. Default: 1, or with --address as many as fit."),
    ] = None,
    address: Annotated[
        str | None, Option(help="Address of a Ray cluster: host:port, or auto.", show_default="this machine")
    ] = None,
    cores: Annotated[int | None, Option(min=1, help="Cores per worker.", show_default="1; without Ray all")] = None,
    gpus: Annotated[float, Option(min=0, help="GPUs per worker; a fraction if workers share one.")] = 0.0,
    overwrite: Annotated[
        bool, Option("--overwrite", help="Overwrite results of a different table, verifier or settings.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Verify a table of any size and write a folder with one Parquet file per partition.

    After Ctrl-C, a kill or a lost machine, the same command resumes with the partitions that are missing.

    Example: miv score runs/dba pairs.parquet --out verdicts --workers 2
    Example: miv score runs/dba pairs/ --out verdicts --address auto
    """
    from miv.errors import StoppedByUser
    from miv.evaluation.runs import refuse_unfinished
    from miv.runtime import RichProgress
    from miv.scoring.run import score as score_table

    refuse_unfinished(Path(model))
    start = partial(score_table, instances=instances, by_instance=by_instance, resize=resize, witnesses=witnesses)
    workers = workers or (1 if address is None else None)
    start = partial(start, workers=workers, address=address, cores=cores, gpus=gpus)
    try:
        run = start(model, table, out, rows=rows, overwrite=overwrite, progress=RichProgress(), say=say)
    except StoppedByUser as stopped:
        say(str(stopped))
        raise typer.Exit(stopped.exit_code) from None
    counts = {"partitions": run.partitions, "reused": run.reused, "nodes": run.nodes}
    print_json({**asdict(run.scored), **counts, "out": str(out)}) if json else print(counts_of(run.scored))
    warn_of_odd_label(run.scored)
    nodes = f" on {run.nodes} machines" if run.nodes > 1 else ""
    if run.reused == run.partitions:
        say(f"All {run.partitions:,} partitions were already in {out}.")
        return
    written, before = run.partitions - run.reused, f"; {run.reused:,} were already there" if run.reused else ""
    say(f"Wrote {counted(written, 'partition')} to {out}{nodes}{before}.")
