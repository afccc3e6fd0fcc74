"""Arithmetic over ragged bags in NumPy: ``ptr`` ``(E + 1,)`` are the borders, bag ``e`` is rows ``ptr[e]:ptr[e + 1]``.

All functions accept empty bags.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miv.files.arrays import Floats, Integers, Mask


def borders(sizes: ArrayLike) -> Integers:
    """Return the borders ``(E + 1,)`` between bags of these sizes ``(E,)``.

    >>> borders([2, 0, 3]).tolist()
    [0, 2, 2, 5]
    """
    return np.concatenate([[0], np.cumsum(np.asarray(sizes, np.int64))])


def owners(ptr: Integers) -> Integers:
    """Return the bag ``(T,)`` of each row."""
    return to_rows(np.arange(len(ptr) - 1), ptr)


def places(ptr: Integers) -> Integers:
    """Return the position ``(T,)`` of each row in its bag."""
    return np.asarray(np.arange(ptr[-1]) - to_rows(ptr[:-1], ptr))


def to_rows(values: ArrayLike, ptr: Integers) -> NDArray[Any]:
    """Return ``(T, ...)``: the value of each bag ``(E, ...)``, repeated for each of its rows."""
    return np.repeat(np.asarray(values), np.diff(ptr), axis=0)


def bag_sums(values: ArrayLike, ptr: Integers) -> NDArray[Any]:
    """Return the sum ``(E,)`` of the values ``(T,)`` in each bag; for a mask, the number of true values."""
    return _reduce(np.add, values, ptr, empty=0)


def bag_maxima(values: ArrayLike, ptr: Integers) -> Floats:
    """Return the maximum ``(E,)`` of the values ``(T,)`` in each bag; minus infinity for an empty bag."""
    return _reduce(np.maximum, np.asarray(values, np.float64), ptr, empty=-np.inf)


def bag_any(mask: ArrayLike, ptr: Integers) -> Mask:
    """Return whether the mask ``(T,)`` is true anywhere in each bag, ``(E,)``."""
    return _reduce(np.logical_or, mask, ptr, empty=False)


def take_bags(ptr: Integers, chosen: Integers) -> tuple[Integers, Integers]:
    """Return the borders ``(B + 1,)`` of the chosen bags ``(B,)`` in that order, and their rows.

    >>> [array.tolist() for array in take_bags(borders([2, 1, 3]), np.array([2, 0]))]
    [[0, 3, 5], [3, 4, 5, 0, 1]]
    """
    taken = borders(np.diff(ptr)[chosen])
    return taken, to_rows(ptr[chosen], taken) + places(taken)


def batches(ptr: Integers, rows: int) -> Iterator[tuple[int, int]]:
    """Yield the first bag of each batch, and the one after its last: at most ``rows`` rows, or one larger bag.

    >>> list(batches(borders([2, 1, 3, 9, 1]), 4))
    [(0, 2), (2, 3), (3, 4), (4, 5)]
    """
    first = 0
    while first < len(ptr) - 1:
        last = max(first + 1, int(np.searchsorted(ptr, ptr[first] + rows, side="right")) - 1)
        yield first, last
        first = last


def _reduce(operation: np.ufunc, values: ArrayLike, ptr: Integers, empty: float) -> NDArray[Any]:
    """Reduce each bag; ``reduceat`` alone gives an empty bag the first value of the next bag."""
    filled = np.diff(ptr) > 0
    reduced = operation.reduceat(np.asarray(values), ptr[:-1][filled])
    if filled.all():
        return reduced
    whole = np.full((len(filled), *reduced.shape[1:]), empty, reduced.dtype)
    whole[filled] = reduced
    return whole
