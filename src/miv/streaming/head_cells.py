"""The keys of one head, alike ones stored together, with what is known of each cell before a query comes."""

import numpy as np
from numpy.typing import NDArray

from miv.io.checked_values import Floats, Integers
from miv.kept.similarity_of_query import Rows
from miv.streaming.head_query import HeadQuery, length
from miv.streaming.key_cells import find_cells

_LEAST_WEIGHT = 1e-6


class HeadCells:
    """``n`` cells of the keys ``(N, D)`` of one head.

    The keys are stored cell by cell, in a random order within each, so the first keys of a cell are a random sample
    of it and are next to each other in memory.

    Args:
        keys: ``(N, D)``.
        metric: any query in this head; its weights are those of all queries.
        groups: the square root of the greatest number of cells.
        random: draws the order; heads whose errors are to be independent need one each.
    """

    def __init__(
        self, keys: NDArray[np.floating], metric: HeadQuery, groups: int, random: np.random.Generator
    ) -> None:
        weight, power = metric.weight, metric.power
        channels = keys.shape[1]
        scale = np.ones(channels, np.float32) if weight is None else np.maximum(weight, _LEAST_WEIGHT)
        found = find_cells(np.asarray(keys, np.float32), scale, groups, groups, random)
        self.keys = keys[found.order]  # (N, D)
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
            members = np.asarray(self.keys[self.ptr[cell] : self.ptr[cell + 1]], np.float64)
            self.centres[cell] = members.mean(axis=0)
            gap = members - self.centres[cell]
            distances = length(gap, weight, power)
            self.variances[cell] = np.square(gap).mean(axis=0)
            self.reach[cell] = distances.max()
            self.spread[cell] = distances.mean() if power == 1 else np.square(distances).mean()
            self.radii[cell] = np.sqrt(np.square(gap).sum(axis=1).max())
            self.lengths[cell] = np.sqrt(np.square(members).sum(axis=1).max())
            self.longest = max(self.longest, float(length(members, weight, power).max()))

    def first_members(self, counts: Integers) -> tuple[Integers, Integers]:
        """The first ``counts`` ``(n,)`` keys of each cell: where in ``keys`` they are, and where each cell's begin."""
        borders = np.concatenate([[0], np.cumsum(counts)])
        return np.arange(borders[-1]) + np.repeat(self.ptr[:-1] - borders[:-1], counts), borders[:-1]

    def rows(self, at: NDArray[np.integer]) -> Rows:
        """Keys in single precision."""
        return np.asarray(self.keys.take(at, axis=0), np.float32)
