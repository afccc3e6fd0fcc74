"""Parquet tables: conversion between their columns and arrays, and the two tables of a saved set."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from miv.data import csr
from miv.data.kinds import KINDS
from miv.data.manifest import Manifest
from miv.data.pool import InstancePool
from miv.errors import MIVError
from miv.files.instances import has_surrogate
from miv.files.parquet import column_chunks, pa, pq

if TYPE_CHECKING:
    from miv.data.exemplars import ExemplarSet


MAX_INDEX = 2**31 - 1  # indices are int32 on disk
ROW_GROUP = 128 * 1024
_FREE_BYTES = 64 << 20  # a column may always unpack to this many bytes,
_LARGEST_RATIO = 1000  # or to this many times the size of its file


def write_table(exemplars: "ExemplarSet", path: Path) -> None:
    """Write ``exemplars.parquet``."""
    if max(len(exemplars.pool), len(exemplars.bag_index), len(exemplars.all_references[1])) > MAX_INDEX:
        raise MIVError(f"A set can have at most {MAX_INDEX} instances, bag entries and references. Save it in parts.")
    data = {
        "query": pa.array(exemplars.query.astype(np.int32)),
        "bag": _lists(exemplars.bag_ptr, exemplars.bag_index.astype(np.int32)),
        "label": pa.array(exemplars.label),
    }
    if exemplars.witness is not None:
        data["witness"] = _lists(exemplars.bag_ptr, exemplars.witness)
    if exemplars.group is not None:
        data["group"] = text_column("group", exemplars.group)
    if exemplars.weight is not None:
        data["weight"] = pa.array(exemplars.weight)
    if exemplars.query_id is not None:
        data["query_id"] = text_column("query_id", exemplars.query_id)
    if exemplars.reference_ptr is not None and exemplars.reference_index is not None:
        data["references"] = _lists(exemplars.reference_ptr, exemplars.reference_index.astype(np.int32))
    write_columns(data, path)


def read_table(path: Path, manifest: Manifest) -> dict[str, Any]:
    """Read ``exemplars.parquet`` as the arguments of ``ExemplarSet`` after ``pool``."""
    rows, entries = manifest.exemplars, manifest.bag_entries
    columns: dict[str, Any] = {}
    columns["bag_ptr"], columns["bag_index"] = read_lists(path, "bag", pa.int32(), rows, entries, np.int64)
    columns["query"] = read_numbers(path, "query", pa.int32(), rows, np.int64)
    columns["label"] = read_numbers(path, "label", pa.int8(), rows, np.int8)
    if manifest.witnesses is not None:
        borders, columns["witness"] = read_lists(path, "witness", pa.bool_(), rows, entries, np.bool_)
        if not np.array_equal(borders, columns["bag_ptr"]):
            row = int((borders != columns["bag_ptr"]).argmax()) - 1
            raise MIVError(f"{path}, row {row}: 'witness' and 'bag' have different lengths.")
    if manifest.has_weights:
        columns["weight"] = read_numbers(path, "weight", pa.float64(), rows, np.float64)
    for name, known in (("group", manifest.has_groups), ("query_id", manifest.has_query_ids)):
        if known:
            columns[name] = read_texts(path, name, rows)
    if manifest.references is not None:
        references = read_lists(path, "references", pa.int32(), rows, manifest.references, np.int64)
        columns["reference_ptr"], columns["reference_index"] = references
    return columns


def write_pool(pool: InstancePool, path: Path) -> None:
    """Write ``pool.parquet``: the texts, the classes and the names, if any."""
    texts = None if KINDS[pool.kind].is_array else pool.values
    columns = [("text", "values", texts), ("class", "classes", pool.classes), ("name", "names", pool.names)]
    write_columns({name: text_column(field, strings) for name, field, strings in columns if strings is not None}, path)


def read_pool(path: Path, manifest: Manifest) -> dict[str, NDArray[Any]]:
    """Read the texts as ``text``, and ``classes`` and ``names``, from ``pool.parquet``; those that are known."""
    columns = {
        "text": ("text", not KINDS[manifest.kind].is_array),
        "classes": ("class", manifest.has_classes),
        "names": ("name", manifest.has_names),
    }
    return {key: read_texts(path, name, manifest.instances) for key, (name, known) in columns.items() if known}


def _lists(borders: NDArray[np.int64], members: NDArray[Any]) -> Any:
    return pa.ListArray.from_arrays(pa.array(borders.astype(np.int32)), pa.array(members))


def text_column(name: str, texts: NDArray[Any]) -> Any:
    """Strings as a column; ``name`` is for errors."""
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:
        row = next(row for row, text in enumerate(texts) if has_surrogate(text))
        raise MIVError(f"{name}[{row}] is {texts[row][:60]!r}, which has a lone surrogate. Replace it.") from None


def write_columns(data: dict[str, Any], path: Path) -> None:
    """Write columns by name."""
    pq.write_table(pa.table(data), path, compression="zstd", row_group_size=ROW_GROUP, write_page_checksum=True)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn any error of pyarrow about a file into one of ours; it raises many types for damaged files."""
    try:
        yield
    except MIVError:
        raise
    except Exception as error:
        raise MIVError(f"{path} cannot be read as Parquet: {error}. Create it again.") from error


