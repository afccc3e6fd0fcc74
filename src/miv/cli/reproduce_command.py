"""``miv reproduce``: the paper's tables and figures beside the published ones; ``miv poolings``: its models."""

import sys
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from miv.cli.app import JsonOption, OverwriteOption, app, print_json, say
from miv.errors import MissingLibrary, MIVError
from miv.files.atomic import refuse_existing, whole_file
from miv.files.cache import cache_folder

if TYPE_CHECKING:
    from miv.reproduction.grids import Experiment
    from miv.reproduction.jobs import Job, JobFolders
    from miv.reproduction.tables import Section

CHANNELS = 512  # of ResNet-18, the paper's backbone for QMNIST


@app.command("reproduce")
def reproduce(
    task: Annotated[
        str | None,
        typer.Argument(help="qmnist, signature, fever, fever-dev, claims, or a folder of your splits."),
    ] = None,
    experiment: Annotated[
        str | None, typer.Argument(help="Experiment, such as classification.", show_default="all of the task")
    ] = None,
    list_all: Annotated[bool, typer.Option("--list", help="List the experiments and their progress.")] = False,
    tier: Annotated[str, typer.Option(help="Compute budget per cell: paper, cpu, frozen, finetuned or smoke.")] = "cpu",
    rounds: Annotated[str, typer.Option(help="Number of rounds, or a list, such as 0,2 or 2, (with a comma).")] = "3",
    models: Annotated[str | None, typer.Option(help="Only these models, such as baseline,cap_vema.")] = None,
    raw: Annotated[Path | None, typer.Option(help="Folder of raw files.", show_default="the task's default")] = None,
    results: Annotated[
        Path | None,
        typer.Option(
            help="Folder of finished cells; created if missing.", show_default="docs/results; of own splits, reproduced"
        ),
    ] = None,
    work: Annotated[Path | None, typer.Option(help="Folder for unfinished runs.", show_default="in the cache")] = None,
    encoder: Annotated[
        str, typer.Option(help="Of texts: minilm, a folder, or a name on the hub. Of your own images: a backbone.")
    ] = "minilm",
    parallel: Annotated[int, typer.Option(min=1, help="Number of cells to run in parallel; they share cores.")] = 1,
    report_only: Annotated[bool, typer.Option("--report-only", help="Only report existing results.")] = False,
    out: Annotated[Path | None, typer.Option(help="Markdown file to write.", show_default="standard output")] = None,
    plots: Annotated[Path | None, typer.Option(help="Folder for figures (PNG and SVG).")] = None,
    overwrite: OverwriteOption = False,
    conclusions: Annotated[bool, typer.Option("--conclusions", help="Only judge the paper's claims.")] = False,
    json: JsonOption = False,
) -> None:
    """Compute missing parts of the paper's tables and figures, and compare them with the published ones.

    Finished cells are kept. After Ctrl-C or a kill, the same command resumes where it stopped.

    Example: miv reproduce qmnist classification --tier cpu --raw data/qmnist --parallel 2
    Example: miv reproduce my-splits ablation --rounds 3
    """
    from miv.reproduction.grids import OF_PAPER
    from miv.reproduction.jobs import OWN, Job, JobFolders, find_tier

    is_own = task is not None and task not in OF_PAPER and Path(task).is_dir()
    tier = OWN if is_own else tier
    results = results or Path("reproduced" if is_own else "docs/results")
    budget, numbers = find_tier(tier), parse_rounds(rounds)
    if out is not None and not list_all:
        refuse_existing(out, overwrite=overwrite)
    if conclusions:
        if task is not None:
            raise MIVError(f"--conclusions is for all tasks at once. Remove {task}.")
        from miv.reproduction.tables import conclude

        if not results.is_dir():
            _say_where(results)
        _write_report([conclude(results, tier, numbers)], json, out, None)
        return
    if task is None and not list_all:
        raise MIVError("The task is missing. Try `miv reproduce qmnist classification`; --list shows all experiments.")
    chosen = _choose(task, experiment, models)
    if task is None:
        chosen = [table for table in chosen if budget.takes(table.task)]
    else:
        budget.check(task)
    places = JobFolders(results, work or cache_folder() / "experiments", cache_folder(), raw)
    jobs = {table: [Job(cell, tier, encoder) for cell in table.cells(numbers)] for table in chosen}
    if list_all:
        _show_list(jobs, places, json)
        return
    if plots is not None:
        from miv.reproduction.tables import plot_files

        for name in [name for table in chosen for name in plot_files(tier, table.task, table.name)]:
            refuse_existing(plots / name, overwrite=overwrite)
    if not report_only:
        _compute(list(dict.fromkeys(job for some in jobs.values() for job in some)), places, parallel)
    from miv.reproduction.comparison import CellEvidence
    from miv.reproduction.tables import build_section

    evidence = [CellEvidence(table.task, tier, tuple(numbers), results, encoder) for table in chosen]
    if not any(one.of(row.setup) for table, one in zip(chosen, evidence, strict=True) for row in table.rows):
        _say_where(results)
    _write_report(list(map(build_section, chosen, evidence)), json, out, plots)


