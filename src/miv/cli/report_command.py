"""``miv report``: runs as one HTML file to look at."""

from pathlib import Path
from typing import Annotated

import typer

from miv.cli.app import OverwriteOption, app
from miv.io.whole_files import refuse_existing


@app.command("report")
def report(
    runs: Annotated[list[Path], typer.Argument(help="The folders of one or more runs.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file to write.")] = Path("report.html"),
    split: Annotated[str, typer.Option(help="The split whose answers are shown.")] = "test",
    data: Annotated[
        Path | None, typer.Option(help="The folder of splits.", show_default="where the run found its data")
    ] = None,
    audit: Annotated[
        Path | None, typer.Option(help="What `miv audit --out FILE.json` wrote for these runs.", show_default=False)
    ] = None,
    exemplars: Annotated[int, typer.Option(help="How many exemplars the gallery holds at most.")] = 2000,
    title: Annotated[str, typer.Option(help="Of the page.", show_default="the data and the split")] = "",
    overwrite: OverwriteOption = False,
) -> None:
    """Write what runs answered as one HTML page that needs no other file and no network.

    Metrics, curves, calibration, training, and a gallery of exemplars in which the models stand side by side, the most
    confident errors first.

    Example: miv report runs/cap runs/baseline --out report.html
    """
    from miv.io.cache_folder import cache_folder
    from miv.report import check_report, open_runs, write_report
    from miv.runtime.progress import RichProgress

    check_report(out, exemplars, audit)
    refuse_existing(out, overwrite=overwrite)
    source = open_runs(runs, split=split, data=data, cache=cache_folder(), progress=RichProgress())
    write_report(source, out, exemplars=exemplars, title=title, audit=audit)
    size = out.stat().st_size / 1e6
    typer.echo(f"Wrote {out} ({size:.1f} MB); open it in a browser.", err=True)
    print(out)
