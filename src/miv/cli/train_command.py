"""``miv train``: from exemplars, or from raw files, to a verifier and its metrics."""

from pathlib import Path
from typing import Annotated, Any

import typer

from miv.cli.app import JsonOption, app, print_json
from miv.cli.opening import open_sets
from miv.cli.settings import with_settings
from miv.io.cache_folder import cache_folder
from miv.training.config import TrainingConfig, parse_options, read_settings
from miv.training.presets import AUTO
from miv.training.presets import preset as get_preset


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
    from miv.training.auto import HEAD, choose

    from_file = {} if config is None else read_settings(config)
    given = from_file | settings
    # Unknown names and bad values are refused before the data are read.
    _settled(TrainingConfig().changed(HEAD) if preset == AUTO else get_preset(preset), from_file, config, settings)

    from miv.reference.beside import advice, figures_of, rows_beside
    from miv.reference.model_card import write_card
    from miv.reference.of_run import reference_of_run
    from miv.reference.reference_table import print_table
    from miv.runtime.memory import keep_memory
    from miv.runtime.progress import RichProgress
    from miv.training.earlier_verifier import EarlierVerifier
    from miv.training.run import Machine, StoppedByUser, is_first_process, set_threads
    from miv.training.run import train as run_training
    from miv.training.run_curves import draw_run
    from miv.training.run_folder import RunFolder

    keep_memory()
    start = None if start_from is None else EarlierVerifier.read(start_from)
    cache = cache or cache_folder()
    options = parse_options(task_option or [], "--task-option") | ({} if raw is None else {"raw": raw})
    sets = open_sets(data, options, cache / "sets")
    if preset == AUTO and resume and RunFolder(out).exists():
        chosen = TrainingConfig().changed(RunFolder(out).read_config())  # chosen before, perhaps with more cores
    elif preset == AUTO:
        known = {} if start is None else {"backbone": start.verifier.configuration["backbone"]}
        choice = choose(sets, given | known, is_trained=start is not None)
        typer.echo(choice.reason, err=True)
        chosen = choice.config
        if devices * nodes > 1:
            chosen = chosen.changed({"align_epochs": 0})  # that stage needs one process
    else:
        chosen = get_preset(preset, given.get("pooling"))
    chosen = _settled(chosen, from_file, config, settings)
    if start is not None:
        chosen = start.adopted(chosen, given)
    set_threads(threads, devices)
    machine = Machine(cache / "features", devices, nodes, accelerator, workers)
    try:
        evaluations = run_training(
            sets,
            chosen,
            out,
            machine,
            data=data,
            data_options=options,
            start_from=start,
            resume=resume,
            progress=RichProgress(),
        )
    except StoppedByUser as stopped:
        typer.echo(str(stopped), err=True)
        raise typer.Exit(130) from None
    if not is_first_process():
        return
    run = RunFolder(out)
    draw_run(run)
    _warn_of_one_answer(out)
    plain = None
    if reference:
        plain = reference_of_run(run, sets, cache=machine.cache, device=machine.find_device(), progress=RichProgress())
    write_card(run.verifier, chosen.pooling, evaluations, plain)
    if json:
        documents = {split: found.document() for split, found in evaluations.items()}
        print_json({"run": str(out), **documents, "reference": None if plain is None else plain.document()})
    else:
        for split, found in evaluations.items():
            print(f"{split}: {found.text()}\n")
            if plain is not None:
                rows = rows_beside(chosen.pooling, figures_of(found), plain.splits[split])
                print_table(f"{split}: the verifier beside plain methods on the same data", rows)
    if plain is not None:
        typer.echo(advice(evaluations, plain, run) or "", err=True, nl=False)
    typer.echo(f"Wrote {out}; the verifier is {run.verifier}.", err=True)


def _settled(
    preset: TrainingConfig, from_file: dict[str, Any], path: Path | None, flags: dict[str, Any]
) -> TrainingConfig:
    """The settings of a preset, overruled by a file and then by flags."""
    return preset.changed(from_file, f" in {path}").changed(flags)


def _warn_of_one_answer(out: Path) -> None:
    """Say where the verifier tells nothing apart, which its accuracy alone does not show."""
    from miv.evaluation import Predictions
    from miv.training.run_folder import RunFolder

    yes = Predictions.load(RunFolder(out).predictions("validation")).yes
    if yes.all() or not yes.any():
        typer.echo(
            f"Warning: the verifier answers {'yes' if yes.all() else 'no'} to all {len(yes):,} exemplars "
            "of validation. Train longer (--max-epochs), or after a contrast stage (--contrast-epochs). Where "
            "its AUROC is above 0.5, `miv calibrate` finds a threshold that tells them apart.",
            err=True,
        )
