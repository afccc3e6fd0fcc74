"""The keys of one head, alike ones stored together, with what is known of each cell before a query comes."""

import numpy as np
from numpy.typing import NDArray

from miv.io.checked_values import Floats, Integers
from miv.kept.similarity_of_query import Rows
from miv.streaming.head_query import HeadQuery, length
from miv.streaming.key_cells import find_cells

_LEAST_WEIGHT = 1e-6
_CHANNELS = 16  # put in order together
_TOGETHER = 1 << 12  # keys in double precision


class HeadCells:
    """``n`` cells of the keys ``(N, D)`` of one head.

    The keys are stored cell by cell, in a random order within each, so the first keys of a cell are a random sample
    of it and are next to each other in memory.

    Args:
        keys: ``(N, D)``. They are put in another order where they are, because a copy would need as much memory again.
        metric: any query in this head; its weights are those of all queries.
        groups: the square root of the greatest number of cells.
        random: draws the order; heads whose errors are to be independent need one each.
    """

    def __init__(self, keys: NDArray[np.floating], metric: HeadQuery, groups: int, random: np.random.Generator) -> None:
        channels = keys.shape[1]
        scale = np.ones(channels, np.float32) if metric.weight is None else np.maximum(metric.weight, _LEAST_WEIGHT)
        found = find_cells(keys, scale, groups, groups, random)
        for start in range(0, channels, _CHANNELS):
            some = slice(start, start + _CHANNELS)
            keys[:, some] = keys[found.order, some]
        self.keys = keys
        self.order: NDArray[np.int32] = found.order.astype(np.int32)  # places in the bag
        self.at = np.empty_like(self.order)  # where in `keys` the key of each place is
        self.at[self.order] = np.arange(len(self.order), dtype=np.int32)
        self.ptr, self.sizes = found.ptr, np.diff(found.ptr)
        count = len(self.sizes)
        self.centres: Rows = np.zeros((count, channels), np.float32)  # the mean key of each cell
        self.variances: Rows = np.zeros((count, channels), np.float32)
        self.reach: Floats = np.zeros(count)  # greatest distance from the centre, by the norm of the score
        self.spread: Floats = np.zeros(count)  # its mean; for squared distances, the mean square
        self.radii: Floats = np.zeros(count)  # greatest Euclidean distance from the centre
        self.lengths: Floats = np.zeros(count)  # greatest Euclidean length of a key
        self.longest = 0.0  # length of a key, by the norm of the score
        for cell in range(count):
            members = keys[self.ptr[cell] : self.ptr[cell + 1]]
            self.centres[cell] = members.mean(axis=0, dtype=np.float64)
            for start in range(0, len(members), _TOGETHER):
                self._measure(cell, np.asarray(members[start : start + _TOGETHER], np.float64), metric)

    def _measure(self, cell: int, members: Floats, metric: HeadQuery) -> None:
        """Add some members ``(m, D)`` of a cell with a known centre to what is known of it."""
        weight, power = metric.weight, metric.power
        gap = members - self.centres[cell]
        distances, away = length(gap, weight, power), np.square(gap)
        self.variances[cell] += away.sum(axis=0) / self.sizes[cell]
        self.reach[cell] = max(self.reach[cell], distances.max())
        self.spread[cell] += (distances if power == 1 else np.square(distances)).sum() / self.sizes[cell]
        self.radii[cell] = max(self.radii[cell], np.sqrt(away.sum(axis=1).max()))
        self.lengths[cell] = max(self.lengths[cell], np.sqrt(np.square(members).sum(axis=1).max()))
        self.longest = max(self.longest, float(length(members, weight, power).max()))

    def first_members(self, counts: Integers) -> tuple[Integers, Integers]:
        """The first ``counts`` ``(n,)`` keys of each cell: where in ``keys`` they are, and where each cell's begin."""
        borders = np.concatenate([[0], np.cumsum(counts)])
        return np.arange(borders[-1]) + np.repeat(self.ptr[:-1] - borders[:-1], counts), borders[:-1]

    def rows(self, at: NDArray[np.integer]) -> Rows:
        """Keys in single precision."""
        return np.asarray(self.keys.take(at, axis=0), np.float32)
