"""Rows that lie in several mapped files, under one numbering."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from miv.data import csr

Rows = NDArray[np.float32]


class RowStore:
    """Rows ``(N, K)`` in pieces.

    Args:
        pieces: arrays ``(n, K)``, in order.
        width: ``K``.
    """

    def __init__(self, pieces: Sequence[Rows], width: int) -> None:
        self.pieces, self.width = [piece for piece in pieces if len(piece)], width
        self.borders = csr.borders([len(piece) for piece in self.pieces])

    def __len__(self) -> int:
        return int(self.borders[-1])

    def between(self, first: int, last: int) -> Rows:
        """Rows ``first`` to ``last - 1``; without a copy if they are in one piece."""
        found = []
        number = int(np.searchsorted(self.borders, first, side="right")) - 1
        while first < last:
            start, end = int(self.borders[number]), min(last, int(self.borders[number + 1]))
            found.append(self.pieces[number][first - start : end - start])
            first, number = end, number + 1
        return found[0] if len(found) == 1 else np.concatenate([np.zeros((0, self.width), np.float32), *found])

    def take(self, rows: NDArray[np.int64]) -> Rows:
        """The rows with these numbers, in this order; without a copy if they follow each other in one piece."""
        if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
            return self.between(int(rows[0]), int(rows[-1]) + 1)
        taken = np.empty((len(rows), self.width), np.float32)
        of_piece = np.searchsorted(self.borders, rows, side="right") - 1
        for number in np.unique(of_piece):
            mine = of_piece == number
            taken[mine] = self.pieces[number][rows[mine] - self.borders[number]]
        return taken
