"""Predictions as a Parquet file: one row per exemplar, its bag as lists."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from miv.data import csr
from miv.errors import MIVError
from miv.files.atomic import whole_file
from miv.files.parquet import check_unpacked_size, pa, pq

_COLUMNS = {
    "logit": pa.float64(),
    "label": pa.int8(),
    "bag_size": pa.int64(),  # the lists below may all be absent
    "attention": pa.large_list(pa.float64()),
    "witness": pa.large_list(pa.bool_()),
    "group": pa.string(),
    "query": pa.int64(),
    "score": pa.large_list(pa.float64()),
    "contribution": pa.large_list(pa.float64()),
    "query_class": pa.string(),
    "query_id": pa.string(),
}
_REQUIRED = ("logit", "label", "bag_size")


def write_columns(path: Path, columns: Mapping[str, Any]) -> None:
    """Write the columns of predictions, and their borders ``ptr``, atomically."""
    data = {name: pa.array(columns[name]) for name in _REQUIRED}
    for name, kind in _COLUMNS.items():
        column = columns[name]
        if name in _REQUIRED or column is None:
            continue
        try:
            array = pa.array(column, pa.string() if column.dtype == object else None)
        except UnicodeEncodeError as error:
            title = "class" if name == "query_class" else name
            raise MIVError(f"A {title} has half a surrogate pair: {error}. Expected valid Unicode text.") from error
        is_list = pa.types.is_large_list(kind)
        data[name] = pa.LargeListArray.from_arrays(pa.array(columns["ptr"]), array) if is_list else array
    with whole_file(path) as temporary:
        pq.write_table(pa.table(data), temporary, compression="zstd", write_page_checksum=True)


def read_columns(path: Path, content: bytes | None) -> dict[str, Any]:
    """Read and check the arguments of ``Predictions``; ``content`` is the content of the file, if already read."""
    if content is None and not path.is_file():
        raise MIVError(f"There is no file {path}. Expected predictions written by `miv evaluate`.")
    try:
        check_unpacked_size(path, content)
        source = path if content is None else pa.BufferReader(content)
        table = pq.read_table(source, page_checksum_verification=True).combine_chunks()
        table.validate(full=True)
    except MIVError:
        raise
    except Exception as error:  # pyarrow raises many types for a damaged file
        raise MIVError(f"{path} cannot be read as Parquet: {error}. Evaluate again.") from error
    _check_columns(path, table.schema)
    columns = {name: _as_array(path, name, table.column(name)) for name in table.column_names}
    sizes = columns.pop("bag_size")[0]
    arguments: dict[str, Any] = {"ptr": csr.borders(sizes)}
    for name, (values, lengths) in columns.items():
        if lengths is not None and not np.array_equal(lengths, sizes):
            row = int((lengths != sizes).argmax())
            raise MIVError(f"{path}, row {row}: {name!r} has {lengths[row]} entries, but bag_size is {sizes[row]}.")
        arguments[name] = values
    return arguments


def _check_columns(path: Path, schema: Any) -> None:
    kinds = {field.name: field.type for field in schema}
    wrong = [name for name, kind in kinds.items() if _COLUMNS.get(name) != kind]
    lacking = [name for name in _REQUIRED if name not in kinds]
    if wrong or lacking or len(kinds) != len(schema):
        listing = ", ".join(f"{field.name} ({field.type})" for field in schema)
        expected = ", ".join(f"{name} ({kind})" for name, kind in _COLUMNS.items())
        raise MIVError(f"{path} has the columns {listing}. Expected {expected}, those after bag_size if known.")


def _as_array(path: Path, name: str, column: Any) -> tuple[Any, Any]:
    """Return the entries of all rows and, for lists, the length of each row."""
    # One array even where the file has no row.
    array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    lengths = None
    nulls = array.null_count
    if pa.types.is_large_list(array.type) and not nulls:
        borders = array.offsets.to_numpy()
        lengths = np.diff(borders)
        array = array.values[int(borders[0]) : int(borders[-1])]
        nulls = array.null_count
    if nulls:
        raise MIVError(f"{path} has {nulls} empty cells in {name!r}. Expected none.")
    return array.to_numpy(zero_copy_only=False), lengths
