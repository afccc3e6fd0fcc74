"""Read untrusted lines, mostly JSON, with a maximum length and errors that name the file and line."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from miv.errors import MIVError

MAX_LINE_BYTES = 64_000_000
"""Maximum length of a line."""


@dataclass
class LineMark:
    """Where reading has come to in a file of lines; it moves on with each line.

    Args:
        offset: number of bytes read.
        line: number of lines read.
    """

    offset: int = 0
    line: int = 0


def bad_line(source: str | Path, line: int, problem: str) -> MIVError:
    """The error for line ``line`` (from 1) of a file."""
    return MIVError(f"{source}, line {line}: {problem}")


def parse_json(text: str, place: str) -> Any:
    """Parse JSON; NaN and Infinity are errors.

    >>> parse_json('{"claim": "Snow', "claims.jsonl, line 7")
    Traceback (most recent call last):
    miv.errors.MIVError: claims.jsonl, line 7: broken JSON at character 11: Unterminated string starting at.
    """

    def refuse(constant: str) -> None:
        raise MIVError(f"{place}: {constant} is not a number. Replace or remove it.")

    try:
        return json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise MIVError(f"{place}: broken JSON at character {error.pos + 1}: {error.msg}.") from error
    except MIVError:
        raise
    except (ValueError, RecursionError) as error:  # thousands of digits or brackets
        raise MIVError(f"{place}: could not read the JSON ({error}).") from error


def parse_object(content: bytes, source: str | Path, line: int) -> dict[str, Any]:
    """Read one line as a JSON object; anything else is an error that names the line.

    >>> parse_object(b'{"claim": "Snow is white."}', "claims.jsonl", 1)
    {'claim': 'Snow is white.'}
    """
    try:
        # Decode as UTF-8 first, or json guesses UTF-16 for bytes with zeros.
        text = content.decode("utf-8-sig" if line == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise bad_line(source, line, _not_utf8(content, error)) from error
    row = parse_json(text, f"{source}, line {line}")
    if not isinstance(row, dict):
        raise bad_line(source, line, f"expected one JSON object {{...}} per line, got {type(row).__name__}.")
    return row


def read_json_lines(path: Path, mark: LineMark | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a file, from ``mark`` on, with their line numbers; empty lines are skipped."""
    try:
        for number, content in _raw_lines(path, mark or LineMark()):
            if content.strip():
                yield number, parse_object(content, path, number)
    except OSError as error:
        raise MIVError(f"Could not read {path}: {error.strerror or error}.") from error


def read_lines(path: Path, mark: LineMark | None = None) -> Iterator[tuple[int, str]]:
    """Yield the lines of a UTF-8 file, from ``mark`` on, with their numbers from 1."""
    for number, content in _raw_lines(path, mark or LineMark()):
        try:
            yield number, content.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise bad_line(path, number, _not_utf8(content, error)) from error


def _raw_lines(path: Path, mark: LineMark) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        file.seek(mark.offset)
        while content := file.readline(MAX_LINE_BYTES + 1):
            mark.line += 1
            mark.offset += len(content)
            if len(content) > MAX_LINE_BYTES:
                raise bad_line(path, mark.line, f"longer than {MAX_LINE_BYTES:,} bytes.")
            yield mark.line, content


def _not_utf8(content: bytes, error: UnicodeDecodeError) -> str:
    return f"not UTF-8 text (byte {content[error.start]:#04x}). Save the file as UTF-8."


def text_field(row: dict[str, Any], field: str, source: str | Path, line: int) -> str:
    """The text in a field, which must exist, be non-empty and be valid UTF-8."""
    if field not in row:
        known = ", ".join(sorted(row)) or "none"
        raise bad_line(source, line, f"there is no field {field!r}; the fields are: {known}.")
    return checked_text(row[field], f"the field {field!r}", source, line)


def checked_text(value: Any, what: str, source: str | Path, line: int) -> str:
    """Return ``value`` if it is a non-empty text; ``what`` names it in the error."""
    if not isinstance(value, str) or not value.strip():
        raise bad_line(source, line, f"{what} must be a text, got {str(value)[:60]!r}.")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:  # JSON can encode a lone surrogate, such as "\ud800"
        raise bad_line(source, line, f"{what} contains a lone Unicode surrogate.") from error
    return value
