"""``miv reproduce``: compute the paper's tables and figures and compare them with the published ones."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from miv.cli.app import JsonOption, OverwriteOption, app
from miv.errors import MIVError, StoppedByUser, unknown_name
from miv.files.atomic import refuse_existing, refuse_existing_in
from miv.files.cache import cache_folder

if TYPE_CHECKING:
    from miv.reproduction.grids import Experiment
    from miv.reproduction.jobs import Job, JobFolders
    from miv.reproduction.tables import Section

FORMATS = ("terminal", "markdown", "html")


@app.command("reproduce")
def reproduce(
    task: Annotated[
        str | None, typer.Argument(help="qmnist, signature, fever, fever-dev or claims.", show_default=False)
    ] = None,
    experiment: Annotated[
        str | None,
        typer.Argument(help="Experiment, such as classification; default: all of the task.", show_default=False),
    ] = None,
    list_all: Annotated[bool, typer.Option("--list", help="List the experiments and their progress.")] = False,
    tier: Annotated[str, typer.Option(help="Compute budget per cell: paper, cpu, frozen, finetuned or smoke.")] = "cpu",
    rounds: Annotated[
        str, typer.Option(help="Number of rounds, such as 3, or a list, such as 0,2 (a single round: 2,).")
    ] = "3",
    models: Annotated[
        str | None, typer.Option(help="Only these models, such as baseline,cap_vema.", show_default=False)
    ] = None,
    raw: Annotated[
        Path | None, typer.Option(help="Folder of the task's raw files.", show_default="the task's default")
    ] = None,
    results: Annotated[Path, typer.Option(help="Folder of finished cells; created if missing.")] = Path("docs/results"),
    work: Annotated[
        Path | None, typer.Option(help="Folder for unfinished runs.", show_default="experiments in the cache")
    ] = None,
    encoder: Annotated[str, typer.Option(help="Sentence encoder: minilm, a folder, or a name on the hub.")] = "minilm",
    parallel: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of cells to run in parallel; they share cores and GPUs.",
            show_default="1; with --ray one per GPU, or one per core",
        ),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(help="Address of a Ray cluster, or local; each cell is one Ray task.", show_default=False),
    ] = None,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Compute nothing; report existing results.")
    ] = False,
    form: Annotated[str, typer.Option("--format", help="terminal, markdown or html.")] = "terminal",
    out: Annotated[Path | None, typer.Option(help="Report file.", show_default="standard output")] = None,
    plots: Annotated[
        Path | None,
        typer.Option(help="Folder for figures (PNG and SVG).", show_default="no figures, except inside HTML"),
    ] = None,
    overwrite: OverwriteOption = False,
    pack: Annotated[
        bool, typer.Option("--pack", help="Only move finished cells into one file per tier and task.")
    ] = False,
    conclusions: Annotated[
        bool, typer.Option("--conclusions", help="Only judge the paper's claims on all tasks, from existing results.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Compute missing parts of the paper's tables and figures, and compare them with the published ones.

    Finished cells are never recomputed. After Ctrl-C or a kill, the same command resumes where it stopped.

    Example: miv reproduce qmnist classification --tier cpu --raw data/qmnist --parallel 2
    """
    from miv.reproduction.jobs import Job, JobFolders
    from miv.reproduction.tiers import find_tier

    budget = find_tier(tier)
    if form not in FORMATS:
        raise unknown_name("format", form, FORMATS)
    if json and form != "terminal":
        raise MIVError(f"--json and --format {form} cannot be combined. Use one of them.")
    if pack:
        if task is not None:
            raise MIVError(f"--pack packs all cells in {results} and takes no task. Remove {task}.")
        _pack(results)
        return
    if conclusions:
        if task is not None:
            raise MIVError(f"--conclusions judges all tasks at once. Remove {task}.")
        if out is not None:
            refuse_existing(out, overwrite=overwrite)
        from miv.reproduction.tables import conclude

        _write([conclude(results, tier, parse_rounds(rounds))], form, out, None, json=json)
        return
    places = JobFolders(results, work or cache_folder() / "experiments", cache_folder(), raw)
    numbers = parse_rounds(rounds)
    if task is None and not list_all:
        raise MIVError("The task is missing. Try `miv reproduce qmnist classification`; --list shows all experiments.")
    chosen = _choose(task, experiment, models)
    if task is None:
        chosen = [one for one in chosen if budget.takes(one.task)]
    for one in chosen:
        budget.check(one.task)
    jobs = {one: [Job(cell, tier, encoder) for cell in one.cells(numbers)] for one in chosen}
    if list_all:
        from miv.cli.reproduce_output import show_list

        show_list(jobs, places, json)
        return
    _refuse_output(chosen, tier, out, plots, overwrite=overwrite)
    if not report_only:
        everything = list(dict.fromkeys(job for some in jobs.values() for job in some))
        _compute(everything, places, parallel, ray)
    from miv.reproduction.comparison import CellEvidence
    from miv.reproduction.tables import build_section

    sections = [build_section(one, CellEvidence(one.task, tier, tuple(numbers), results, encoder)) for one in chosen]
    _write(sections, form, out, plots, json=json)


