"""``miv reproduce``: the paper's tables and figures, computed where they are missing, beside what was published."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from miv.cli.app import JsonOption, app
from miv.errors import MIVError, StoppedByUser, unknown_name
from miv.io.cache_folder import cache_folder

if TYPE_CHECKING:
    from miv.experiments.grids import Experiment
    from miv.experiments.jobs import Job, JobFolders

FORMATS = ("terminal", "markdown", "html")


@app.command("reproduce")
def reproduce(
    task: Annotated[str | None, typer.Argument(help="qmnist, signature, fever or claims.", show_default=False)] = None,
    experiment: Annotated[
        str | None, typer.Argument(help="Such as classification; all of the task by default.", show_default=False)
    ] = None,
    list_all: Annotated[
        bool, typer.Option("--list", help="List the experiments and how much of each is done.")
    ] = False,
    tier: Annotated[str, typer.Option(help="paper, cpu or smoke: what a cell may cost.")] = "cpu",
    rounds: Annotated[
        str, typer.Option(help="How many rounds, such as 3, or which, such as 0,2 (one alone: 2,).")
    ] = "3",
    models: Annotated[
        str | None, typer.Option(help="Only these models, such as baseline,cap_vema.", show_default=False)
    ] = None,
    raw: Annotated[
        Path | None, typer.Option(help="Folder of the task's raw files.", show_default="as the task expects")
    ] = None,
    results: Annotated[Path, typer.Option(help="Folder of finished cells; made where there is none.")] = Path(
        "docs/results"
    ),
    work: Annotated[
        Path | None, typer.Option(help="Folder of trainings under way.", show_default="experiments in the cache")
    ] = None,
    encoder: Annotated[
        str, typer.Option(help="Encoder of sentences: minilm, a folder, or a name on the hub.")
    ] = "minilm",
    parallel: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Cells that run side by side, each on its share of cores and GPUs.",
            show_default="1; with --ray one a GPU, or one a core",
        ),
    ] = None,
    ray: Annotated[
        str | None, typer.Option(help="Address of a Ray cluster, or local: each cell is a task.", show_default=False)
    ] = None,
    report_only: Annotated[bool, typer.Option("--report-only", help="Compute nothing; show what is there.")] = False,
    form: Annotated[str, typer.Option("--format", help="terminal, markdown or html.")] = "terminal",
    out: Annotated[Path | None, typer.Option(help="File of the report.", show_default="standard output")] = None,
    plots: Annotated[
        Path | None, typer.Option(help="Folder for the pictures, PNG and SVG.", show_default="none but those in HTML")
    ] = None,
    pack: Annotated[
        bool, typer.Option("--pack", help="Move finished cells into one file per tier and task, and compute nothing.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Compute what is missing of the paper's tables and figures, and compare it with what was published.

    A finished cell is never computed again. Ctrl-C saves, and the same command goes on, also after a kill.

    Example: miv reproduce qmnist classification --tier cpu --raw data/qmnist --parallel 2
    """
    from miv.experiments.jobs import Job, JobFolders
    from miv.experiments.tiers import find_tier

    find_tier(tier)
    if form not in FORMATS:
        raise unknown_name("format", form, FORMATS)
    if json and form != "terminal":
        raise MIVError(f"--json and --format {form} are two forms of one report. Give one of them.")
    if pack:
        if task is not None:
            raise MIVError(f"--pack packs all cells in {results}. Give it without {task}.")
        _pack(results)
        return
    places = JobFolders(results, work or cache_folder() / "experiments", cache_folder(), raw)
    numbers = parse_rounds(rounds)
    if task is None and not list_all:
        raise MIVError("Say what to reproduce, such as `miv reproduce qmnist classification`; --list shows all.")
    chosen = _choose(task, experiment, models)
    jobs = {one: [Job(cell, tier, encoder) for cell in one.cells(numbers)] for one in chosen}
    if list_all:
        from miv.cli.reproduce_output import show_list

        show_list(jobs, places, json)
        return
    if not report_only:
        everything = list(dict.fromkeys(job for some in jobs.values() for job in some))
        _compute(everything, places, parallel, ray)
    from miv.cli.reproduce_output import write_json_report, write_report
    from miv.experiments.comparison import CellEvidence
    from miv.experiments.experiment_report import build_section

    sections = [build_section(one, CellEvidence(one.task, tier, tuple(numbers), results, encoder)) for one in chosen]
    if json:
        write_json_report(sections, out, plots)
    else:
        write_report(sections, form, out, plots)


def _pack(results: Path) -> None:
    from miv.experiments.results import pack_results

    packed = pack_results(results)
    for path, count in packed.items():
        typer.echo(f"Packed {count} cell{'s' * (count != 1)} into {path}.", err=True)
    if not packed:
        typer.echo(f"There is no cell in {results} that is not packed yet.", err=True)


def parse_rounds(text: str) -> list[int]:
    """The numbers of the rounds.

    >>> parse_rounds("3"), parse_rounds("0,2"), parse_rounds("2,")
    ([0, 1, 2], [0, 2], [2])
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts if part) or not any(parts):
        raise MIVError(f"--rounds is {text!r}. Expected how many, such as 3, or which, such as 0,2 (one alone: 2,).")
    if len(parts) > 1:
        return sorted({int(part) for part in parts if part})
    if int(text) < 1:
        raise MIVError("--rounds is 0. Expected 1 or more; the first round alone is --rounds 1.")
    return list(range(int(text)))


def _choose(task: str | None, experiment: str | None, models: str | None) -> "list[Experiment]":
    """The experiments that were asked for, with the models that were asked for."""
    from miv.experiments.grids import EXPERIMENTS, find_experiments

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
    from miv.experiments.cells import check_raw
    from miv.experiments.outcomes import say_on_error_stream, split_jobs
    from miv.experiments.runner import run_jobs

    check_raw(split_jobs(jobs, places.results)[1], places.raw)  # before 27 cells fail one by one
    try:
        if ray is None:
            failures = run_jobs(jobs, places, parallel or 1, say_on_error_stream)
        else:
            from miv.experiments.ray_runner import run_on_ray

            failures = run_on_ray(jobs, places, ray, say_on_error_stream, parallel)
    except StoppedByUser as stopped:
        typer.echo(str(stopped), err=True)
        raise typer.Exit(130) from None
    if failures:
        listing = "\n".join(f"  {failure.job}: {failure.reason}\n    log: {failure.log}" for failure in failures)
        raise MIVError(f"{len(failures)} of {len(jobs)} cells failed; the others are done.\n{listing}")
