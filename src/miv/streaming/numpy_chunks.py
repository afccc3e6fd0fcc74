"""Arrays on disk, read in chunks whose memory is used again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.errors import MIVError

CHUNK_BYTES = 1 << 20  # stays in the cache from reading to pooling


class NumpyFile:
    """A ``.npy`` file, read with plain reads: a mapped file would count as memory of this process, page by page.

    Args:
        path: the file, an array ``(N, ...)`` of numbers in row-major order.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # Mapped, so that a false header cannot allocate memory.
            outline = np.load(path, mmap_mode="r", allow_pickle=False)
        except Exception as error:  # damaged headers raise many types
            raise MIVError(f"{path}: not a NumPy file of numbers, or damaged ({error}).") from error
        if not isinstance(outline, np.memmap) or outline.dtype.kind not in "fiu" or outline.ndim < 2:
            found = f"{outline.dtype} {outline.shape}" if isinstance(outline, np.ndarray) else "an archive"
            raise MIVError(f"{path}: expected numbers of shape (N, C), got {found}.")
        if not outline.flags.c_contiguous:
            raise MIVError(f"{path} is in column-major order. Expected rows: save numpy.ascontiguousarray(array).")
        self.shape, self.dtype, self._offset = outline.shape, outline.dtype, int(outline.offset)

    def chunks(self, first: int = 0, last: int | None = None) -> Iterator[NDArray[Any]]:
        """Arrays ``(n, ...)`` of consecutive rows; each is overwritten by the next."""
        try:
            yield from self._chunks(first, last)
        except OSError as error:
            raise MIVError(f"Could not read {self.path}: {error.strerror or error}.") from error

    def _chunks(self, first: int, last: int | None) -> Iterator[NDArray[Any]]:
        row = self.shape[1:]
        bytes_of_row = int(np.prod(row)) * self.dtype.itemsize
        together = max(1, CHUNK_BYTES // bytes_of_row)
        buffer = np.empty((together, *row), self.dtype)
        raw = memoryview(buffer.data).cast("B")
        at, last = first, self.shape[0] if last is None else last
        with self.path.open("rb", buffering=0) as file:
            file.seek(self._offset + first * bytes_of_row)
            while at < last:
                count = min(together, last - at)
                wanted, filled = count * bytes_of_row, 0
                while filled < wanted:
                    got = file.readinto(raw[filled:wanted])
                    if not got:
                        raise MIVError(f"{self.path} ends after {at:,} of {self.shape[0]:,} rows. It is damaged.")
                    filled += got
                yield buffer[:count]
                at += count


def chunks_of_array(values: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Views of consecutive rows of an array in memory."""
    bytes_of_row = max(1, int(np.prod(values.shape[1:])) * values.dtype.itemsize)
    together = max(1, CHUNK_BYTES // bytes_of_row)
    for start in range(0, len(values), together):
        yield values[start : start + together]


def as_file(values: NDArray[Any]) -> NumpyFile | None:
    """The file of a mapped array, if the array is the whole of it; else ``None``."""
    if not isinstance(values, np.memmap) or values.filename is None or values.mode != "r":
        return None
    path = Path(str(values.filename))
    if path.suffix != ".npy" or not path.is_file():
        return None
    file = NumpyFile(path)
    whole = file.shape == values.shape and file.dtype == values.dtype and file._offset == values.offset
    # A view may have the same shape but other rows, or the same rows in another order.
    return file if whole and values.flags.c_contiguous and _starts_its_mapping(values) else None


def _starts_its_mapping(values: NDArray[Any]) -> bool:
    """Whether the first number of a mapped array is the first one of its file."""
    mapping: Any = values
    while isinstance(mapping.base, np.ndarray):
        mapping = mapping.base
    return bool(mapping.ctypes.data == values.ctypes.data)