def _write(sections: "list[Section]", form: str, out: Path | None, plots: Path | None, *, json: bool) -> None:
    from miv.cli.reproduce_output import write_json_report, write_report

    if json:
        write_json_report(sections, out, plots)
    else:
        write_report(sections, form, out, plots)


def _refuse_output(
    chosen: "list[Experiment]", tier: str, out: Path | None, plots: Path | None, *, overwrite: bool
) -> None:
    """Raise an error before the work if the report or a figure exists."""
    if out is not None:
        refuse_existing(out, overwrite=overwrite)
    if plots is not None:
        from miv.reproduction.plots import plot_files

        names = [name for one in chosen for name in plot_files(tier, one.task, one.name)]
        refuse_existing_in(plots, names, overwrite=overwrite)


def _pack(results: Path) -> None:
    from miv.reproduction.results import pack_results

    packed = pack_results(results)
    for path, count in packed.items():
        typer.echo(f"Packed {count} cell{'s' * (count != 1)} into {path}.", err=True)
    if not packed:
        typer.echo(f"{results} has no cells to pack.", err=True)


def parse_rounds(text: str) -> list[int]:
    """Parse the round numbers.

    >>> parse_rounds("3"), parse_rounds("0,2"), parse_rounds("2,")
    ([0, 1, 2], [0, 2], [2])
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts if part) or not any(parts):
        raise MIVError(
            f"--rounds is {text!r}. Expected a number, such as 3, or a list, such as 0,2 (a single round: 2,)."
        )
    if len(parts) > 1:
        return sorted({int(part) for part in parts if part})
    if int(text) < 1:
        raise MIVError("--rounds is 0. Expected 1 or more; use --rounds 1 for the first round only.")
    return list(range(int(text)))


def _choose(task: str | None, experiment: str | None, models: str | None) -> "list[Experiment]":
    """The selected experiments, with the selected models."""
    from miv.reproduction.grids import EXPERIMENTS, find_experiments

    chosen = [one for name in EXPERIMENTS for one in find_experiments(name)]
    if task is not None:
        chosen = find_experiments(task, experiment)
    if models is None:
        return chosen
    wanted = list(dict.fromkeys(name for part in models.split(",") if (name := part.strip())))
    if not wanted:
        raise MIVError(f"--models is {models!r}. Expected names from `miv poolings`, such as baseline,cap_vema.")
    if experiment is not None:
        return [one.only(wanted) for one in chosen]
    taken = {one: [model for model in wanted if one.takes(model)] for one in chosen}
    return [one.only(some) for one, some in taken.items() if some]


def _compute(jobs: "list[Job]", places: "JobFolders", parallel: int | None, ray: str | None) -> None:
    from miv.reproduction.jobs import check_raw
    from miv.reproduction.outcomes import say_on_error_stream, split_jobs
    from miv.reproduction.runner import run_jobs

    check_raw(split_jobs(jobs, places.results)[1], places.raw)  # before 27 cells fail one by one
    try:
        if ray is None:
            failures = run_jobs(jobs, places, parallel or 1, say_on_error_stream)
        else:
            from miv.reproduction.ray_runner import run_on_ray

            failures = run_on_ray(jobs, places, ray, say_on_error_stream, parallel)
    except StoppedByUser as stopped:
        typer.echo(str(stopped), err=True)
        raise typer.Exit(stopped.exit_code) from None
    if failures:
        listing = "\n".join(f"  {failure.job}: {failure.reason}\n    log: {failure.log}" for failure in failures)
        raise MIVError(f"{len(failures)} of {len(jobs)} cells failed; the others are done.\n{listing}")
