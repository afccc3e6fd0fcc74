"""``miv train``: train a verifier on exemplars or raw files, and evaluate it."""

import inspect
import warnings
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from miv.cli.app import JsonOption, RawOption, SetsCacheOption, TaskOption, app, print_json
from miv.cli.set_building import flag_type, keyword
from miv.errors import MIVWarning, StoppedByUser
from miv.files.json import RUN_NAME
from miv.runtime import CTRL_C, TERMINATED, Terminated, argument_lines, as_sentence
from miv.training.config import AUTO, TrainingConfig, parse_options, parse_setting

# Training settings as flags: one flag per field of the dataclass, with its help.


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Add one flag per training setting to a command that takes ``settings`` as its last argument.

    ``settings`` contains only the flags that are given.
    """
    types = get_type_hints(TrainingConfig)
    helps = argument_lines(TrainingConfig.__doc__ or "")
    parameters = [one for one in inspect.signature(command).parameters.values() if one.name != "settings"]
    names = [one.name for one in parameters]
    for name in (one.name for one in fields(TrainingConfig)):
        flag = typer.Option(
            help=as_sentence(helps[name], get_args(types[name])),
            show_default=False,
            rich_help_panel="Training settings (override the preset and the file)",
        )
        # The settings check the values of a Literal themselves.
        kind = str if get_origin(types[name]) is Literal else flag_type(types[name])
        parameters.append(keyword(name, Annotated[kind | None, flag], None))

    def run(**given: Any) -> None:
        settings = {name: value for name, value in given.items() if name not in names and value is not None}
        settings = {n: parse_setting(n, v) if isinstance(v, str) else v for n, v in settings.items()}
        command(**{name: given[name] for name in names}, settings=settings)

    run.__doc__ = command.__doc__
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


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
    raw: RawOption = None,
    task_option: TaskOption = None,
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
    cache: SetsCacheOption = None,
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
        from miv.evaluation.baselines import print_table
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
            baselines=baselines if reference is None else reference,
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
