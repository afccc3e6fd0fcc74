"""What all parts of a bag have in common: they grow by chunks, merge, and give one answer."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from miv.io.checked_values import Floats, Integers, Mask
from miv.kept.similarity_of_query import Rows
from miv.streaming.leading_targets import LeadingTargets


@dataclass(frozen=True, eq=False)
class PooledBag:
    """The answers for ``R`` queries on one bag.

    Args:
        logit: ``(R,)``.
        places: for each query, places ``(k,)`` of the targets with the largest shares, largest first.
        shares: for each query, the shares ``(k,)`` of these targets.
    """

    logit: Floats
    places: list[Integers]
    shares: list[Floats]


class PartialPooling(ABC):
    """A part of one bag, pooled for ``R`` queries.

    Args:
        queries: ``R``.
        heads: ``h``.
        top: number of targets to name per query.
    """

    def __init__(self, queries: int, heads: int, top: int) -> None:
        self.leading = [LeadingTargets(top, heads) for _ in range(queries)]

    of_verifier: ClassVar[tuple[str, ...]] = ()
    """Attributes that come from the verifier and the queries, which a part that is sent to be merged leaves behind."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, **dict.fromkeys(self.of_verifier)}

    def adopt(self, other: "PartialPooling") -> None:
        """Take over what this part left behind when it was sent, if the other part has it."""
        for name in self.of_verifier:
            if getattr(self, name) is None:
                setattr(self, name, getattr(other, name))

    @abstractmethod
    def rows(self, features: Rows) -> Rows:
        """What the pass reads, ``(N, K)``, of features ``(N, C)``: keys, or normed features."""

    @abstractmethod
    def update(self, rows: Rows, first: int) -> None:
        """Add targets with these ``rows`` at the places from ``first`` on."""

    @abstractmethod
    def merge(self, other: "PartialPooling") -> None:
        """Add another part of the same bag, pooled for the same queries."""

    @abstractmethod
    def finish(self) -> PooledBag:
        """The answers for all targets so far."""

    def lead(self, scores: Rows, first: int) -> None:
        """Keep the leading targets of a block with scores ``(h, R, N)``."""
        if not self.leading[0].top:
            return
        floor = np.stack([leading.floor for leading in self.leading], axis=1)  # (h, R)
        possible: Mask = np.asarray((scores >= floor[:, :, None]).any(axis=0))  # (R, N)
        if not possible.any():
            return
        for query in np.flatnonzero(possible.any(axis=1)):
            rows = np.flatnonzero(possible[query])
            self.leading[query].add(scores[:, query, rows].T.astype(np.float64), first + rows)

    def merge_leading(self, other: "PartialPooling") -> None:
        """Merge the leading targets of all queries."""
        for mine, theirs in zip(self.leading, other.leading, strict=True):
            mine.merge(theirs)
