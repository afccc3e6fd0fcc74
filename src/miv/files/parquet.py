"""Import pyarrow in one place; if it is missing, the error says what to install. Refuse files that unpack to too much.

Reading text tables, images and verifiers does not need it, so import this module inside a function,
or in a module that is imported only to read or write Parquet files.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from miv.errors import MIVError, needs_extra

__all__ = ["check_unpacked_size", "pa", "pq"]


with needs_extra("train", "Reading and writing Parquet files", "pyarrow"):
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq


_FREE_BYTES = 256 << 20  # a file may always unpack to this many bytes,
_MANY_ROWS = 1024  # read at a time; fewer if long texts are written out
_LARGEST_RATIO = 1000  # or to this many times its size


class _Chunk(NamedTuple):
    """A column in one group of rows, as the footer describes it."""

    path: str
    is_text: bool
    is_delta: bool  # a text may repeat the start of the last, so they cannot be read as numbers
    unpacked_bytes: int


def _chunks(source: Any) -> Iterator[_Chunk]:
    """The columns of all groups of rows in a path or buffer; raises an error if the file is damaged."""
    with pq.ParquetFile(source) as file:
        # pyarrow aborts the process when it is asked for a damaged chunk. A scan, in bounded memory, raises an error.
        file.scan_contents()
        for group in range(file.metadata.num_row_groups):
            for place in range(file.metadata.row_group(group).num_columns):
                chunk, column = file.metadata.row_group(group).column(place), file.schema.column(place)
                # pyarrow decodes by the types in the schema; what a group of rows says may differ in a damaged file.
                value_bytes = column.length if column.physical_type == "FIXED_LEN_BYTE_ARRAY" else 4
                if min(chunk.num_values, chunk.total_uncompressed_size, value_bytes) < 0:
                    raise ValueError("its footer has negative sizes")
                unpacked = max(chunk.total_uncompressed_size, value_bytes * chunk.num_values)
                is_delta = bool({"DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"} & set(chunk.encodings))
                yield _Chunk(chunk.path_in_schema, column.physical_type == "BYTE_ARRAY", is_delta, unpacked)


def check_unpacked_size(path: Path, content: bytes | None = None) -> None:
    """Raise an error if a file unpacks to far more memory than its size suggests, before it is unpacked.

    A few bytes can encode a billion equal numbers, which the footer shows. They can also encode one long text for a
    thousand rows, so texts are first read as numbers of their distinct values, which take no more memory than the file.
    ``content`` is that of the file, if already read.
    """
    file_bytes = path.stat().st_size if content is None else len(content)
    most = max(_FREE_BYTES, _LARGEST_RATIO * file_bytes)
    chunks = list(_chunks(path if content is None else pa.BufferReader(content)))
    _check(path, sum(chunk.unpacked_bytes for chunk in chunks), most, file_bytes)
    total = 0
    for unpacked in _text_bytes(lambda: path if content is None else pa.BufferReader(content), chunks, most):
        total += unpacked
        _check(path, total, most, file_bytes)


def _text_bytes(source: Callable[[], Any], chunks: list[_Chunk], most: int) -> Iterator[int]:
    """Unpacked bytes of the columns of texts, a few rows at a time."""
    for name in sorted({chunk.path for chunk in chunks if chunk.is_text}):
        own = [chunk for chunk in chunks if chunk.path == name]
        # A text written out may be as long as all that is stored.
        few = max(1, min(_MANY_ROWS, most // max(1, *(chunk.unpacked_bytes for chunk in own))))
        is_delta = any(chunk.is_delta for chunk in own)  # its texts cannot be read as numbers
        numbered, rows = ([], few) if is_delta else ([name], _MANY_ROWS)
        with pq.ParquetFile(source(), read_dictionary=numbered) as file, pq.ParquetFile(source()) as plain:
            for group in range(file.num_row_groups):
                try:
                    yield from _batch_bytes(file, group, name, rows)
                except pa.ArrowNotImplementedError:  # texts in lists, only some of which are numbered
                    yield from _batch_bytes(plain, group, name, few)


def _batch_bytes(file: Any, group: int, column: str, rows: int) -> Iterator[int]:
    for batch in file.iter_batches(batch_size=rows, row_groups=[group], columns=[column]):
        batch.validate(full=True)  # a damaged file may have indices outside its texts
        yield sum(_unpacked(array) for array in batch.columns)


def _check(path: Path, unpacked: int, most: int, file_bytes: int) -> None:
    if unpacked > most:
        raise MIVError(
            f"{path} has {file_bytes:,} bytes and unpacks to {unpacked:,} or more. Expected at most {most:,}. "
            "The file is probably damaged; if not, split it or save it as CSV."
        )


def _unpacked(array: Any) -> int:
    """Bytes of an array with every text written out."""
    kind = array.type
    if pa.types.is_struct(kind):
        return sum(_unpacked(array.field(place)) for place in range(kind.num_fields))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _unpacked(array.flatten())
    if pa.types.is_dictionary(kind):
        lengths = pc.binary_length(array.dictionary).take(array.indices)
        return int(pc.sum(lengths).as_py() or 0) + 4 * len(array)
    return int(array.nbytes)
