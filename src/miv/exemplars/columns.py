"""The Parquet tables of a saved set, and the way between their columns and arrays."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from miv.errors import MivError
from miv.exemplars.manifest import Manifest
from miv.exemplars.pool import InstancePool
from miv.exemplars.table import ExemplarSet

MAX_INDEX = 2**31 - 1  # indices are int32 on disk
ROW_GROUP = 128 * 1024


def write_table(exemplars: ExemplarSet, path: Path) -> None:
    """Write ``exemplars.parquet``."""
    if max(len(exemplars.pool), len(exemplars.bag_index)) > MAX_INDEX:
        raise MivError(f"A set holds at most {MAX_INDEX} instances and bag entries. Save it in parts.")
    borders = pa.array(exemplars.bag_ptr.astype(np.int32))
    data = {
        "query": pa.array(exemplars.query.astype(np.int32)),
        "bag": pa.ListArray.from_arrays(borders, pa.array(exemplars.bag_index.astype(np.int32))),
        "label": pa.array(exemplars.label),
    }
    if exemplars.witness is not None:
        data["witness"] = pa.ListArray.from_arrays(borders, pa.array(exemplars.witness))
    if exemplars.group is not None:
        data["group"] = _strings("group", exemplars.group)
    _write(data, path)


def read_table(path: Path, manifest: Manifest) -> dict[str, Any]:
    """Read ``exemplars.parquet`` as the arguments of ``ExemplarSet`` after ``pool``."""
    schema = {"query": pa.int32(), "bag": pa.list_(pa.int32()), "label": pa.int8()}
    if manifest.witnesses is not None:
        schema["witness"] = pa.list_(pa.bool_())
    if manifest.has_groups:
        schema["group"] = pa.string()
    table = _read(path, schema, manifest.exemplars)
    bag_ptr, bag_index = _ragged(path, "bag", table)
    found = {
        "query": _column(table, "query").to_numpy().astype(np.int64),
        "bag_ptr": bag_ptr,
        "bag_index": bag_index.astype(np.int64),
        "label": _column(table, "label").to_numpy(),
    }
    if "witness" in schema:
        witness_ptr, found["witness"] = _ragged(path, "witness", table)
        if not np.array_equal(witness_ptr, bag_ptr):
            row = int((witness_ptr != bag_ptr).argmax()) - 1
            raise MivError(f"{path}, row {row}: 'witness' is not as long as 'bag'.")
    if "group" in schema:
        found["group"] = _shared_strings(_column(table, "group"))
    return found


def write_pool(pool: InstancePool, path: Path) -> None:
    """Write ``pool.parquet``: the texts and the classes, as far as there are any."""
    data = {}
    if pool.kind == "text":
        data["text"] = _strings("values", pool.values)
    if pool.classes is not None:
        data["class"] = _strings("classes", pool.classes)
    _write(data, path)


def read_pool(path: Path, manifest: Manifest) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Read ``pool.parquet`` as texts and classes, each ``None`` where there are none."""
    schema = {}
    if manifest.kind == "text":
        schema["text"] = pa.string()
    if manifest.has_classes:
        schema["class"] = pa.string()
    table = _read(path, schema, manifest.instances)
    texts = _column(table, "text").to_numpy(zero_copy_only=False) if "text" in schema else None
    return texts, _shared_strings(_column(table, "class")) if "class" in schema else None


def _write(data: dict[str, Any], path: Path) -> None:
    schema = pa.schema(
        [pa.field(name, _inner_not_null(column.type), nullable=False) for name, column in data.items()]
    )
    table = pa.table([column.cast(schema.field(name).type) for name, column in data.items()], schema=schema)
    pq.write_table(table, path, compression="zstd", row_group_size=ROW_GROUP, write_page_checksum=True)


def _inner_not_null(kind: Any) -> Any:
    return pa.list_(pa.field("element", kind.value_type, nullable=False)) if pa.types.is_list(kind) else kind


def _read(path: Path, schema: dict[str, Any], rows: int) -> Any:
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            given = file.schema_arrow
            if file.metadata.num_rows != rows:
                raise MivError(f"{path} has {file.metadata.num_rows} rows. The manifest says {rows}.")
            for name, kind in schema.items():
                if name not in given.names or _plain(given.field(name).type) != kind:
                    kinds = ", ".join(f"{field.name} {field.type}" for field in given)
                    raise MivError(f"{path} has the columns {kinds}. Expected {name!r} of type {kind}.")
            table = file.read(columns=list(schema))
        table.validate(full=True)
    except MivError:
        raise
    except Exception as error:  # pyarrow meets a damaged file with many kinds of exception
        raise MivError(
            f"{path} is not a Parquet file that can be read: {error}. Build the set again."
        ) from error
    for name in schema:
        if table.column(name).null_count:
            raise MivError(
                f"{path} has {table.column(name).null_count} empty cells in {name!r}. Expected none."
            )
    return table


def _plain(kind: Any) -> Any:
    """The type without the name and nullability of a list's elements, which do not matter here."""
    return pa.list_(kind.value_type) if pa.types.is_list(kind) else kind


def _column(table: Any, name: str) -> Any:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _ragged(path: Path, name: str, table: Any) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """A list column as borders ``(E + 1,)`` and the entries of all rows ``(T,)``."""
    column = _column(table, name)
    entries = column.flatten()
    if entries.null_count:
        raise MivError(
            f"{path} has {entries.null_count} empty entries in the lists of {name!r}. Expected none."
        )
    borders = column.offsets.to_numpy().astype(np.int64)
    return borders - borders[0], entries.to_numpy(zero_copy_only=False)


def _strings(name: str, texts: NDArray[Any]) -> Any:
    try:
        return pa.array(texts, pa.string())
    except (UnicodeEncodeError, pa.ArrowInvalid):
        for row, text in enumerate(texts):
            if any("\ud800" <= letter <= "\udfff" for letter in text):
                raise MivError(
                    f"{name}[{row}] is {text[:60]!r}, which has half a surrogate pair. "
                    "Expected text that UTF-8 can hold."
                ) from None
        raise


def _shared_strings(column: Any) -> NDArray[Any]:
    """Strings as an object array in which equal ones are one object, as a million rows have few classes."""
    coded = column.dictionary_encode()
    names = coded.dictionary.to_numpy(zero_copy_only=False)
    rows: NDArray[Any] = names[coded.indices.to_numpy()]
    return rows
