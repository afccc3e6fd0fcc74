"""What ``miv reproduce`` writes: the report, or the list of experiments."""

import sys
from collections.abc import Mapping, Sequence
from json import dumps
from pathlib import Path
from typing import Any

import typer

from miv.cli.app import print_json
from miv.errors import MissingLibrary, MIVError
from miv.files.atomic import whole_file
from miv.reproduction.grids import Experiment
from miv.reproduction.jobs import Job, JobFolders, raw_folder
from miv.reproduction.results import find_result
from miv.reproduction.tables import Section, markdown, write_plots
from miv.runtime import table_of


def write_report(sections: Sequence[Section], json: bool, out: Path | None, plots: Path | None) -> None:
    """Write the report as JSON, as Markdown to a file, or for the terminal; and its plots to a folder."""
    drawn = {} if plots is None else {section.key: write_plots(section, plots) for section in sections}
    if plots is not None:
        typer.echo(f"Wrote {sum(map(len, drawn.values()))} plots to {plots}.", err=True)
    if json:
        text = dumps([section.document for section in sections], ensure_ascii=False, indent=2) + "\n"
    elif out is not None:
        text = markdown(sections, drawn, out.parent)
    else:
        from rich.console import Console
        from rich.markdown import Markdown

        console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
        for section in sections:
            console.print(Markdown(section.markdown()))
        return
    if out is None:
        print(text, end="")
        return
    with whole_file(out) as temporary_file:
        temporary_file.write_text(text, encoding="utf-8")
    typer.echo(f"Wrote {out}.", err=True)


def show_list(jobs: Mapping[Experiment, Sequence[Job]], places: JobFolders, json: bool) -> None:
    """Print every experiment and how many of its cells are done; note rejected results next to it."""
    accepted: dict[Job, bool] = {}
    for job in dict.fromkeys(job for some in jobs.values() for job in some):
        try:
            accepted[job] = find_result(job, places.results) is not None
        except MissingLibrary:  # one error, not one for every cell
            raise
        except MIVError as error:
            typer.echo(f"Not counted: {error}", err=True)
            accepted[job] = False
    rows: list[dict[str, Any]] = [
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
    if json:
        print_json(rows)
    else:
        print(table_of(rows))
