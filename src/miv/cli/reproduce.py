"""``miv reproduce``: the paper's tables and figures, computed where they are missing, beside what was published."""

import sys
from io import StringIO
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from miv.cache_folder import cache_folder
from miv.cli.app import JsonOption, app, print_json
from miv.errors import MivError, unknown_name

if TYPE_CHECKING:
    from miv.experiments.grids import Experiment
    from miv.experiments.jobs import Job, Places
    from miv.experiments.report import Section

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
        str | None,
        typer.Option(
            help="How many rounds, such as 3, or which, such as 0,2 (one alone: 2,).",
            show_default="what is there where the first round is complete, else 3",
        ),
    ] = None,
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
    parallel: Annotated[int, typer.Option(min=1, help="Cells that run side by side, each on its share of cores.")] = 1,
    ray: Annotated[
        str | None, typer.Option(help="Address of a Ray cluster, or local: each cell is a task.", show_default=False)
    ] = None,
    report_only: Annotated[bool, typer.Option("--report-only", help="Compute nothing; show what is there.")] = False,
    form: Annotated[str, typer.Option("--format", help="terminal, markdown or html.")] = "terminal",
    out: Annotated[Path | None, typer.Option(help="File of the report.", show_default="standard output")] = None,
    plots: Annotated[
        Path | None, typer.Option(help="Folder for the pictures, PNG and SVG.", show_default="none but those in HTML")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Compute what is missing of the paper's tables and figures, and compare it with what was published.

    A finished cell is never computed again. Ctrl-C saves, and the same command goes on, also after a kill.

    Example: miv reproduce qmnist classification --tier cpu --raw data/qmnist --parallel 2
    """
    from miv.experiments.grids import EXPERIMENTS, ROUNDS, find_experiments
    from miv.experiments.jobs import Places
    from miv.experiments.tiers import find_tier

    find_tier(tier)
    if form not in FORMATS:
        raise unknown_name("format", form, FORMATS)
    places = Places(results, work or cache_folder() / "experiments", cache_folder(), raw)
    numbers = parse_rounds(rounds or str(ROUNDS))
    if task is None and not list_all:
        raise MivError("Say what to reproduce, such as `miv reproduce qmnist classification`; --list shows all.")
    chosen = (
        [one for name in EXPERIMENTS for one in find_experiments(name)]
        if task is None
        else find_experiments(task, experiment)
    )
    if models is not None:
        wanted = [name.strip() for name in models.split(",")]
        chosen = [one.only(wanted) for one in chosen if experiment is not None or one.has_any(wanted)]
    jobs = {one: _jobs(one, tier, encoder, numbers) for one in chosen}
    if list_all:
        _list(jobs, places, json)
        return
    everything = list(dict.fromkeys(job for some in jobs.values() for job in some))
    if not report_only and not (rounds is None and _has_first_round(everything, places)):
        _compute(everything, places, parallel, ray)
    from miv.experiments.report import build_section
    from miv.experiments.verdict import Evidence

    sections = [build_section(one, Evidence(one.task, tier, tuple(numbers), results, encoder)) for one in chosen]
    _report(sections, form, out, plots, json)


def parse_rounds(text: str) -> list[int]:
    """The numbers of the rounds.

    >>> parse_rounds("3"), parse_rounds("0,2"), parse_rounds("2,")
    ([0, 1, 2], [0, 2], [2])
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts if part) or not any(parts):
        raise MivError(f"--rounds is {text!r}. Expected how many, such as 3, or which, such as 0,2 (one alone: 2,).")
    if len(parts) > 1:
        return sorted({int(part) for part in parts if part})
    if int(text) < 1:
        raise MivError("--rounds is 0. Expected 1 or more; the first round alone is --rounds 1.")
    return list(range(int(text)))


def _jobs(experiment: "Experiment", tier: str, encoder: str, rounds: list[int]) -> "list[Job]":
    from miv.experiments.jobs import Job

    return [Job(cell, tier, encoder) for cell in experiment.cells(rounds)]


