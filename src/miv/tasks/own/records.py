"""Rows of a table from outside, one by one, each with the place it came from: CSV, JSON lines, Parquet."""

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from miv.errors import MivError

MAX_LINE_BYTES = 64_000_000
"""The longest line of a CSV or JSON lines file that is read."""

Record = tuple[str, dict[str, Any]]
"""A place for messages ("table.csv, line 7") and the cells by column; CSV cells are strings."""


def read_records(path: Path) -> Iterator[Record]:
    """Yield the rows of a table; the file's name says what it is (.csv, .tsv, .jsonl, .ndjson, .parquet)."""
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise MivError(f"{path}: not a table that can be read. Expected a name ending in {', '.join(_READERS)}.")
    try:
        if not path.is_file():
            raise MivError(f"{path}: this table {'is not a file' if path.exists() else 'does not exist'}.")
        yield from reader(path)
    except OSError as error:
        raise MivError(f"{path}: cannot be read ({error}).") from error


def parse_json(text: str, place: str) -> Any:
    """Return what a piece of JSON says; numbers that JSON does not have (NaN, Infinity) are refused."""

    def refuse(constant: str) -> None:
        raise MivError(f"{place}: {constant} is not a number. Replace or remove it.")

    try:
        return json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise MivError(f"{place}: broken JSON at character {error.pos + 1}: {error.msg}.") from error
    except MivError:
        raise
    except (ValueError, RecursionError) as error:  # thousands of digits, or of brackets
        raise MivError(f"{place}: JSON that cannot be read ({error}).") from error


def _read_csv(path: Path) -> Iterator[Record]:
    csv.field_size_limit(MAX_LINE_BYTES)  # a bag of texts is longer than what the module expects of a cell
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    reader = csv.reader((line for _, line in _lines(path)), delimiter=delimiter, strict=True)
    columns: list[str] | None = None
    line = 1
    try:
        for cells in reader:
            place = f"{path}, line {line}"
            line = reader.line_num + 1  # a quoted cell may go over several lines; a row is where it begins
            if not cells:
                continue
            if columns is None:
                columns = _check_header([cell.strip() for cell in cells], place)
                continue
            if len(cells) != len(columns):
                raise MivError(
                    f"{place}: {len(cells)} cells, but the header has {len(columns)} columns. "
                    "Put quotes around cells that hold commas or line breaks."
                )
            yield place, dict(zip(columns, cells, strict=True))
    except csv.Error as error:
        raise MivError(f"{path}, line {line}: broken CSV: {error}.") from error


def _check_header(columns: list[str], place: str) -> list[str]:
    for column in columns:
        if columns.count(column) > 1:
            raise MivError(f"{place}: the header has the column {column!r} twice. Rename one.")
    return columns


def _read_json_lines(path: Path) -> Iterator[Record]:
    for number, line in _lines(path):
        place = f"{path}, line {number}"
        if not line.strip():
            continue
        record = parse_json(line, place)
        if not isinstance(record, dict):
            raise MivError(f"{place}: expected one JSON object {{...}} a line, found {type(record).__name__}.")
        yield place, record


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file, with their numbers from 1."""
    with path.open("rb") as file:
        number = 0
        while content := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(content) > MAX_LINE_BYTES:
                raise MivError(f"{path}, line {number}: longer than {MAX_LINE_BYTES:,} bytes.")
            try:
                yield number, content.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise MivError(
                    f"{path}, line {number}: not UTF-8 text (byte {content[error.start]:#04x}). "
                    "Save the table as UTF-8."
                ) from error


def _read_parquet(path: Path) -> Iterator[Record]:
    number = 0
    try:
        with pq.ParquetFile(path) as file:
            columns = _check_header(list(file.schema_arrow.names), str(path))
            for batch in file.iter_batches(batch_size=1024):
                rows = [batch.column(place).to_pylist() for place in range(len(columns))]
                for cells in zip(*rows, strict=True):
                    number += 1
                    yield f"{path}, row {number}", dict(zip(columns, cells, strict=True))
    except (MivError, OSError):
        raise
    except Exception as error:  # damaged files raise many types
        raise MivError(f"{path}: not a Parquet file, or damaged after row {number} ({error}).") from error


_READERS: dict[str, Callable[[Path], Iterator[Record]]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".parquet": _read_parquet,
}
