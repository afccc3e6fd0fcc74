"""``miv runs``: the runs of a folder, and several side by side."""

from pathlib import Path
from typing import Annotated, Any

import typer

from miv.cli.app import JsonOption, app, print_json

runs_app = typer.Typer(help="List runs, and compare them.", no_args_is_help=True)
app.add_typer(runs_app, name="runs")

SplitOption = Annotated[str, typer.Option(help="The split whose metrics are shown.")]


@runs_app.command("list")
def list_runs(
    folder: Annotated[Path, typer.Argument(help="Where the runs are.")] = Path("runs"),
    split: SplitOption = "test",
    json: JsonOption = False,
) -> None:
    """List the runs below a folder, with what came out."""
    from miv.errors import MIVError
    from miv.training.run_table import find_runs, summarise_runs

    if not folder.is_dir():
        raise MIVError(f"There is no folder {folder}. Expected one that holds runs of `miv train`.")
    _show(summarise_runs(find_runs(folder), split), json)


@runs_app.command("compare")
def compare(
    runs: Annotated[list[Path], typer.Argument(help="The folders of runs.", show_default=False)],
    split: SplitOption = "test",
    json: JsonOption = False,
) -> None:
    """Show runs side by side: the metrics, and the settings in which they differ."""
    from miv.training.run_table import compare_runs

    _show(compare_runs(runs, split), json)


def _show(rows: list[dict[str, Any]], json: bool) -> None:
    if json:
        print_json(rows)
    else:
        from miv.runtime.aligned_table import table_of

        print(table_of(rows))