def parse_rounds(text: str) -> list[int]:
    """Parse the round numbers.

    >>> parse_rounds("3"), parse_rounds("0,2"), parse_rounds("2,")
    ([0, 1, 2], [0, 2], [2])
    """
    parts = [part.strip() for part in text.split(",")]
    numbers = [int(part) for part in parts if part.isdecimal()]
    if len(numbers) < sum(map(bool, parts)) or not numbers or (len(parts) == 1 and not numbers[0]):
        raise MIVError(f"--rounds is {text!r}. Expected a number from 1, such as 3, or a list, such as 0,2 or 2,.")
    return sorted(set(numbers)) if len(parts) > 1 else list(range(numbers[0]))


def _choose(task: str | None, experiment: str | None, models: str | None) -> "list[Experiment]":
    """The selected experiments, with the selected models."""
    from miv.reproduction.grids import EXPERIMENTS, find_experiments

    tasks = EXPERIMENTS if task is None else [task]
    chosen = [table for name in tasks for table in find_experiments(name, experiment)]
    if models is None:
        return chosen
    wanted = list(dict.fromkeys(name for part in models.split(",") if (name := part.strip())))
    if not wanted:
        raise MIVError(f"--models is {models!r}. Expected names from `miv poolings`, such as baseline,cap_vema.")
    if experiment is not None:
        return [table.only(wanted) for table in chosen]
    by_table = {table: [model for model in wanted if table.takes(model)] for table in chosen}
    return [table.only(some) for table, some in by_table.items() if some]


def _compute(jobs: "list[Job]", places: "JobFolders", parallel: int) -> None:
    from miv.reproduction.cells import run_jobs, split_jobs
    from miv.reproduction.jobs import check_raw

    check_raw(split_jobs(jobs, places.results)[1], places.raw)  # before 27 cells fail one by one
    failures = run_jobs(jobs, places, parallel, say)
    if failures:
        listing = "\n".join(f"  {job}: {why}\n    log: {job.log(places.work)}" for job, why in failures.items())
        raise MIVError(f"{len(failures)} of {len(jobs)} cells failed; the others are done.\n{listing}")


def _write_report(sections: "list[Section]", json: bool, out: Path | None, plots: Path | None) -> None:
    """Write the report as JSON, as Markdown to a file, or for the terminal; and its plots to a folder."""
    from miv.reproduction.tables import markdown, write_plots

    drawn = {} if plots is None else {section.key: write_plots(section, plots) for section in sections}
    if plots is not None:
        say(f"Wrote {sum(map(len, drawn.values()))} plots to {plots}.")
    if out is None and not json:
        from rich.console import Console
        from rich.markdown import Markdown

        console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
        for section in sections:
            console.print(Markdown(section.markdown()))
        return
    documents = [section.document for section in sections]
    if out is None:
        print_json(documents)
        return
    with whole_file(out) as temporary_file:
        text = f"{dumps(documents, ensure_ascii=False, indent=2)}\n" if json else markdown(sections, drawn, out.parent)
        temporary_file.write_text(text, encoding="utf-8")
    say(f"Wrote {out}.")


def _say_where(results: Path) -> None:
    say(f"There are no finished cells in {results.resolve()}. --results names another folder.")


def _show_list(jobs: "dict[Experiment, list[Job]]", places: "JobFolders", json: bool) -> None:
    """Print every experiment and how many of its cells are done; note rejected results next to it."""
    from miv.reproduction.jobs import raw_folder
    from miv.reproduction.results import find_result
    from miv.runtime import table_of

    accepted: dict[Job, bool] = {}
    for job in dict.fromkeys(job for some in jobs.values() for job in some):
        try:
            accepted[job] = find_result(job, places.results) is not None
        except MissingLibrary:  # one error, not one for every cell
            raise
        except MIVError as error:
            say(f"Not counted: {error}")
            accepted[job] = False
    rows = [
        {
            "task": experiment.task,
            "experiment": experiment.name,
            "paper": experiment.source,
            "cells": len(some),
            "done": sum(accepted[job] for job in some),
            "raw": str(raw_folder(some[0], places.raw) or "none needed"),
            "shows": experiment.title,
        }
        for experiment, some in jobs.items()
    ]
    print_json(rows) if json else print(table_of(rows))
    if not any(accepted.values()):
        _say_where(places.results)


@app.command()
def poolings(json: JsonOption = False) -> None:
    """List the models: those of the paper, and the plain method `nearest`.

    Shows the section in the paper, the number of parameters for 512 channels, whether the model has attention,
    and its options; --json adds their defaults.
    """
    import torch

    from miv.poolings import POOLINGS
    from miv.runtime import aligned_table

    rows: list[dict[str, Any]] = []
    for entry in POOLINGS:
        with torch.device("meta"):
            parameters = sum(weight.numel() for weight in entry.make(CHANNELS).parameters() if weight.requires_grad)
        options = {name: option.default for name, option in entry.options.items() if name != "channels"}
        row: dict[str, Any] = {"name": entry.name, "section": entry.section, "parameters": parameters}
        row |= {"has_attention": entry.make.has_attention, "options": options, "summary": entry.summary}
        rows.append(row)
    if json:
        print_json(rows)
        return
    table = []
    for row in rows:
        attention = "yes" if row["has_attention"] else "no"
        table.append([row["name"], row["section"], f"{row['parameters']:,}", attention, ", ".join(row["options"])])
    print(aligned_table(["pooling", "section", "parameters", "attention", "options"], table, left=(0, 1, 3, 4)))
