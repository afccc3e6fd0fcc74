"""Which reference matches which instance of the bag, computed on first access."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


class LazyMatches:
    """The matrices of several exemplars: one row per reference, one column per instance.

    Args:
        compute: returns the matrix of one exemplar.
        exemplars: their numbers.
    """

    def __init__(self, compute: Callable[[int], Matrix], exemplars: range) -> None:
        self._compute, self._exemplars = compute, exemplars

    @cached_property
    def values(self) -> list[Matrix]:
        """One matrix ``(R, N)`` per exemplar."""
        return [self._compute(number) for number in self._exemplars]

    def of(self, exemplar: int) -> "LazyMatches":
        """The matrix of one exemplar, without computing the others."""
        known = self.__dict__.get("values")
        if known is not None:
            return LazyMatches(lambda _: known[exemplar], range(1))
        number = self._exemplars[exemplar]
        return LazyMatches(self._compute, range(number, number + 1))

    def __getstate__(self) -> dict[str, Any]:
        return {"values": self.values}  # a copy in another process has neither features nor verifier
