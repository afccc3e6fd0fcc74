"""Read rows of untrusted tables one by one, each with its place in the file: CSV, JSON lines, Parquet."""

import csv
from collections.abc import Callable, Collection, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from miv.errors import MIVError
from miv.io.instance_files import short
from miv.io.json_lines import MAX_LINE_BYTES, read_json_lines, read_lines

_MOST_COLUMNS = 10_000  # a vector is one cell, so tables have few columns
_MOST_COMPARED = 1000  # columns compared with a missing name

Record = tuple[str, dict[str, Any]]
"""A place for messages ("table.csv, line 7") and the cells by column; CSV cells are strings."""


Required = Sequence[str | tuple[str, ...]]
"""Columns that must exist; of a tuple, one of them."""


def read_records(path: Path, required: Required) -> Iterator[Record]:
    """Yield the rows of a table; the suffix determines the format (.csv, .tsv, .jsonl, .ndjson, .parquet).

    A missing ``required`` column is an error in the header, or in the row for formats without a header.
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise MIVError(f"{path}: unknown table format. Expected a name ending in {', '.join(_READERS)}.")
    try:
        if not path.is_file():
            raise MIVError(f"{path}: the table {'is not a file' if path.exists() else 'does not exist'}.")
        yield from reader(path, required)
    except OSError as error:
        raise MIVError(f"Could not read {path}: {error}.") from error


def _read_csv(path: Path, required: Required) -> Iterator[Record]:
    csv.field_size_limit(MAX_LINE_BYTES)  # a bag of texts exceeds the module's default limit
    delimiter = "\t" if path.suffix.lower() == ".tsv" else _delimiter(path)
    reader = csv.reader((line for _, line in read_lines(path)), delimiter=delimiter, strict=True)
    columns: list[str] | None = None
    line = 1
    try:
        for cells in reader:
            place = f"{path}, line {line}"
            line = reader.line_num + 1  # first line of the row; a quoted cell may span several lines
            if not cells:
                continue
            if columns is None:
                columns = _check_header([cell.strip() for cell in cells], required, place)
                continue
            if len(cells) != len(columns):
                raise MIVError(
                    f"{place}: {len(cells)} cells, but the header has {len(columns)} columns. "
                    f"Put quotes around cells that contain {_NAMES[delimiter]} or line breaks."
                )
            yield place, dict(zip(columns, cells, strict=True))
    except csv.Error as error:
        raise MIVError(f"{path}, line {line}: broken CSV: {error}.") from error


def _delimiter(path: Path) -> str:
    """The cell separator, from the header; spreadsheets in many locales write semicolons."""
    header = next((line for _, line in read_lines(path) if line.strip()), "")
    return ";" if ";" in header and "," not in header else ","


def _check_header(columns: list[str], required: Required, place: str) -> list[str]:
    if len(columns) > _MOST_COLUMNS:
        raise MIVError(f"{place}: the header has {len(columns):,} columns. Expected at most {_MOST_COLUMNS:,}.")
    seen: set[str] = set()
    for column in columns:
        if column in seen:
            raise MIVError(f"{place}: the header has the column {short(column)} twice. Rename one.")
        seen.add(column)
    _require(columns, required, place)
    return columns


def _require(columns: Collection[str], required: Required, place: str) -> None:
    """Raise an error for a missing column, with the nearest name as a suggestion."""
    for names in required:
        names = (names,) if isinstance(names, str) else names
        if not any(name in columns for name in names):
            column = names[0]
            near = get_close_matches(column, list(columns)[:_MOST_COMPARED], n=1, cutoff=0.5)
            suggestion = f" Did you mean {near[0]!r}?" if near else ""
            found = ", ".join(columns) or "none"
            raise MIVError(f"{place}: there is no column {column!r}.{suggestion} Found: {short(found)}.")


def _read_json_lines(path: Path, required: Required) -> Iterator[Record]:
    for line, record in read_json_lines(path):
        _require(record, required, f"{path}, line {line}")
        yield f"{path}, line {line}", record


def require_parquet() -> None:
    """Raise an error if pyarrow is missing."""
    import miv.io.parquet  # noqa: F401


def _read_parquet(path: Path, required: Required) -> Iterator[Record]:
    from miv.io.parquet import check_unpacked_size, pq

    number = 0
    try:
        check_unpacked_size(path)
        with pq.ParquetFile(path) as file:
            columns = _check_header(list(file.schema_arrow.names), required, str(path))
            for batch in file.iter_batches(batch_size=1024):
                rows = [batch.column(place).to_pylist() for place in range(len(columns))]
                for cells in zip(*rows, strict=True):
                    number += 1
                    yield f"{path}, row {number}", dict(zip(columns, cells, strict=True))
    except (MIVError, OSError):
        raise
    except Exception as error:  # damaged files raise many types
        raise MIVError(f"{path}: not a Parquet file, or damaged after row {number} ({error}).") from error


_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs"}
_READERS: dict[str, Callable[[Path, Required], Iterator[Record]]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".parquet": _read_parquet,
}

TABLE_SUFFIXES = frozenset(_READERS)
"""Suffixes of readable tables, in lower case."""
