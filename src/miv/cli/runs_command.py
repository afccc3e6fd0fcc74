"""``miv runs``: list the runs in a folder, and compare runs."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from miv.cli.app import JsonOption, app, print_json
from miv.runtime import table_of

runs_app = typer.Typer(help="List and compare runs.", no_args_is_help=True)
app.add_typer(runs_app, name="runs")

SplitOption = Annotated[str, Option(help="Split to show metrics for.")]


@runs_app.command("list")
def list_runs(
    folder: Annotated[Path, Argument(help="Folder of runs.")] = Path("runs"),
    split: SplitOption = "test",
    json: JsonOption = False,
) -> None:
    """List the runs in a folder with their metrics."""
    from miv.errors import MIVError
    from miv.evaluation.runs import find_runs, summarise_runs

    if not folder.is_dir():
        raise MIVError(f"There is no folder {folder}. Expected a folder of runs of `miv train`.")
    rows = summarise_runs(find_runs(folder), split, keep_damaged=True)
    print_json(rows) if json else print(table_of(rows))


@runs_app.command("compare")
def compare(
    runs: Annotated[list[Path], Argument(help="Run folders.")], split: SplitOption = "test", json: JsonOption = False
) -> None:
    """Compare runs: metrics with intervals, paired tests against the first run, and the settings that differ."""
    from miv.evaluation.run_comparison import compare_runs, comparison_text

    rows = compare_runs(runs, split)
    print_json(rows) if json else print(comparison_text(rows))
