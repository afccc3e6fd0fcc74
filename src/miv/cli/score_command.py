"""``miv score``: verify a table of any size, partition by partition, in one process or several."""

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
        Argument(help="Table with one query and bag per row, as for `miv verify --bags`, or a folder of such tables."),
    ],
    out: Annotated[Path, Option("--out", "-o", help="Output folder.")],
    instances: Annotated[Path | None, Option(help="A table of instances by id; queries and bags contain ids.")] = None,
    by_instance: Annotated[
        bool, Option("--by-instance", help="Write one row per instance instead of one per exemplar.")
    ] = False,
    resize: ResizeOption = None,
    witnesses: WitnessesOption = None,
    rows: Annotated[int, Option(min=1, help="Maximum number of exemplars per partition.")] = 1000,
    parallel: Annotated[int, Option(min=1, help="Number of processes; they share the cores.")] = 1,
    device: Annotated[str | None, Option(help="Device of torch, such as cuda.", show_default="cpu")] = None,
    overwrite: Annotated[
        bool, Option("--overwrite", help="Overwrite results of a different table, verifier or settings.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Verify a table of any size and write a folder with one Parquet file per partition.

    After Ctrl-C or a kill, the same command resumes with the missing partitions. Several such commands at once, also
    on machines that share a disk, share the work.

    Example: miv score runs/dba pairs.parquet --out verdicts --parallel 4
    """
    from miv.errors import StoppedByUser
    from miv.evaluation.runs import refuse_unfinished
    from miv.runtime import RichProgress
    from miv.scoring.run import score as score_table

    refuse_unfinished(Path(model))
    start = partial(score_table, instances=instances, by_instance=by_instance, resize=resize, witnesses=witnesses)
    start = partial(start, parallel=parallel, device=device)
    try:
        run = start(model, table, out, rows=rows, overwrite=overwrite, progress=RichProgress(), say=say)
    except StoppedByUser as stopped:
        say(str(stopped))
        raise typer.Exit(stopped.exit_code) from None
    counts = {"partitions": run.partitions, "reused": run.reused}
    print_json({**asdict(run.scored), **counts, "out": str(out)}) if json else print(counts_of(run.scored))
    warn_of_odd_label(run.scored)
    if run.reused == run.partitions:
        say(f"All {run.partitions:,} partitions were already in {out}.")
        return
    written, before = run.partitions - run.reused, f"; {run.reused:,} were already there" if run.reused else ""
    say(f"Wrote {counted(written, 'partition')} to {out}{before}.")
