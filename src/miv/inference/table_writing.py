"""Write a table part by part, as Parquet or as CSV that is safe to open in a spreadsheet."""

import csv
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from miv.errors import MIVError
from miv.files.atomic import refuse_existing, whole_file
from miv.files.tables import SEPARATOR, require_parquet

_OUTPUTS = (".parquet", ".csv")
# Text that a spreadsheet would run as a formula; a plain number is not a formula.
# Spreadsheets skip blanks at the start, and read the full-width signs of East Asian keyboards as the plain ones.
_FORMULA = re.compile(r"[\t\r]|\s*([=@＝＠]|[+＋－-](?!\d+(\.\d+)?$))")

ColumnType = Literal["int64", "float64", "bool", "string", "list<int64>"]
Schema = dict[str, ColumnType]
"""The columns of a table in order, with the type of their cells; any cell except a list may be empty."""

Write = Callable[[dict[str, Any]], None]


def check_output(path: Path, *, overwrite: bool) -> None:
    """Raise an error before the work starts if the name is invalid or data would be lost."""
    if path.suffix.lower() not in _OUTPUTS:
        raise MIVError(f"The output {path} ends in {path.suffix!r}. Expected {' or '.join(_OUTPUTS)}.")
    if path.suffix.lower() == ".parquet":
        require_parquet()
    refuse_existing(path, overwrite=overwrite)


@contextmanager
def table_writer(path: Path, schema: Schema, notes: Callable[[], dict[str, str]] | None = None) -> Iterator[Write]:
    """Yield a function that writes the columns of one part. The file appears only if the block succeeds.

    ``notes`` gives what a Parquet file says about itself; it is called after the last part.

    In CSV the entries of a list are separated by ``|``, and a text that a spreadsheet would run as a formula (it begins
    with ``=``, ``+``, ``-``, ``@``, a tab or a return) is prefixed with ``'``. Parquet keeps every text unchanged.
    """
    with whole_file(path) as temporary:
        if path.suffix.lower() == ".parquet":
            with _parquet_writer(temporary, schema, notes) as write_part:
                yield write_part
            return
        with temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(schema)

            def write(columns: dict[str, Any]) -> None:
                cells = ([_csv_cell(cell, kind) for cell in columns[name]] for name, kind in schema.items())
                writer.writerows(zip(*cells, strict=True))

            yield write


@contextmanager
def _parquet_writer(path: Path, schema: Schema, notes: Callable[[], dict[str, str]] | None) -> Iterator[Write]:
    from miv.files.parquet import pa, pq  # CSV does not need it

    types = {"list<int64>": pa.list_(pa.int64())}
    fields = pa.schema([(name, types.get(kind) or pa.type_for_alias(kind)) for name, kind in schema.items()])

    def write(columns: dict[str, Any]) -> None:
        arrays = {field.name: pa.array(columns[field.name], field.type) for field in fields}
        writer.write_table(pa.table(arrays, fields))

    with pq.ParquetWriter(path, fields) as writer:
        yield write
        if notes is not None:
            writer.add_key_value_metadata(notes())


def _csv_cell(cell: Any, kind: ColumnType) -> Any:
    if cell is None:
        return None
    if kind == "list<int64>":
        return SEPARATOR.join(str(int(entry)) for entry in cell)
    if kind == "string":
        return f"'{cell}" if _FORMULA.match(cell) else cell
    return _PLAIN[kind](cell)


# NumPy formats numbers differently from Python.
_PLAIN: dict[ColumnType, Callable[[Any], Any]] = {"int64": int, "float64": float, "bool": bool}
