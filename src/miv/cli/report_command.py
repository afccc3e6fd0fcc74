"""``miv report``: write runs as one HTML file."""

from pathlib import Path
from typing import Annotated

import typer

from miv.cli.app import OverwriteOption, app


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
    from miv.evaluation.workflows import report as write_report

    write_report(
        runs,
        out,
        split=split,
        data=data,
        audit=audit,
        exemplars=exemplars,
        title=title,
        overwrite=overwrite,
        verbose=True,
    )
    typer.echo(f"Wrote {out} ({out.stat().st_size / 1e6:.1f} MB); open it in a browser.", err=True)
    print(out)
