"""``miv demo``: train and compare two verifiers in a few minutes, without downloads."""

from pathlib import Path
from typing import Annotated

from typer import Option

from miv.cli.app import app


@app.command("demo")
def demo(out: Annotated[Path, Option("--out", "-o", help="Folder to write to.")] = Path("demo")) -> None:
    """Invent handwriting, verify it with miv/digits, train two more verifiers, and show what they see.

    Takes under three minutes on two cores. Steps already finished in the folder are skipped.
    """
    from miv.cli.demo import run_demo
    from miv.runtime import RichProgress, keep_memory

    keep_memory()
    for part in run_demo(out, RichProgress()):
        print(part, end="\n\n", flush=True)
