"""``miv data``: build and inspect exemplar sets."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from miv.cli.app import JsonOption, OverwriteOption, app, print_result, say
from miv.cli.set_building import DataGroup, TaskGroup
from miv.files.atomic import refuse_existing

data_app = typer.Typer(help="Build and inspect exemplar sets.", cls=DataGroup, no_args_is_help=True)
app.add_typer(data_app, name="data")

build_app = typer.Typer(
    help="Build the splits of a task from its raw files, or from a seed for synthetic tasks.",
    cls=TaskGroup,
    no_args_is_help=True,
    subcommand_metavar="TASK --out DIR [OPTIONS]",
)
data_app.add_typer(build_app, name="build")


@build_app.callback()
def _build() -> None: ...


@data_app.command("inspect")
def inspect(
    folder: Annotated[Path, Argument(help="A saved set or a folder of splits.")],
    sheet: Annotated[Path | None, Option(help="Also write a contact sheet to this .html file.")] = None,
    exemplars: Annotated[int, Option(help="Number of exemplars on the contact sheet.")] = 50,
    seed: Annotated[int, Option(help="Random seed for choosing the exemplars on the sheet.", min=0)] = 0,
    overwrite: OverwriteOption = False,
    strict: Annotated[bool, Option("--strict", help="Exit with code 1 if the audit finds a leak.")] = False,
    json: JsonOption = False,
) -> None:
    """Print sizes, statistics and a leakage audit; --sheet also shows some exemplars.

    All hashes of the set are checked. The audit looks for queries in their own bag, classes or identical
    instances in two splits, and labels that contradict the witnesses.
    """
    from miv.data.inspection import inspect_folder
    from miv.data.sheet import write_contact_sheet

    if sheet is not None:
        refuse_existing(sheet, overwrite=overwrite)
    inspection = inspect_folder(folder)
    if sheet is not None:
        write_contact_sheet(inspection.sets, sheet, exemplars=exemplars, seed=seed)
        say(f"Wrote {sheet}.")
    print_result(inspection, json)
    if strict and inspection.findings:
        raise typer.Exit(1)
