"""What ``miv reproduce`` writes: the report, or the list of experiments."""

import sys
from collections.abc import Mapping, Sequence
from io import StringIO
from json import dumps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typer

from miv.cli.app import print_json
from miv.errors import MissingLibrary, MIVError
from miv.files.atomic import whole_file
from miv.reproduction.grids import Experiment
from miv.reproduction.jobs import Job, JobFolders, raw_folder
from miv.reproduction.results import find_result
from miv.reproduction.tables import Section, html_page, markdown, write_plots
from miv.runtime import table_of


def write_report(sections: Sequence[Section], form: str, out: Path | None, plots: Path | None) -> None:
    """Write the report to a file or to standard output; pictures go to a folder, or into the HTML."""
    with TemporaryDirectory() as temporary:
        drawn, folder = {}, plots or (Path(temporary) if form == "html" else None)
        if folder is not None:
            drawn = {section.key: write_plots(section, folder) for section in sections}
        if form == "json":
            text = dumps([section.document for section in sections], ensure_ascii=False, indent=2) + "\n"
        elif form == "html":
            text = html_page(sections, drawn)
        elif form == "markdown":
            text = markdown(sections, drawn, Path.cwd() if out is None else out.parent)
        else:
            from rich.console import Console
            from rich.markdown import Markdown

            wide = None if sys.stdout.isatty() and out is None else 160  # a file must not depend on the terminal width
            console = Console(width=wide, highlight=False, file=None if out is None else StringIO(), record=True)
            for section in sections:
                console.print(Markdown(section.markdown()))
            if out is None:
                return
            text = console.export_text()
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
