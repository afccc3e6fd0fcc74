"""Import pyarrow in one place; if it is missing, the error says what to install. Refuse files that unpack to too much.

Reading text tables, images and verifiers does not need it, so import this module inside a function,
or in a module that is imported only to read or write Parquet files.
"""

from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from miv.errors import MIVError, needs_extra
from miv.io.parquet_footer import ColumnChunk, column_chunks

with needs_extra("train", "Reading and writing Parquet files", "pyarrow"):
    import pyarrow as pa
    import pyarrow.parquet as pq

__all__ = ["check_unpacked_size", "pa", "pq"]

_FREE_BYTES = 256 << 20  # a file may always unpack to this many bytes,
_FEW_ROWS, _MANY_ROWS = 16, 1024  # read at a time if lists of texts are written out, and otherwise
_LARGEST_RATIO = 1000  # or to this many times its size


def check_unpacked_size(path: Path, content: bytes | None = None) -> None:
    """Raise an error if a file unpacks to far more memory than its size suggests, before it is unpacked.

    A few bytes can encode a billion equal numbers, which the footer shows. They can also encode one long text for a
    thousand rows, so texts are first read as numbers of their distinct values, which take no more memory than the file.

    Args:
        path: the file.
        content: its content, if already read.
    """
    file_bytes = path.stat().st_size if content is None else len(content)
    most = max(_FREE_BYTES, _LARGEST_RATIO * file_bytes)
    with path.open("rb") if content is None else BytesIO(content) as file:
        chunks = column_chunks(file)
    _check(path, sum(max(chunk.unpacked_bytes, chunk.value_bytes * chunk.values) for chunk in chunks), most, file_bytes)
    total = 0
    for unpacked in _text_bytes(lambda: path if content is None else pa.BufferReader(content), chunks, most):
        total += unpacked
        _check(path, total, most, file_bytes)


def _text_bytes(source: Callable[[], Any], chunks: list[ColumnChunk], most: int) -> Iterator[int]:
    """Unpacked bytes of the columns of texts, a few rows at a time."""
    texts = [chunk for chunk in chunks if chunk.is_text]
    delta = {".".join(chunk.path) for chunk in texts if chunk.is_delta}
    for name in sorted({".".join(chunk.path) for chunk in texts}):
        numbered, rows = [name], _MANY_ROWS
        if name in delta:
            # Its texts cannot be read as numbers, and each may be as long as all that is stored.
            longest = max(chunk.unpacked_bytes for chunk in texts if ".".join(chunk.path) == name)
            numbered, rows = [], max(1, min(_MANY_ROWS, most // max(1, longest)))
        with pq.ParquetFile(source(), read_dictionary=numbered) as file, pq.ParquetFile(source()) as plain:
            for group in range(file.num_row_groups):
                try:
                    yield from _batch_bytes(file, group, name, rows)
                except pa.ArrowNotImplementedError:  # texts in lists, only some of which are numbered
                    yield from _batch_bytes(plain, group, name, _FEW_ROWS)


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
    if pa.types.is_dictionary(kind) and len(array.dictionary):
        words = array.dictionary
        offsets = np.int64 if pa.types.is_large_string(words.type) or pa.types.is_large_binary(words.type) else np.int32
        borders = np.frombuffer(words.buffers()[1], offsets)[words.offset : words.offset + len(words) + 1]
        used = array.indices
        places = np.frombuffer(used.buffers()[1], np.int32)[used.offset : used.offset + len(used)]
        places = places.clip(0, len(words) - 1)  # an empty cell may have any number
        return int(np.diff(borders).astype(np.int64)[places].sum()) + 4 * len(array)
    return int(array.nbytes)
