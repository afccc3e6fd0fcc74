"""``miv train``: train a verifier on exemplars or raw files, and evaluate it."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from miv.cli.app import CacheOption, JsonOption, RawOption, TaskOption, app, print_json, say
from miv.cli.flags import setting_of, with_parameters
from miv.files.json import RUN_NAME
from miv.registry import options_of_class
from miv.runtime import CTRL_C, TERMINATED, Terminated
from miv.training.config import AUTO, TrainingConfig, parse_options, parse_setting


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Add one flag per training setting to a command; its argument ``settings`` has those that are given."""
    parameters = [each for each in inspect.signature(command).parameters.values() if each.name != "settings"]
    names = {each.name for each in parameters}
    panel = "Training settings (override the preset and the file)"
    parameters += [setting_of(option, panel) for option in options_of_class(TrainingConfig).values()]

    def run(**given: Any) -> None:
        settings = {name: value for name, value in given.items() if name not in names and value is not None}
        settings = {n: parse_setting(n, v) if isinstance(v, str) else v for n, v in settings.items()}
        command(**{name: given[name] for name in names}, settings=settings)

    run.__doc__ = command.__doc__
    return with_parameters(run, parameters)


@app.command("train")
@with_settings
def train(
    data: Annotated[str, Argument(help="A folder of splits, or the name of a task to build.")],
    out: Annotated[Path, Option("--out", "-o", help="Run folder.", show_default=False)],
    preset: Annotated[
        str,
        Option(
            help="Base settings: auto (chosen for the data), best (ours for QMNIST), or the paper's: qmnist, "
            "signature, fever."
        ),
    ] = AUTO,
    config: Annotated[
        Path | None, Option(help="A .toml file with settings, or the config.json of a run.", show_default=False)
    ] = None,
    start_from: Annotated[
        str | None,
        Option(
            "--start-from",
            "--from",
            help="Start from the weights, pooling and backbone of an existing verifier: a run, a verifier "
            "folder, a name on the hub, or miv/digits.",
            show_default=False,
        ),
    ] = None,
    raw: RawOption = None,
    task_option: TaskOption = None,
    resume: Annotated[bool, Option("--resume", help="Resume the run in --out.")] = False,
    accelerator: Annotated[str, Option(help="cpu, gpu or auto.")] = "auto",
    threads: Annotated[int, Option(min=0, help="Number of threads; 0 leaves the choice to PyTorch.")] = 0,
    cache: CacheOption = None,
    baselines: Annotated[
        bool, Option("--baselines/--no-baselines", help="Also score plain methods on the same features.")
    ] = True,
    samples: Annotated[
        bool, Option("--samples/--no-samples", help="Store two exemplars of test in the run, for `miv serve`.")
    ] = True,
    json: JsonOption = False,
    *,
    settings: dict[str, Any],
) -> None:
    """Train a verifier and evaluate it on validation and test.

    DATA is a folder of splits written by `miv data`, or a task such as digits-twin or qmnist. The sets of a task are
    built first, or read from the cache. After Ctrl-C, SIGTERM or a kill, --resume continues the run.

    Example: miv train qmnist --raw data/qmnist --out runs/qmnist
    Example: miv train my-data --from runs/qmnist --out runs/further
    """
    try:  # the imports take seconds too
        from miv.evaluation.baselines import print_table
        from miv.evaluation.model_card import rows_beside
        from miv.evaluation.runs import RunFolder
        from miv.runtime import keep_memory
        from miv.training.train import train as train_verifier

        keep_memory()
        if resume and not RunFolder(out).exists():
            RunFolder(out).refuse_foreign()  # before the data are read
            say(f"There is no run in {out} to resume, so a new one begins there.")
        options = parse_options(task_option or [], "--task-option") | ({} if raw is None else {"raw": raw})
        settings |= {"preset": preset, "config": config, "start_from": start_from, "task_options": options}
        settings |= {"accelerator": accelerator, "threads": threads, "cache": cache, "samples": samples}
        run = train_verifier(data, out=out, resume=resume, baselines=baselines, **settings)
    except (KeyboardInterrupt, Terminated) as stopped:  # before, between or after the stages
        before, how = ("", "Resume") if (out / RUN_NAME).is_file() else (" before the run began", "Start it")
        say(f"Stopped{before}. {how} with the same command{'' if before else ' and --resume'}.")
        raise typer.Exit(TERMINATED if isinstance(stopped, Terminated) else CTRL_C) from None
    if json:
        print_json(run.document())
    else:
        for split, evaluation in run.evaluations.items():
            print(f"{split}: {evaluation.text()}\n")
            if run.reference is not None:
                pooling = run.verifier.configuration["pooling"]
                rows = rows_beside(pooling, evaluation, run.reference.splits[split])
                print_table(f"{split}: the verifier compared with plain methods on the same data", rows)
    typer.echo(run.advice, err=True, nl=False)
    say(f"Wrote {out}; the verifier is {out / 'verifier'}.")
