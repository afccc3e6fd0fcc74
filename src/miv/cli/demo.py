"""``miv demo``: two verifiers trained and compared in a few minutes, with nothing to download."""

from pathlib import Path
from typing import Annotated

import typer

from miv.cli.app import app


@app.command("demo")
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write to.")] = Path("demo"),
) -> None:
    """Invent handwriting, train two verifiers on it, and show what they see.

    Takes under three minutes on two cores. What is in the folder already is not done again.
    """
    from miv.demo import run_demo
    from miv.memory import keep_memory
    from miv.progress import RichProgress

    keep_memory()
    print(run_demo(out, RichProgress()))
