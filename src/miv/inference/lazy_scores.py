"""Scores that are computed when somebody looks at them."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray


class LazyScores:
    """The scores of instances by themselves, computed when they are first asked for, from features that are kept.

    They cost one to four times what the verdicts cost, and most who verify thousands of bags never look at them.

    Args:
        compute: gives the scores of the exemplars from one to before another.
        first: the first exemplar.
        last: the one after the last.
    """

    def __init__(self, compute: Callable[[int, int], NDArray[np.float64]], first: int, last: int) -> None:
        self._compute, self._first, self._last = compute, first, last

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """``(T,)`` those of all instances."""
        return self._compute(self._first, self._last)

    def of(self, exemplar: int, targets: slice) -> "LazyScores":
        """Those of one exemplar, whose instances are these, without computing the others."""
        known = self.__dict__.get("values")
        if known is not None:
            return LazyScores(lambda *_: known[targets], 0, 1)
        return LazyScores(self._compute, self._first + exemplar, self._first + exemplar + 1)

    def __getstate__(self) -> dict[str, Any]:
        return {"values": self.values}  # a copy in another process has no features, and no verifier