def _pieces(path: Path, name: str, kinds: Sequence[Any], rows: int, entries: int = 0) -> Iterator[Any]:
    """Read one column, one row group at a time, because decoding lists takes several times their size."""
    with readable(path):
        with pq.ParquetFile(path) as file:
            metadata, schema = file.metadata, file.schema_arrow
        if metadata.num_rows != rows:
            raise MIVError(f"{path} has {metadata.num_rows} rows. Expected {rows}.")
        if schema.names.count(name) != 1 or schema.field(name).type not in kinds:
            known = ", ".join(f"{field.name} ({field.type})" for field in schema)
            raise MIVError(f"{path} has the columns {known}. Expected one {name!r} of type {kinds[0]}.")
        _check_size(path, name, rows, entries)
        form: dict[str, Any] = {"read_dictionary": [name]} if kinds[0] == pa.string() else {}
        with pq.ParquetFile(path, metadata=metadata, page_checksum_verification=True, **form) as file:
            for number in range(file.num_row_groups):
                piece = file.read_row_group(number, columns=[name]).column(name).combine_chunks()
                piece.validate(full=True)
                if piece.null_count:
                    raise MIVError(f"{path} has {piece.null_count} empty cells in {name!r}. Expected none.")
                yield piece


def _check_size(path: Path, name: str, rows: int, entries: int) -> None:
    """Raise an error if the file's footer shows a column far larger than the manifest says."""
    chunks = [chunk for chunk in column_chunks(path) if chunk.path.split(".")[0] == name]
    values = sum(chunk.values for chunk in chunks)
    if values > entries + rows:  # an empty cell counts as a value
        raise MIVError(f"{path} has {values} entries in {name!r}. Expected {entries or rows}. Create it again.")
    decoded = sum(chunk.unpacked_bytes for chunk in chunks)
    if decoded > max(_FREE_BYTES, _LARGEST_RATIO * path.stat().st_size):
        raise MIVError(f"{path} would unpack to {decoded} bytes in {name!r}, far too many for its size.")


def read_numbers(path: Path, name: str, kind: Any, rows: int, dtype: Any) -> NDArray[Any]:
    """Read a column of numbers ``(E,)``."""
    return _joined([_as_array(piece) for piece in _pieces(path, name, [kind], rows)], dtype)


def read_lists(
    path: Path, name: str, kind: Any, rows: int, entries: int, dtype: Any
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Read a column of lists as borders ``(E + 1,)`` and entries ``(T,)`` of all rows."""
    sizes, entries_of = [], []
    for piece in _pieces(path, name, [pa.list_(kind), pa.large_list(kind)], rows, entries):
        borders = _as_array(piece.offsets)
        members = piece.values[int(borders[0]) : int(borders[-1])]
        if members.null_count:
            raise MIVError(f"{path} has {members.null_count} empty entries in {name!r}. Expected none.")
        sizes.append(np.diff(borders))
        entries_of.append(_as_array(members))
    return csr.borders(_joined(sizes, np.int64)), _joined(entries_of, dtype)


def read_texts(path: Path, name: str, rows: int) -> NDArray[Any]:
    """Read strings as an object array that shares equal strings, because many rows share few names."""
    known: dict[str, str] = {}
    texts = []
    for piece in _pieces(path, name, [pa.string()], rows):
        distinct = np.empty(len(piece.dictionary), dtype=object)
        distinct[:] = [known.setdefault(text, text) for text in piece.dictionary.to_pylist()]
        texts.append(distinct[_as_array(piece.indices)])
    return _joined(texts, object)


def _as_array(piece: Any) -> NDArray[Any]:
    """View an Arrow array of numbers or bools without nulls as a NumPy array."""
    data = piece.buffers()[1]
    if data is None:  # an empty array has no buffer
        return np.zeros(0, np.int64)
    place = slice(piece.offset, piece.offset + len(piece))
    if pa.types.is_boolean(piece.type):
        return np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")[place].astype(bool)
    return np.frombuffer(data, str(piece.type))[place]


def _joined(pieces: list[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate(pieces, dtype=dtype) if pieces else np.zeros(0, dtype)
