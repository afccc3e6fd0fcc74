"""Predictions as a Parquet file: one row per exemplar, its bag as lists."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from miv.data import csr
from miv.errors import MIVError
from miv.io.parquet import check_unpacked_size, pa, pq
from miv.io.whole_files import whole_file

if TYPE_CHECKING:
    from miv.evaluation.predictions import Predictions

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


def write_predictions(predictions: "Predictions", path: Path) -> None:
    """Write the file atomically."""
    borders = pa.array(predictions.ptr)
    data = {
        "logit": pa.array(predictions.logit),
        "label": pa.array(predictions.label),
        "bag_size": pa.array(predictions.bag_sizes),
    }
    for name in ("attention", "witness", "score", "contribution"):
        of_instances = getattr(predictions, name)
        if of_instances is not None:
            data[name] = pa.LargeListArray.from_arrays(borders, pa.array(of_instances))
    for name, title in (("group", "group"), ("query_class", "class"), ("query_id", "query_id")):
        strings = getattr(predictions, name)
        if strings is not None:
            try:
                data[name] = pa.array(strings, pa.string())
            except UnicodeEncodeError as error:
                raise MIVError(f"A {title} has half a surrogate pair: {error}. Expected valid Unicode text.") from error
    if predictions.query is not None:
        data["query"] = pa.array(predictions.query)
    with whole_file(path) as temporary:
        pq.write_table(pa.table(data), temporary, compression="zstd", write_page_checksum=True)


def read_columns(path: Path, content: bytes | None = None) -> dict[str, Any]:
    """Read a file written by ``write_predictions`` as the arguments of ``Predictions``; other files are an error.

    ``content`` is its content, if already read.
    """
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
    found: dict[str, Any] = {"ptr": csr.borders(sizes)}
    for name, (values, lengths) in columns.items():
        if lengths is not None and not np.array_equal(lengths, sizes):
            row = int((lengths != sizes).argmax())
            raise MIVError(f"{path}, row {row}: {name!r} has {lengths[row]} entries, but bag_size is {sizes[row]}.")
        found[name] = values
    return found


def _check_columns(path: Path, schema: Any) -> None:
    given = {field.name: field.type for field in schema}
    wrong = [name for name, kind in given.items() if _COLUMNS.get(name) != kind]
    lacking = [name for name in _REQUIRED if name not in given]
    if wrong or lacking or len(given) != len(schema):
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
