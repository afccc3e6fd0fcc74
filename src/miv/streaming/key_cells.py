"""Alike rows together: k-means in two levels, cheap enough for millions of rows."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from miv.io.checked_values import Integers
from miv.kept.similarity_of_query import Rows

_ROUNDS = 4
_TRAINED_ON = 256  # rows per centre
_TOGETHER = 1 << 14

AnyRows = NDArray[np.floating]  # half precision too; a few at a time become single precision when they are weighted


@dataclass(frozen=True, eq=False)
class Cells:
    """Rows in cells.

    Args:
        order: ``(N,)``, numbers of the rows, cell by cell.
        ptr: ``(n + 1,)``, borders between the ``n`` cells in ``order``; none is empty.
    """

    order: Integers
    ptr: Integers


def find_cells(
    rows: AnyRows, weight: NDArray[np.float32], groups: int, cells: int, random: np.random.Generator
) -> Cells:
    """Divide rows ``(N, K)`` into at most ``groups`` x ``cells`` cells, with squared distances weighted by ``(K,)``."""
    root = np.sqrt(weight)
    outer = _nearest(rows, root, _centres(rows, root, groups, random))
    order, sizes = [], []
    for group in range(groups):
        members = random.permutation(np.flatnonzero(outer == group))
        if not len(members):
            continue
        some = rows[members]
        inner = _nearest(some, root, _centres(some, root, min(cells, len(members)), random))
        counts = np.bincount(inner)
        order.append(members[np.argsort(inner, kind="stable")])  # a random order within each cell
        sizes.append(counts[counts > 0])
    return Cells(np.concatenate(order), np.concatenate([[0], np.cumsum(np.concatenate(sizes))]))


def _centres(rows: AnyRows, root: NDArray[np.float32], count: int, random: np.random.Generator) -> Rows:
    """Centres ``(n, K)`` of weighted rows, learned from some of them."""
    some = rows[np.sort(random.choice(len(rows), min(len(rows), count * _TRAINED_ON), replace=False))] * root
    centres = some[random.choice(len(some), count, replace=False)].copy()
    for _ in range(_ROUNDS):
        label = _nearest(some, None, centres)
        order = np.argsort(label, kind="stable")
        found, first, counts = np.unique(label[order], return_index=True, return_counts=True)
        centres[found] = np.add.reduceat(some[order], first, axis=0) / counts[:, None]
    return centres


def _nearest(rows: AnyRows, root: NDArray[np.float32] | None, centres: Rows) -> Integers:
    """The nearest centre of each row."""
    half = np.square(centres).sum(axis=1) / 2
    found = []
    for start in range(0, len(rows), _TOGETHER):
        block = rows[start : start + _TOGETHER]
        found.append((half - (block if root is None else block * root) @ centres.T).argmin(axis=1))
    return np.concatenate(found)
