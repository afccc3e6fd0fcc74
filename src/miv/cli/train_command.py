"""``miv train``: train a verifier on exemplars or raw files, and evaluate it."""

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from miv.cli.app import JsonOption, app, print_json
from miv.cli.settings import with_settings
from miv.errors import MIVWarning, StoppedByUser
from miv.files.cards import RUN_NAME
from miv.runtime import CTRL_C, TERMINATED, Terminated
from miv.training.config import AUTO, parse_options


@app.command("train")
@with_settings
def train(
    data: Annotated[str, typer.Argument(help="A folder of splits, or the name of a task to build.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Run folder.", show_default=False)],
    preset: Annotated[
        str,
        typer.Option(
            help="Base settings: auto (chosen for the data), best (ours for QMNIST), or the paper's: qmnist, "
            "signature, fever."
        ),
    ] = AUTO,
    config: Annotated[
        Path | None, typer.Option(help="A .toml file with settings, or the config.json of a run.", show_default=False)
    ] = None,
    start_from: Annotated[
        str | None,
        typer.Option(
            "--start-from",
            "--from",
            help="Start from the weights, pooling and backbone of an existing verifier: a run, a verifier "
            "folder, a name on the hub, or miv/digits.",
            show_default=False,
        ),
    ] = None,
    raw: Annotated[Path | None, typer.Option(help="Folder of a task's raw files.", show_default=False)] = None,
    task_option: Annotated[list[str] | None, typer.Option(help="Task option as key=value; repeatable.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in --out.")] = False,
    devices: Annotated[int, typer.Option(min=1, help="Number of processes on this machine (DDP).")] = 1,
    nodes: Annotated[int, typer.Option(min=1, help="Number of machines.")] = 1,
    accelerator: Annotated[str, typer.Option(help="cpu, gpu or auto.")] = "auto",
    workers: Annotated[int, typer.Option(min=0, help="Number of extra processes that prepare batches.")] = 0,
    threads: Annotated[int, typer.Option(min=0, help="Threads per process; 0 divides the cores evenly.")] = 0,
    memory: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Memory limit per process in GB when training the backbone; larger steps recompute part of the "
            "forward pass.",
            show_default="half of what is free",
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(help="Cache folder for features and built sets.", show_default="MIV_CACHE_DIR or ~/.cache/miv"),
    ] = None,
    baselines: Annotated[
        bool, typer.Option("--baselines/--no-baselines", help="Also score plain methods on the same features.")
    ] = True,
    reference: Annotated[bool | None, typer.Option("--reference/--no-reference", hidden=True)] = None,
    json: JsonOption = False,
    *,
    settings: dict[str, Any],
) -> None:
    """Train a verifier and evaluate it on validation and test.

    DATA is a folder of splits written by `miv data`, or a task such as digits-twin or qmnist. The sets of a task are
    built first, or read from the cache. After Ctrl-C, SIGTERM or a kill, --resume continues the run.

    Example: miv train qmnist --raw data/qmnist --pooling cap_dba_l2 --out runs/dba

    Example: miv train my-data --from runs/dba --out runs/further
    """
    if reference is not None:
        old, new = ("--reference", "--baselines") if reference else ("--no-reference", "--no-baselines")
        warnings.warn(MIVWarning(f"{old} is now {new}."), stacklevel=2)
    try:  # the imports take seconds too
        from miv.evaluation.baseline_figures import print_table
        from miv.evaluation.runs import RunFolder
        from miv.runtime import keep_memory
        from miv.training.machine import is_first_process
        from miv.training.model_card import figures_of, rows_beside
        from miv.training.train import train as train_verifier

        keep_memory()
        if resume and is_first_process() and not RunFolder(out).exists():
            RunFolder(out).refuse_foreign()  # before the data are read
            typer.echo(f"There is no run in {out} to resume, so a new one begins there.", err=True)
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
            memory=memory,
            cache=cache,
            reference=baselines if reference is None else reference,
            **settings,
        )
    except StoppedByUser as stopped:
        typer.echo(str(stopped), err=True)
        raise typer.Exit(stopped.exit_code) from None
    except (KeyboardInterrupt, Terminated) as stopped:  # before, between or after the stages
        if (out / RUN_NAME).is_file():
            typer.echo("Stopped. Resume with the same command and --resume.", err=True)
        else:
            typer.echo("Stopped before the run began. Start it with the same command.", err=True)
        raise typer.Exit(TERMINATED if isinstance(stopped, Terminated) else CTRL_C) from None
    if not is_first_process():
        return
    if json:
        print_json(run.document())
    else:
        for split, found in run.evaluations.items():
            print(f"{split}: {found.text()}\n")
            if run.reference is not None:
                rows = rows_beside(run.config.pooling, figures_of(found), run.reference.splits[split])
                print_table(f"{split}: the verifier compared with plain methods on the same data", rows)
    typer.echo(run.advice, err=True, nl=False)
    typer.echo(f"Wrote {out}; the verifier is {out / 'verifier'}.", err=True)
