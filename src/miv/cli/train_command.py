"""``miv train``: from exemplars, or from raw files, to a verifier and its metrics."""

from pathlib import Path
from typing import Annotated, Any

import typer

from miv.cli.app import JsonOption, app, print_json
from miv.cli.settings import with_settings
from miv.training.config import parse_options
from miv.training.presets import AUTO


@app.command("train")
@with_settings
def train(
    data: Annotated[str, typer.Argument(help="A folder of splits, or the name of a task, which is then built.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the run.", show_default=False)],
    preset: Annotated[
        str,
        typer.Option(
            help="Settings to start from: auto (chosen for the data), best (ours for QMNIST), or the paper's: qmnist, "
            "signature, fever."
        ),
    ] = AUTO,
    config: Annotated[
        Path | None, typer.Option(help="A .toml file of settings, or the config.json of a run.", show_default=False)
    ] = None,
    start_from: Annotated[
        str | None,
        typer.Option(
            "--start-from",
            "--from",
            help="Start from the weights of a verifier, and keep its pooling and backbone. A run, the folder of a "
            "verifier, a name on the hub, or miv/digits.",
            show_default=False,
        ),
    ] = None,
    raw: Annotated[Path | None, typer.Option(help="Folder of a task's raw files.", show_default=False)] = None,
    task_option: Annotated[
        list[str] | None, typer.Option(help="An option of the task, key=value; may be given again.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    devices: Annotated[int, typer.Option(min=1, help="Processes on this machine (ddp).")] = 1,
    nodes: Annotated[int, typer.Option(min=1, help="Machines.")] = 1,
    accelerator: Annotated[str, typer.Option(help="cpu, gpu or auto.")] = "auto",
    workers: Annotated[int, typer.Option(min=0, help="Extra processes that prepare batches.")] = 0,
    threads: Annotated[int, typer.Option(min=0, help="Threads of a process; 0 shares the cores.")] = 0,
    cache: Annotated[
        Path | None,
        typer.Option(help="Folder of features and built sets.", show_default="MIV_CACHE_DIR or ~/.cache/miv"),
    ] = None,
    reference: Annotated[
        bool, typer.Option("--reference/--no-reference", help="Score plain methods on the same features as well.")
    ] = True,
    json: JsonOption = False,
    *,
    settings: dict[str, Any],
) -> None:
    """Train a verifier and evaluate it on validation and test.

    DATA is a folder of splits as `miv data` writes it, or a task such as digits-twin or qmnist: then its sets are
    built first, or taken from the cache. Ctrl-C saves; --resume goes on, also after a kill.

    Example: miv train qmnist --raw data/qmnist --pooling cap_dba_l2 --out runs/dba

    Example: miv train my-data --from runs/dba --out runs/further
    """
    from miv.errors import StoppedByUser
    from miv.reference.beside import figures_of, rows_beside
    from miv.reference.reference_table import print_table
    from miv.runtime.memory import keep_memory
    from miv.training.machine import is_first_process
    from miv.workflows.train_workflow import train as train_verifier

    keep_memory()
    try:
        run = train_verifier(
            data,
            out=out,
            preset=preset,
            config=config,
            start_from=start_from,
            task_options=parse_options(task_option or [], "--task-option") | ({} if raw is None else {"raw": raw}),
            resume=resume,
            devices=devices,
            nodes=nodes,
            accelerator=accelerator,
            workers=workers,
            threads=threads,
            cache=cache,
            reference=reference,
            **settings,
        )
    except StoppedByUser as stopped:
        typer.echo(str(stopped), err=True)
        raise typer.Exit(130) from None
    if not is_first_process():
        return
    if json:
        print_json(run.document())
    else:
        for split, found in run.evaluations.items():
            print(f"{split}: {found.text()}\n")
            if run.reference is not None:
                rows = rows_beside(run.config.pooling, figures_of(found), run.reference.splits[split])
                print_table(f"{split}: the verifier beside plain methods on the same data", rows)
    typer.echo(run.advice, err=True, nl=False)
    typer.echo(f"Wrote {out}; the verifier is {out / 'verifier'}.", err=True)
