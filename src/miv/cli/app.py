"""The command line's frame: commands, version, and errors without tracebacks."""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer
from typer import Argument, Option

from miv import __version__
from miv.cli.help import ALL, Commands
from miv.errors import MIVError, MIVWarning, StoppedByUser
from miv.files.json import json_text
from miv.registry import add_modules
from miv.runtime import CTRL_C, Terminated, raising_on_terminate

if TYPE_CHECKING:
    from miv.verifier.network import Verifier

app = typer.Typer(
    name="miv",
    cls=Commands,
    help="Multiple instance verification: does a bag contain the query's class, and which instances show it?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help", ALL]},
)

JsonOption = Annotated[bool, Option("--json", help="Print one JSON document instead of a table.")]
CacheOption = Annotated[
    Path | None, Option(help="Folder of cached features and built sets.", show_default="MIV_CACHE_DIR or ~/.cache/miv")
]
ModelArgument = Annotated[str, Argument(help="A run, a verifier folder, or a name on the hub.")]
ResizeOption = Annotated[
    Literal["stretch", "crop", "pad"] | None, Option(help="Resize images to the training size: stretch, crop or pad.")
]
WitnessesOption = Annotated[
    Literal["attention", "alone", "leave_one_out", "none"] | None,
    Option(
        help="How to choose witnesses; none skips them. Default: as calibrated, else attention if the pooling has it, "
        "else leave_one_out, which verifies a bag of N another N times."
    ),
]
RawOption = Annotated[Path | None, Option(help="Folder of a task's raw files.")]
TaskOption = Annotated[list[str] | None, Option(help="Task option as key=value; repeatable.")]
OverwriteOption = Annotated[bool, Option("--overwrite", help="Overwrite existing output.")]


def open_verifier(model: str) -> "Verifier":
    """Load the verifier of a command; an unfinished run is an error with the command that resumes it."""
    from miv.evaluation.runs import refuse_unfinished
    from miv.verifier.network import Verifier

    refuse_unfinished(Path(model))
    return Verifier.from_pretrained(model)


def check_page(html: Path | None, overwrite: bool) -> None:
    """Refuse a page that could not be written, before the work."""
    if html is not None:
        from miv.files.atomic import refuse_existing
        from miv.verifier.display import check_page

        check_page(html)
        refuse_existing(html, overwrite=overwrite)


def print_json(document: Any) -> None:
    """Write a result to standard output as JSON."""
    print(json_text(document, getattr(sys.stdout, "encoding", None) or "utf-8"))


def print_result(result: Any, json: bool) -> None:
    """Print a result as JSON or as text."""
    print_json(result.document()) if json else print(result.text())


def say(text: str) -> None:
    """Write what is not a result to standard error."""
    typer.echo(text, err=True)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"miv {__version__}")
        raise typer.Exit


@app.callback()
def _frame(
    version: Annotated[
        bool, Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
    modules: Annotated[
        list[str] | None,
        Option(
            "--import",
            metavar="MODULE",
            help="Import a module or .py file with your own poolings, backbones, tasks or recipes; repeatable, for any "
            "command. So does MIV_IMPORT.",
        ),
    ] = None,
) -> None:
    if modules:
        add_modules(modules)


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Print our own warnings without file and line number."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def show_ours(message: Warning | str, *where: Any, **more: Any) -> None:
            if isinstance(message, MIVWarning):
                print(f"Warning: {printable(str(message))}", file=sys.stderr)
            else:
                show(message, *where, **more)

        warnings.showwarning = show_ours
        yield


def printable(text: str) -> str:
    r"""Escape what would control a terminal, such as the escape sequences in the name of a file.

    >>> printable("a\x1b[2Jb\udcff"), printable("two\nlines")
    ('a\\x1b[2Jb\\udcff', 'two\nlines')
    """
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else letter.encode("unicode_escape").decode()
        for letter in text
    )


def main() -> None:
    """Run a command; an error becomes one message and exit code 1, Ctrl-C exit code 130, SIGTERM 143."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a closed one is None
            stream.reconfigure(errors="backslashreplace")  # a terminal without UTF-8 shows escapes
    try:
        with _warnings_in_one_line(), raising_on_terminate():
            app()
    except StoppedByUser as stopped:
        say(str(stopped))
        sys.exit(stopped.exit_code)
    except MIVError as error:
        _fail(str(error))
    except MemoryError as error:
        _fail(f"Out of memory{f' ({error})' if str(error) else ''}. Use less data.")
    except UnicodeEncodeError as error:  # some libraries cannot open such files
        _fail(f"The name {printable(str(error.object)[:200])!r} is not UTF-8. Rename the file or folder.")
    except BrokenPipeError:  # the reader of our output has ended, such as `head`
        _drop_output()
        sys.exit(1)
    except OSError as error:
        _fail(f"{f'{error.filename}: ' if error.filename else ''}{error.strerror or error}.")
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        sys.exit(CTRL_C)
    except Terminated:
        print("Stopped by SIGTERM.", file=sys.stderr)
        raise
    except SystemExit as ended:
        if isinstance(getattr(ended.__context__, "__cause__", None), KeyboardInterrupt):  # Typer exits without a word
            print("Stopped.", file=sys.stderr)
        raise
    finally:
        _flush_output()


def _fail(text: str) -> NoReturn:
    print(f"Error: {printable(text)}", file=sys.stderr)
    sys.exit(1)


def _flush_output() -> None:
    """Write what is left now; later, Python would print a traceback if nobody reads it."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (BrokenPipeError, ValueError):
        _drop_output()
    except OSError as error:  # a full disk
        print(f"Error: Could not write the output: {error.strerror or error}.", file=sys.stderr)
        _drop_output()
        os._exit(1)


def _drop_output() -> None:
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