def _has_first_round(jobs: "list[Job]", places: "Places") -> bool:
    """Whether there is a whole table to show; who wants the rest of the rounds computed says how many."""
    from miv.experiments.runner import missing_jobs

    missing = missing_jobs(jobs, places.results)
    if any(job.cell.round == 0 for job in missing):
        return False
    if missing:
        typer.echo(
            f"{len(jobs) - len(missing)} of {len(jobs)} cells are there; --rounds 3 computes the rest.", err=True
        )
    return True


def _compute(jobs: "list[Job]", places: "Places", parallel: int, ray: str | None) -> None:
    from miv.experiments.cells import check_raw
    from miv.experiments.runner import StoppedByUser, missing_jobs, run_jobs, say_on_error_stream

    for job in missing_jobs(jobs, places.results)[:1]:  # before 27 cells fail one by one
        check_raw(job, places.raw)
    try:
        if ray is None:
            failures = run_jobs(jobs, places, parallel, say_on_error_stream)
        else:
            from miv.experiments.ray_runner import run_on_ray

            failures = run_on_ray(jobs, places, ray, say_on_error_stream)
    except StoppedByUser as stopped:
        typer.echo(str(stopped), err=True)
        raise typer.Exit(130) from None
    if failures:
        listing = "\n".join(f"  {failure.job}: {failure.reason}\n    log: {failure.log}" for failure in failures)
        raise MivError(f"{len(failures)} of {len(jobs)} cells failed; the others are done.\n{listing}")


def _report(sections: "list[Section]", form: str, out: Path | None, plots: Path | None, json: bool) -> None:
    """Write the report to a file or to standard output; pictures go to a folder, or into the HTML."""
    from tempfile import TemporaryDirectory

    from miv.experiments.render import html_page, key, markdown, print_terminal

    if json:
        _write(dumps([section.document() for section in sections], ensure_ascii=False, indent=2) + "\n", out)
        return
    with TemporaryDirectory() as temporary:
        folder = plots or (Path(temporary) if form == "html" else None)
        drawn: dict[str, list[Path]] = {}
        if folder is not None:
            from miv.experiments.plots import write_plots

            drawn = {key(section): write_plots(section, folder) for section in sections}
        if form == "html":
            _write(html_page(sections, drawn), out)
        elif form == "markdown":
            _write(markdown(sections, drawn, Path.cwd() if out is None else out.parent), out)
        else:
            from rich.console import Console

            wide = None if sys.stdout.isatty() and out is None else 160  # a file shall not depend on the terminal
            console = Console(width=wide, highlight=False, file=None if out is None else StringIO(), record=True)
            print_terminal(sections, console)
            if out is not None:
                _write(console.export_text(), out)


def _write(text: str, out: Path | None) -> None:
    if out is None:
        print(text, end="")
        return
    from miv.files import whole_file

    with whole_file(out) as temporary:
        temporary.write_text(text, encoding="utf-8")
    typer.echo(f"Wrote {out}.", err=True)


def _list(jobs: "dict[Experiment, list[Job]]", places: "Places", json: bool) -> None:
    from miv.experiments.cells import raw_folder
    from miv.experiments.results import RESULT

    rows: list[dict[str, Any]] = []
    for experiment, some in jobs.items():
        raw = raw_folder(some[0], places.raw)
        # That a result is of another setting is for the report to say; a list must always be had.
        done = sum((job.result_folder(places.results) / RESULT).is_file() for job in some)
        rows.append(
            {
                "task": experiment.task,
                "experiment": experiment.name,
                "paper": experiment.source,
                "cells": len(some),
                "done": done,
                "raw": "none needed" if raw is None else str(raw),
                "shows": experiment.title,
            }
        )
    if json:
        print_json(rows)
        return
    from miv.training.compare import table

    print(table(rows))
