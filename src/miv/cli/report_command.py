"""``miv report``: write runs as one HTML file."""

from pathlib import Path
from typing import Annotated

import typer

from miv.cli.app import OverwriteOption, app
from miv.files.atomic import refuse_existing


@app.command("report")
def report(
    runs: Annotated[list[Path], typer.Argument(help="One or more run folders.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.")] = Path("report.html"),
    split: Annotated[str, typer.Option(help="Split to show.")] = "test",
    data: Annotated[Path | None, typer.Option(help="Folder of splits.", show_default="the data of the run")] = None,
    audit: Annotated[
        Path | None, typer.Option(help="Output of `miv audit --out FILE.json` for these runs.", show_default=False)
    ] = None,
    exemplars: Annotated[int, typer.Option(help="Maximum number of exemplars in the gallery.")] = 2000,
    title: Annotated[str, typer.Option(help="Page title.", show_default="the data and the split")] = "",
    overwrite: OverwriteOption = False,
) -> None:
    """Write the results of runs as one self-contained HTML page that works offline.

    Shows metrics, curves, calibration, training, and a gallery that compares the models on exemplars, the most
    confident errors first.

    Example: miv report runs/cap runs/baseline --out report.html
    """
    from miv.evaluation import check_report, open_runs, write_report
    from miv.files.cache import cache_folder
    from miv.runtime import RichProgress

    check_report(out, exemplars, audit)
    refuse_existing(out, overwrite=overwrite)
    source = open_runs(runs, split=split, data=data, cache=cache_folder(), progress=RichProgress())
    write_report(source, out, exemplars=exemplars, title=title, audit=audit)
    size = out.stat().st_size / 1e6
    typer.echo(f"Wrote {out} ({size:.1f} MB); open it in a browser.", err=True)
    print(out)
