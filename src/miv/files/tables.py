"""Read rows of untrusted tables one by one, each with its place in the file: CSV, JSON lines, Parquet."""

import csv
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from miv.errors import MIVError
from miv.files.instances import check_text, short

MAX_LINE_BYTES = 64_000_000
"""Maximum length of a line."""

_MOST_COLUMNS = 10_000  # a vector is one cell, so tables have few columns
_MOST_SHOWN, _MOST_LISTED = 100, 8  # columns compared with a missing name, and listed
_ONE_ROW_PER_EXEMPLAR = (
    " Expected one row per exemplar: query, bag, label (for other names, --query-column of `miv data from-table` "
    "and its like). For one row per instance, save one .npy of shape (N, C) per class in a folder of its own, and use "
    "`miv data from-folder`."
)

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


# Read untrusted lines, mostly JSON, with a maximum length and errors that name the file and line.


def bad_line(source: str | Path, line: int, problem: str) -> MIVError:
    """The error for line ``line`` (from 1) of a file."""
    return MIVError(f"{source}, line {line}: {problem}")


def parse_json(text: str, place: str) -> Any:
    """Parse JSON; NaN and Infinity are errors."""

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


def read_json_lines(path: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a ``Path``, or of a ``zipfile.Path``, with their line numbers; empty lines are skipped."""
    return ((following.lines, row) for following, row in _json_lines(path, FIRST_ROW))


def _json_lines(path: Path, start: RowStart) -> Iterator[tuple[RowStart, dict[str, Any]]]:
    """Yield the start of the following line, and the object in this one."""
    try:
        for following, content in _raw_lines(path, start):
            if content.strip():
                # Decode as UTF-8 first, or json guesses UTF-16 for bytes with zeros.
                row = parse_json(_decoded(content, path, following.lines), f"{path}, line {following.lines}")
                if not isinstance(row, dict):
                    expected = f"expected one JSON object {{...}} per line, got {type(row).__name__}."
                    raise bad_line(path, following.lines, expected)
                yield following, row
    except OSError as error:
        raise MIVError(f"Could not read {path}: {error.strerror or error}.") from error


def _raw_lines(path: Path, start: RowStart) -> Iterator[tuple[RowStart, bytes]]:
    offset, number = start
    with path.open("rb") as file:
        file.seek(offset)
        while content := file.readline(MAX_LINE_BYTES + 1):
            offset, number = offset + len(content), number + 1
            if len(content) > MAX_LINE_BYTES:
                raise bad_line(path, number, f"longer than {MAX_LINE_BYTES:,} bytes.")
            yield RowStart(offset, number), content


def _decoded(content: bytes, source: str | Path, line: int) -> str:
    try:
        return content.decode("utf-8-sig" if line == 1 else "utf-8")
    except UnicodeDecodeError as error:
        byte = f"{content[error.start]:#04x}"
        raise bad_line(source, line, f"not UTF-8 text (byte {byte}). Save the file as UTF-8.") from error


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
    return check_text(value, f"{source}, line {line}: {what}")


# Read the rows of a table.


def read_records(path: Path, required: Required) -> Iterator[Record]:
    """Yield the rows of a table; the suffix determines the format (.csv, .tsv, .jsonl, .ndjson, .parquet)."""
    return ((place, record) for _, place, record in read_records_from(path, required, FIRST_ROW))


def read_records_from(path: Path, required: Required, start: RowStart) -> Iterator[PlacedRecord]:
    """Like ``read_records``, beginning with the row at ``start``, and with the start of each row."""
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
    lines = (_decoded(content, path, following.lines) for following, content in _raw_lines(path, FIRST_ROW))
    heading = next((line for line in lines if line.strip()), "")
    delimiter = ";" if ";" in heading and "," not in heading else ","  # spreadsheets in many locales write semicolons
    delimiter = "\t" if path.suffix.lower() == ".tsv" else delimiter
    rows = _csv_rows(path, delimiter, FIRST_ROW)
    for began, header in rows:
        columns = _check_header([cell.strip() for cell in header], required, f"{path}, line {began.lines + 1}")
        rest = rows if start == FIRST_ROW else _csv_rows(path, delimiter, start)
        for first_line, cells in rest:
            place = f"{path}, line {first_line.lines + 1}"
            if len(cells) != len(columns):
                raise MIVError(
                    f"{place}: {len(cells)} cells, but the header has {len(columns)} columns. "
                    f"Put quotes around cells that contain {_NAMES[delimiter]} or line breaks."
                )
            yield first_line, place, dict(zip(columns, cells, strict=True))
        return


def _csv_rows(path: Path, delimiter: str, start: RowStart) -> Iterator[tuple[RowStart, list[str]]]:
    """The rows that are not empty, each with its start; a quoted cell may span several lines."""
    began = following = start

    def lines() -> Iterator[str]:
        nonlocal following
        for following, content in _raw_lines(path, start):
            yield _decoded(content, path, following.lines)

    try:
        for cells in csv.reader(lines(), delimiter=delimiter, strict=True):
            if cells:
                yield began, cells
            began = following
    except csv.Error as error:
        raise MIVError(f"{path}, line {began.lines + 1}: broken CSV: {error}.") from error


def _check_header(columns: list[str], required: Required, place: str) -> list[str]:
    if len(columns) > _MOST_COLUMNS:
        raise MIVError(f"{place}: the header has {len(columns):,} columns. Expected at most {_MOST_COLUMNS:,}.")
    for column, count in Counter(columns).items():
        if count > 1:
            raise MIVError(f"{place}: the header has the column {short(column)} twice. Rename one.")
    require_columns(columns, required, place)
    return columns


def require_columns(columns: Collection[str], required: Required, place: str) -> None:
    """Raise an error for a missing column, with the nearest name as a suggestion."""
    for number, names in enumerate(required):
        names = (names,) if isinstance(names, str) else names
        if not any(name in columns for name in names):
            near = get_close_matches(names[0], list(columns)[:_MOST_SHOWN], n=1, cutoff=0.5)
            suggestion = f" Did you mean {near[0]!r}?" if near else ""
            listing = ", ".join(map(short, list(columns)[:_MOST_LISTED])) + ", …" * (len(columns) > _MOST_LISTED)
            remedy = "" if near or number or len(required) == 1 else _ONE_ROW_PER_EXEMPLAR  # the query is missing
            raise MIVError(f"{place}: There is no column {names[0]!r}.{suggestion} Columns: {listing}.{remedy}")


def _read_json_lines(path: Path, required: Required, start: RowStart) -> Iterator[PlacedRecord]:
    began = start
    for following, record in _json_lines(path, start):
        place = f"{path}, line {following.lines}"
        require_columns(record, required, place)
        yield began, place, record
        began = following


def require_parquet() -> None:
    """Raise an error if pyarrow is missing."""
    import miv.files.parquet  # noqa: F401


def _read_parquet(path: Path, required: Required, start: RowStart) -> Iterator[PlacedRecord]:
    from miv.files.parquet import check_unpacked_size, pq

    number = start.before
    try:
        if start == FIRST_ROW:
            check_unpacked_size(path)
        with pq.ParquetFile(path) as file:
            columns = _check_header(list(file.schema_arrow.names), required, str(path))
            first, skipped = 0, start.before  # skip whole groups of rows
            while first < file.num_row_groups and skipped >= (rows := file.metadata.row_group(first).num_rows):
                first, skipped = first + 1, skipped - rows
            for batch in file.iter_batches(batch_size=1024, row_groups=list(range(first, file.num_row_groups))):
                if skipped >= len(batch):  # decoded, but not made into Python objects
                    skipped -= len(batch)
                    continue
                cells_of = [batch.column(place).slice(skipped).to_pylist() for place in range(len(columns))]
                skipped = 0
                for cells in zip(*cells_of, strict=True):
                    number += 1
                    yield RowStart(number - 1), f"{path}, row {number}", dict(zip(columns, cells, strict=True))
    except (MIVError, OSError):
        raise
    except Exception as error:  # damaged files raise many types
        raise MIVError(f"{path}: not a Parquet file, or damaged after row {number} ({error}).") from error


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


# Parse table cells: lists, labels, witnesses, ids, and kinds of instances.

SEPARATOR = "|"


def parse_list(cell: Any, what: str, place: str) -> list[Any]:
    """Return a list unchanged, or parse a JSON list or a string with parts separated by ``|``."""
    if isinstance(cell, str):
        text = cell.strip()
        if text.startswith("["):
            cell = parse_json(text, f"{place}, {what}")
        elif text:
            return [part.strip() for part in text.split(SEPARATOR)]
        else:
            return []
    if isinstance(cell, tuple):
        return list(cell)
    if not isinstance(cell, list):
        raise MIVError(f"{place}: the {what} must be a list, or a string such as 'a|b'; got {short(cell)}.")
    return cell


def separator_hint(cell: str) -> str:
    """A hint for an unknown cell that looks like a list with another separator; else ""."""
    return f" Separate the parts of a list with {SEPARATOR!r}, or use a JSON list." * bool(set(cell) & set(";,"))


def is_label(cell: Any) -> bool:
    """Whether a cell is 0 or 1."""
    text = cell.strip() if isinstance(cell, str) else cell
    return text in (0, 1, "0", "1")  # also equal to True, False and 1.0


def parse_label(cell: Any, place: str) -> int:
    """Return 0 or 1."""
    if is_label(cell):
        return int(cell)
    raise MIVError(f"{place}: the label is {short(cell)}. Expected 0 (not in the bag) or 1 (in the bag).")


def parse_witnesses(cell: Any, size: int, place: str) -> list[bool]:
    """Return which of ``size`` bag members are witnesses. Numbers are always positions; true and false are flags."""
    entries = [] if cell is None else parse_list(cell, "witnesses", place)
    if entries and all(isinstance(entry, bool) for entry in entries):
        if len(entries) != size:
            raise MIVError(f"{place}: got {len(entries)} true or false values as witnesses for a bag of {size}.")
        return entries
    flags = [False] * size
    for entry in entries:
        is_text = isinstance(entry, str) and entry.isascii() and entry.isdecimal() and len(entry) < 10
        position = int(entry) if is_text or type(entry) is int else -1
        if not 0 <= position < size:
            raise MIVError(f"{place}: the witness {short(entry)} is not a position in the bag, 0 to {size - 1}.")
        if flags[position]:
            raise MIVError(f"{place}: the witness {position} is given twice. Flags are true or false.")
        flags[position] = True
    return flags


def parse_id(cell: Any, place: str) -> str:
    """Return an id: a text or a whole number."""
    if isinstance(cell, int) and not isinstance(cell, bool):
        return str(cell)
    if isinstance(cell, str) and cell.strip():
        return cell.strip()
    raise MIVError(f"{place}: an id must be a text or a whole number; got {short(cell)}.")


def reference_cells(record: dict[str, Any], query: str, references: str, place: str) -> list[Any]:
    """The cells of an exemplar's query and of its references, given the names of both columns.

    A cell that is given twice counts once. Without a column of references, it is the query alone.
    """
    if references not in record:
        return [record[query]]
    cells = [] if is_blank(record.get(query)) else [record[query]]
    if not is_blank(record[references]):
        for cell in parse_list(record[references], references, place):
            cells += [] if cell in cells else [cell]
    if not cells:
        raise MIVError(f"{place}: there is no query. Expected one in {query!r}, or a list in {references!r}.")
    return cells


def is_list(text: str) -> bool:
    """Whether a text is a JSON list."""
    return text.strip().startswith("[")


def is_blank(cell: Any) -> bool:
    """Whether a cell is empty."""
    return cell is None or (isinstance(cell, str) and not cell.strip())
