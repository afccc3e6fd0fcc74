"""``miv report``: write runs as one HTML file."""

from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from miv.cli.app import OverwriteOption, app, say


@app.command("report")
def report(
    runs: Annotated[list[Path], Argument(help="One or more run folders.")],
    out: Annotated[Path, Option("--out", "-o", help="HTML file to write.")] = Path("report.html"),
    split: Annotated[str, Option(help="Split to show.")] = "test",
    data: Annotated[Path | None, Option(help="Folder of splits.", show_default="the data of the run")] = None,
    exemplars: Annotated[int, Option(help="Maximum number of exemplars in the gallery.")] = 2000,
    title: Annotated[str, Option(help="Page title.", show_default="the data and the split")] = "",
    overwrite: OverwriteOption = False,
) -> None:
    """Write the results of runs as one self-contained HTML page that works offline.

    Shows metrics, curves, calibration, and a gallery that compares the models on exemplars, the most
    confident errors first.

    Example: miv report runs/cap runs/baseline --out report.html
    """
    from miv.evaluation.workflows import report as write_report

    write = partial(write_report, split=split, data=data, exemplars=exemplars, title=title)
    write(runs, out, overwrite=overwrite, verbose=True)
    say(f"Wrote {out} ({out.stat().st_size / 1e6:.1f} MB); open it in a browser.")
    print(out)
