"""Columns of Parquet files as arrays: numbers, texts, and lists as borders and entries."""

from pathlib import Path
from typing import Any

import numpy as np

from miv.data import csr
from miv.errors import MIVError
from miv.files.instances import has_surrogate
from miv.files.parquet import check_unpacked_size, pa, pq

MOST_ENTRIES = 2**31 - 1  # indices are int32 on disk
ROW_GROUP = 128 * 1024


def write_columns(columns: dict[str, Any], path: Path) -> None:
    """Write columns by name: arrays, or tuples of borders ``(E + 1,)`` and entries ``(T,)``; ``None`` is left out."""
    table = pa.table({name: _as_column(name, values) for name, values in columns.items() if values is not None})
    pq.write_table(table, path, compression="zstd", row_group_size=ROW_GROUP, write_page_checksum=True)


def _as_column(name: str, values: Any) -> Any:
    if isinstance(values, tuple):
        borders, entries = values
        if len(entries) > MOST_ENTRIES:
            raise MIVError(f"{name} has {len(entries):,} entries. Expected at most {MOST_ENTRIES:,}. Save it in parts.")
        return pa.ListArray.from_arrays(pa.array(borders.astype(np.int32)), pa.array(entries))
    try:
        return pa.array(values, pa.string() if values.dtype == object else None)
    except UnicodeEncodeError:
        row = next(row for row, text in enumerate(values) if has_surrogate(text))
        raise MIVError(f"{name}[{row}] is {values[row][:60]!r}, which has a lone surrogate. Replace it.") from None


def read_columns(path: Path, kinds: dict[str, Any]) -> dict[str, Any]:
    """Read columns by name and Arrow type, in the form of ``write_columns``; one that ends in ``?`` may be missing."""
    columns: dict[str, Any] = {}
    try:
        check_unpacked_size(path)
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            schema, groups = file.schema_arrow, range(file.num_row_groups)
            if not groups:
                raise MIVError(f"{path} has no rows. Create it again.")
            for key, kind in kinds.items():
                name = key.removesuffix("?")
                if name != key and name not in schema.names:
                    continue
                if schema.names.count(name) != 1 or schema.field(name).type not in (kind, _large(kind)):
                    known = ", ".join(f"{field.name} ({field.type})" for field in schema)
                    raise MIVError(f"{path} has the columns {known}. Expected one {name!r} of type {kind}.")
                # One row group at a time, because decoding lists takes several times their size.
                columns[name] = _joined([_as_array(path, name, file.read_row_group(at, [name])) for at in groups])
    except MIVError:
        raise
    except Exception as error:  # pyarrow raises many types for damaged files
        raise MIVError(f"{path} cannot be read as Parquet: {error}. Create it again.") from error
    return columns


def _large(kind: Any) -> Any:
    return pa.large_list(kind.value_type) if pa.types.is_list(kind) else kind


def _as_array(path: Path, name: str, table: Any) -> Any:
    column = table.column(name).combine_chunks()
    column.validate(full=True)
    is_list = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    entries = column.flatten() if is_list else column
    for what, count in (("cells", column.null_count), ("entries", entries.null_count)):
        if count:
            raise MIVError(f"{path} has {count} empty {what} in {name!r}. Expected none.")
    if is_list:
        return np.diff(column.offsets.to_numpy()), entries.to_numpy(zero_copy_only=False)
    if not pa.types.is_string(column.type):
        return column.to_numpy(zero_copy_only=False)
    distinct = column.dictionary_encode()  # so that equal strings are shared, because many rows have few names
    return np.array(distinct.dictionary.to_pylist(), object)[distinct.indices.to_numpy()]


def _joined(pieces: list[Any]) -> Any:
    if isinstance(pieces[0], tuple):
        sizes, entries = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
        return csr.borders(sizes), entries
    return np.concatenate(pieces)
