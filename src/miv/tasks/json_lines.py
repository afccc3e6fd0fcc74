"""JSON lines from outside: one object a line, and errors that name the file and the line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from miv.errors import MivError


def bad_line(source: str | Path, line: int, problem: str) -> MivError:
    """The error for line ``line`` (from 1) of a file."""
    return MivError(f"{source}, line {line}: {problem}")


def parse_object(text: bytes, source: str | Path, line: int) -> dict[str, Any]:
    """Read one line as a JSON object; anything else is an error that names the line.

    >>> parse_object(b'{"claim": "Snow is white."}', "claims.jsonl", 1)
    {'claim': 'Snow is white.'}
    >>> parse_object(b'{"claim": "Snow', "claims.jsonl", 7)
    Traceback (most recent call last):
    miv.errors.MivError: claims.jsonl, line 7: this is not JSON (Unterminated string at column 11). ...
    """
    try:
        # Told that it is UTF-8, json does not guess at UTF-16 in bytes that happen to hold zeros.
        row = json.loads(text.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise bad_line(source, line, f"byte {error.start + 1} is not UTF-8. Save the file as UTF-8.") from error
    except json.JSONDecodeError as error:
        problem = f"{error.msg.removesuffix(' starting at')} at column {error.colno}"
        raise bad_line(source, line, f"this is not JSON ({problem}). Mend or delete the line.") from error
    except (RecursionError, ValueError) as error:
        raise bad_line(source, line, f"this is not readable JSON ({error}). Mend or delete the line.") from error
    if not isinstance(row, dict):
        raise bad_line(source, line, f"expected a JSON object {{...}}, found {type(row).__name__}.")
    return row


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Go through the objects of a file with their line numbers; empty lines are skipped."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, parse_object(line, path, number)
    except OSError as error:
        raise MivError(f"{path} cannot be read: {error.strerror}.") from error


def text_field(row: dict[str, Any], field: str, source: str | Path, line: int) -> str:
    """The text in a field, which must be there and hold something that can be stored as UTF-8."""
    if field not in row:
        known = ", ".join(sorted(row)) or "none"
        raise bad_line(source, line, f"there is no field {field!r}; the fields are: {known}.")
    return checked_text(row[field], f"the field {field!r}", source, line)


def checked_text(value: Any, what: str, source: str | Path, line: int) -> str:
    """``value`` if it is a text with something in it; ``what`` names it in the error."""
    if not isinstance(value, str) or not value.strip():
        raise bad_line(source, line, f"{what} must be a text, found {str(value)[:60]!r}.")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:  # JSON may spell half a character, such as "\ud800"
        raise bad_line(source, line, f"{what} holds half of a Unicode surrogate pair.") from error
    return value
