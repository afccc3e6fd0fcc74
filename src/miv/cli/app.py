"""The command line's frame: commands, version, and errors without tracebacks."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from miv import __version__
from miv.errors import MIVError, MIVWarning
from miv.io.json_files import json_text
from miv.runtime.stopping import CTRL_C, Terminated, raising_on_terminate

app = typer.Typer(
    name="miv",
    help="Multiple instance verification: does a bag hold something of the query's class, and what shows it?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
CacheOption = Annotated[
    Path | None,
    typer.Option(help="Folder of cached features.", show_default="MIV_CACHE_DIR or ~/.cache/miv"),
]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Overwrite existing output.")]


def print_json(document: Any) -> None:
    """Write a result to standard output as JSON; everything that is not a result goes to standard error."""
    print(json_text(document))


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"miv {__version__}")
        raise typer.Exit


@app.callback()
def _frame(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None: ...


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Print our own warnings without file and line number."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def show_ours(message: Warning | str, *where: Any, **more: Any) -> None:
            if isinstance(message, MIVWarning):
                print(f"Warning: {message}", file=sys.stderr)
            else:
                show(message, *where, **more)

        warnings.showwarning = show_ours
        yield


def main() -> None:
    """Run a command; an error becomes one message and exit code 1, Ctrl-C exit code 130, SIGTERM 143."""
    try:
        with _warnings_in_one_line(), raising_on_terminate():
            app()
    except MIVError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(1)
    except MemoryError as error:
        print(f"Error: Out of memory{f' ({error})' if str(error) else ''}. Use less data.", file=sys.stderr)
        sys.exit(1)
    except OSError as error:
        named = f"{error.filename}: " if error.filename else ""
        print(f"Error: {named}{error.strerror or error}.", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        sys.exit(CTRL_C)
    except Terminated:
        print("Stopped by SIGTERM.", file=sys.stderr)
        raise
