r"""One code of bits per kept row: two rows that point the same way agree in most bits.

With :math:`H` random directions :math:`r_j` and the centre :math:`m` of the rows, bit :math:`j` of a row :math:`x` is
whether :math:`r_j \cdot (x - m) > 0`, and that of a query :math:`q` whether :math:`r_j \cdot q > 0`. The share of
unequal bits estimates the angle between them, so the rows with the fewest unequal bits have the greatest products with
the query. Comparing bits takes a hundredth of the time of comparing rows.
"""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.errors import MIVError
from miv.gallery.store import arrow_files as arrow
from miv.io.whole_files import whole_file

Rows = NDArray[np.float32]
Words = NDArray[np.uint64]
BITS = 512  # H
_WORD = 64
_WORDS = BITS // _WORD
_ROWS_OF_CENTRE = 4096
_ROWS_TOGETHER = 1 << 14  # words compared at once; the temporaries stay in the cache


@cache
def directions(width: int) -> Rows:
    """Random directions ``(P, H)``; always the same, as queries must meet codes that were written years ago."""
    fixed = np.random.RandomState(0)  # NumPy never changes the numbers of this generator
    return np.ascontiguousarray(fixed.standard_normal((BITS, width)).T, np.float32)


def codes_of(vectors: Rows) -> Words:
    """Codes ``(N, H / 64)`` of vectors ``(N, P)``."""
    bits = np.packbits(vectors @ directions(vectors.shape[1]) > 0, axis=1)
    return np.asarray(bits.view(np.uint64))


def centre_of(rows: Rows) -> Rows:
    """The centre ``(P,)`` of a segment: the mean of its first rows, which never change."""
    return np.asarray(rows.mean(axis=0, dtype=np.float64), np.float32)


def write_codes(
    path: Path, pieces: list[Rows], vectors_of: Callable[[Rows], Rows], advance: Callable[[int], Any]
) -> None:
    """Write the codes of the rows of a segment, for the vectors that ``vectors_of`` makes of them."""
    centre = centre_of(vectors_of(pieces[0][:_ROWS_OF_CENTRE]))

    def batches() -> Iterator[Any]:
        for piece in pieces:
            for start in range(0, len(piece), _ROWS_TOGETHER):
                part = vectors_of(piece[start : start + _ROWS_TOGETHER])
                columns = [arrow.pa.array(column) for column in np.ascontiguousarray(codes_of(part - centre).T)]
                yield arrow.pa.record_batch(columns, schema=_schema())
                advance(len(part))

    with whole_file(path) as temporary:
        arrow.write_batches(temporary, _schema(), batches())


class RowCodes:
    """The mapped codes of a segment.

    Args:
        path: the file.
        size: its bytes, from the manifest.
        rows: number of rows of the segment.
    """

    def __init__(self, path: Path, size: int, rows: int) -> None:
        self.batches: list[list[Words]] = []
        for batch in arrow.map_batches(path, _schema(), size, rows):
            if any(column.null_count for column in batch.columns):
                raise MIVError(f"The index {path} has empty cells. {arrow.DAMAGED}")
            self.batches.append([column.to_numpy(zero_copy_only=True) for column in batch.columns])
        self.rows = rows

    def nearest(self, query: Words, count: int) -> NDArray[np.int64]:
        """Numbers of about ``count`` rows with the fewest bits unlike those of one query ``(H / 64,)``."""
        unequal = self._unequal(query)
        at_most = np.searchsorted(np.cumsum(np.bincount(unequal, minlength=BITS + 1)), count)
        return np.flatnonzero(unequal <= at_most)

    def _unequal(self, query: Words) -> NDArray[np.uint16]:
        """Number of unequal bits ``(N,)``."""
        found, first = np.zeros(self.rows, np.uint16), 0
        words = np.empty(_ROWS_TOGETHER, np.uint64)
        for batch in self.batches:
            for start in range(0, len(batch[0]), _ROWS_TOGETHER):
                parts = [column[start : start + _ROWS_TOGETHER] for column in batch]
                here, total = words[: len(parts[0])], found[first : first + len(parts[0])]
                for part, word in zip(parts, query, strict=True):
                    total += ones_in(np.bitwise_xor(part, word, out=here))
                first += len(here)
        return found


def ones_in_words(words: Words) -> NDArray[np.uint8]:
    """Number of one bits of each word, by adding neighbouring fields of 1, 2 and 4 bits, then all bytes."""
    fields = words - ((words >> np.uint64(1)) & np.uint64(0x5555555555555555))
    fields = (fields & np.uint64(0x3333333333333333)) + ((fields >> np.uint64(2)) & np.uint64(0x3333333333333333))
    fields = (fields + (fields >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return ((fields * np.uint64(0x0101010101010101)) >> np.uint64(56)).astype(np.uint8)


ones_in: Callable[[Words], NDArray[np.uint8]] = getattr(np, "bitwise_count", ones_in_words)  # since NumPy 2.0


def _schema() -> Any:
    return arrow.pa.schema([(f"word_{number}", arrow.pa.uint64()) for number in range(_WORDS)])
