"""``miv score``: verify a table of any size, partition by partition, on this machine or on a cluster."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from miv.cli.app import JsonOption, ModelArgument, ResizeOption, WitnessesOption, app, print_json


@app.command("score")
def score(
    model: ModelArgument,
    table: Annotated[
        Path,
        typer.Argument(
            help="Table with one query and bag per row, as for `miv verify --bags`; a folder of such tables; or a set "
            "that `miv data` saved."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Output folder.", show_default=False)],
    instances: Annotated[
        Path | None, typer.Option(help="A table of instances by id; queries and bags contain ids.")
    ] = None,
    by_instance: Annotated[
        bool, typer.Option("--by-instance", help="Write one row per instance instead of one per exemplar.")
    ] = False,
    resize: ResizeOption = None,
    witnesses: WitnessesOption = None,
    rows: Annotated[int, typer.Option(min=1, help="Maximum number of exemplars per partition.")] = 1000,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of workers; more than 1 needs Ray. Default: 1, or with --address as many as fit.",
            show_default=False,
        ),
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="Address of a Ray cluster: host:port, or auto.", show_default="this machine")
    ] = None,
    cores: Annotated[
        int | None, typer.Option(min=1, help="Cores per worker.", show_default="1; without Ray all")
    ] = None,
    gpus: Annotated[float, typer.Option(min=0, help="GPUs per worker; a fraction if workers share one.")] = 0.0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Overwrite results of a different table, verifier or settings.")
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
    try:
        run = score_table(
            model,
            table,
            out,
            instances=instances,
            by_instance=by_instance,
            resize=resize,
            witnesses=witnesses,
            rows=rows,
            workers=workers or (1 if address is None else None),
            address=address,
            cores=cores,
            gpus=gpus,
            overwrite=overwrite,
            progress=RichProgress(),
            say=lambda text: typer.echo(text, err=True),
        )
    except StoppedByUser as stopped:
        typer.echo(str(stopped), err=True)
        raise typer.Exit(stopped.exit_code) from None
    scored = run.scored
    if json:
        counts = {"partitions": run.partitions, "reused": run.reused, "nodes": run.nodes}
        print_json({**asdict(scored), **counts, "out": str(out)})
    else:
        unsure = "" if scored.lower_threshold is None and not scored.unsure else f", {scored.unsure:,} unsure"
        print(f"{scored.exemplars:,} exemplar{'s' * (scored.exemplars != 1)}, {scored.yes:,} yes{unsure}")
    if scored.odd_label is not None:
        typer.echo(f"A label is neither 0 nor 1 and is copied unchanged: {scored.odd_label}.", err=True)
    nodes = f" on {run.nodes} machines" if run.nodes > 1 else ""
    if run.reused == run.partitions:
        typer.echo(f"All {run.partitions:,} partitions were already in {out}.", err=True)
        return
    written, before = run.partitions - run.reused, f"; {run.reused:,} were already there" if run.reused else ""
    typer.echo(f"Wrote {written:,} partition{'s' * (written != 1)} to {out}{nodes}{before}.", err=True)
