"""Read rows of untrusted tables one by one, each with its place in the file: CSV, JSON lines, Parquet."""

import csv
from collections.abc import Callable, Collection, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from miv.errors import MIVError
from miv.io.instance_files import short
from miv.io.json_lines import MAX_LINE_BYTES, LineMark, read_json_lines, read_lines

_MOST_COLUMNS = 10_000  # a vector is one cell, so tables have few columns
_MOST_COMPARED = 1000  # columns compared with a missing name

Record = tuple[str, dict[str, Any]]
"""A place for messages ("table.csv, line 7") and the cells by column; CSV cells are strings."""


Required = Sequence[str | tuple[str, ...]]
"""Columns that must exist; of a tuple, one of them."""


class RowStart(NamedTuple):
    """Where a row begins, so that reading can start there: bytes and lines before it; in Parquet, rows before it."""

    before: int = 0
    lines: int = 0


FIRST_ROW = RowStart()
PlacedRecord = tuple[RowStart, str, dict[str, Any]]


def read_records(path: Path, required: Required) -> Iterator[Record]:
    """Yield the rows of a table; the suffix determines the format (.csv, .tsv, .jsonl, .ndjson, .parquet).

    A missing ``required`` column is an error in the header, or in the row for formats without a header.
    """
    return ((place, record) for _, place, record in read_records_from(path, required, FIRST_ROW))


def read_records_from(path: Path, required: Required, start: RowStart) -> Iterator[PlacedRecord]:
    """Like ``read_records``, beginning with the row at ``start``, and with the start of each row.

    The size of a Parquet file is checked only if it is read from its first row.
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise MIVError(f"{path}: unknown table format. Expected a name ending in {', '.join(_READERS)}.")
    try:
        if not path.is_file():
            raise MIVError(f"{path}: the table {'is not a file' if path.exists() else 'does not exist'}.")
        yield from reader(path, required, start)
    except OSError as error:
        raise MIVError(f"Could not read {path}: {error}.") from error


def _read_csv(path: Path, required: Required, start: RowStart) -> Iterator[PlacedRecord]:
    csv.field_size_limit(MAX_LINE_BYTES)  # a bag of texts exceeds the module's default limit
    delimiter = "\t" if path.suffix.lower() == ".tsv" else _delimiter(path)
    rows = _csv_rows(path, delimiter, LineMark())
    for began, header in rows:
        columns = _check_header([cell.strip() for cell in header], required, f"{path}, line {began.lines + 1}")
        rest = rows if start == FIRST_ROW else _csv_rows(path, delimiter, LineMark(*start))
        for first_line, cells in rest:
            place = f"{path}, line {first_line.lines + 1}"
            if len(cells) != len(columns):
                raise MIVError(
                    f"{place}: {len(cells)} cells, but the header has {len(columns)} columns. "
                    f"Put quotes around cells that contain {_NAMES[delimiter]} or line breaks."
                )
            yield first_line, place, dict(zip(columns, cells, strict=True))
        return


def _csv_rows(path: Path, delimiter: str, mark: LineMark) -> Iterator[tuple[RowStart, list[str]]]:
    """The rows that are not empty, each with its start; a quoted cell may span several lines."""
    began = RowStart(mark.offset, mark.line)
    try:
        for cells in csv.reader((line for _, line in read_lines(path, mark)), delimiter=delimiter, strict=True):
            if cells:
                yield began, cells
            began = RowStart(mark.offset, mark.line)
    except csv.Error as error:
        raise MIVError(f"{path}, line {began.lines + 1}: broken CSV: {error}.") from error


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


def _read_json_lines(path: Path, required: Required, start: RowStart) -> Iterator[PlacedRecord]:
    mark = LineMark(*start)
    began = start
    for line, record in read_json_lines(path, mark):
        _require(record, required, f"{path}, line {line}")
        yield began, f"{path}, line {line}", record
        began = RowStart(mark.offset, mark.line)


def require_parquet() -> None:
    """Raise an error if pyarrow is missing."""
    import miv.io.parquet  # noqa: F401


def _read_parquet(path: Path, required: Required, start: RowStart) -> Iterator[PlacedRecord]:
    from miv.io.parquet import check_unpacked_size, pq

    number = start.before
    try:
        if start == FIRST_ROW:
            check_unpacked_size(path)
        with pq.ParquetFile(path) as file:
            columns = _check_header(list(file.schema_arrow.names), required, str(path))
            groups, skipped = _groups_from(file, start.before)
            for batch in file.iter_batches(batch_size=1024, row_groups=groups):
                if skipped >= len(batch):  # decoded, but not made into Python objects
                    skipped -= len(batch)
                    continue
                rows = [batch.column(place).slice(skipped).to_pylist() for place in range(len(columns))]
                skipped = 0
                for cells in zip(*rows, strict=True):
                    number += 1
                    yield RowStart(number - 1), f"{path}, row {number}", dict(zip(columns, cells, strict=True))
    except (MIVError, OSError):
        raise
    except Exception as error:  # damaged files raise many types
        raise MIVError(f"{path}: not a Parquet file, or damaged after row {number} ({error}).") from error


def _groups_from(file: Any, before: int) -> tuple[list[int], int]:
    """The row groups that are left after ``before`` rows, and the rows to skip in the first of them."""
    first = 0
    while first < file.num_row_groups and before >= (rows := file.metadata.row_group(first).num_rows):
        first, before = first + 1, before - rows
    return list(range(first, file.num_row_groups)), before


_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs"}
_READERS: dict[str, Callable[[Path, Required, RowStart], Iterator[PlacedRecord]]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".parquet": _read_parquet,
}

TABLE_SUFFIXES = frozenset(_READERS)
"""Suffixes of readable tables, in lower case."""
