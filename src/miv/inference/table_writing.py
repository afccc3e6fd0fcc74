"""A table written part by part, as Parquet or as CSV that a spreadsheet may open."""

import csv
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from miv.errors import MIVError
from miv.io.table_cells import SEPARATOR
from miv.io.whole_files import refuse_existing, whole_file

_OUTPUTS = (".parquet", ".csv")
# What a spreadsheet would take for a formula and run; a plain number is none.
_FORMULA = re.compile(r"[=@\t\r]|[+-](?!\d+(\.\d+)?$)")

Write = Callable[[dict[str, Any]], None]


def check_output(path: Path, *, overwrite: bool) -> None:
    """Refuse, before the work, a name that cannot be written, or what would be lost."""
    if path.suffix.lower() not in _OUTPUTS:
        raise MIVError(f"The output {path} ends in {path.suffix!r}. Expected {' or '.join(_OUTPUTS)}.")
    refuse_existing(path, overwrite=overwrite)


@contextmanager
def table_writer(path: Path, schema: Any) -> Iterator[Write]:
    """Give what writes the columns of one part; the file is there when the block ends well, else not at all.

    In CSV the entries of a list are separated by ``|``, and a text that a spreadsheet would run as a formula (it begins
    with ``=``, ``+``, ``-``, ``@``, a tab or a return) has ``'`` before it. Parquet has every text as it is.
    """
    with whole_file(path) as temporary:
        if path.suffix.lower() == ".parquet":
            with pq.ParquetWriter(temporary, schema) as parquet:
                yield lambda columns: parquet.write_table(_table(columns, schema))
            return
        with temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(schema.names)

            def write(columns: dict[str, Any]) -> None:
                cells = [column.to_pylist() for column in _table(columns, schema).columns]
                writer.writerows(map(_csv_cell, row) for row in zip(*cells, strict=True))

            yield write


def _table(columns: dict[str, Any], schema: Any) -> Any:
    return pa.table({field.name: pa.array(columns[field.name], field.type) for field in schema}, schema)


def _csv_cell(cell: Any) -> Any:
    if isinstance(cell, str):
        return f"'{cell}" if _FORMULA.match(cell) else cell
    return SEPARATOR.join(map(str, cell)) if isinstance(cell, list) else cell
