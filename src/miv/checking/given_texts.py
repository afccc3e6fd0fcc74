"""Refuse what is no text, the name of a file as a text, and texts that are too large, before anything is read."""

from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from miv.checking.sources import MARKDOWN, MOST_BYTES, Sources, Text
from miv.errors import MIVError
from miv.io.instance_files import short

_FILE = "a text (str), or a pathlib.Path of a file"


def checked_answer_text(given: Any) -> Text:
    """The answer, if it is a text or a path, and not too large."""
    if isinstance(given, str | PathLike):
        _refuse_file_name(given, "The answer")
        if _size(given) > MOST_BYTES:
            raise MIVError(
                f"The answer has {_size(given):,} bytes. Expected at most {MOST_BYTES:,}: check it in parts."
            )
        return given
    raise MIVError(f"The answer is {short(given)}, of type {type(given).__name__}. Expected {_FILE}.{_advice(given)}")


def checked_sources(given: Any) -> Sources:
    """The sources, if they are texts or paths and not too large together."""
    if isinstance(given, str | PathLike):
        several: Sources = [given]
    elif isinstance(given, Mapping):
        several = given
    elif isinstance(given, Iterable) and not isinstance(given, bytes | bytearray | memoryview):
        several = list(given)
    else:
        raise MIVError(
            f"The sources are {short(given)}, of type {type(given).__name__}. Expected {_FILE}, a list of them, or a "
            f"dict of texts by name.{_advice(given)}"
        )
    size = 0
    for number, (name, one) in enumerate(_named(several), start=1):
        which = f"The source {name}" if isinstance(several, Mapping) else f"Source {number}"
        if not isinstance(one, str | PathLike):
            raise MIVError(f"{which} is {short(one)}, of type {type(one).__name__}. Expected {_FILE}.{_advice(one)}")
        _refuse_file_name(one, which)
        size += _size(one)
    if size > MOST_BYTES:
        raise MIVError(
            f"The sources have {size:,} bytes in total. Expected at most {MOST_BYTES:,}: give only the documents that "
            "were retrieved for this answer."
        )
    return several


def _named(given: Any) -> Iterable[tuple[Any, Any]]:
    return given.items() if isinstance(given, Mapping) else ((None, one) for one in given)


def _advice(given: Any) -> str:
    return " Decode bytes first, as in given.decode()." if isinstance(given, bytes | bytearray) else ""


def _refuse_file_name(given: Text, what: str) -> None:
    line = given.strip() if isinstance(given, str) else ""
    if line.lower().endswith((*MARKDOWN, ".txt", ".text")) and len(line.splitlines()) == 1:
        raise MIVError(
            f"{what} is the text {short(line)}, which looks like the name of a file. Expected pathlib.Path(...) around "
            "the name of a file; end a text with a full stop."
        )


def _size(given: Text) -> int:
    if isinstance(given, str):
        return len(given.encode("utf-8", "surrogatepass"))
    try:
        size = Path(given).stat().st_size
    except (OSError, ValueError):
        return 0  # reading it says what is wrong
    return size if size <= MOST_BYTES else 0  # reading it names the file
