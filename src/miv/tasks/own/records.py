"""Rows of a table from outside, one by one, each with the place it came from: CSV, JSON lines, Parquet."""

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from miv.errors import MivError
from miv.tasks.json_lines import MAX_LINE_BYTES, read_json_lines, read_lines

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


def _read_csv(path: Path) -> Iterator[Record]:
    csv.field_size_limit(MAX_LINE_BYTES)  # a bag of texts is longer than what the module expects of a cell
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    reader = csv.reader((line for _, line in read_lines(path)), delimiter=delimiter, strict=True)
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
    for line, record in read_json_lines(path):
        yield f"{path}, line {line}", record


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
