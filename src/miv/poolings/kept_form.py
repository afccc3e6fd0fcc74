"""What a pooling may offer for bags that are stored or larger than memory.

A pooling that overrides ``Pooling.kept_form`` is searched in galleries by one pass over what was stored when a bag was
added. If the form has a ``partial_pooling``, it also reads a bag in chunks, in parts that merge.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv.errors import MIVError
from miv.poolings.running_sums import Floats, Integers, LeadingTargets, Mask

Rows = NDArray[np.float32]
Borders = NDArray[np.int64]
Per = Literal["instance", "member", "bag"]
_BLOCK_BYTES = 400 << 10  # rows worked on together, twice this with a temporary: half of a usual second-level cache


def as_rows(tensor: Tensor) -> Rows:
    """A tensor as a contiguous float32 array."""
    return np.ascontiguousarray(tensor.detach().to("cpu", torch.float32).numpy())


def block_rows(width: int) -> int:
    """Number of float32 rows that are worked on together."""
    return max(32, _BLOCK_BYTES // (4 * width))


class PreparedQueries(ABC):
    """``R`` queries in the form that the pass over the kept rows needs."""

    rows_together: ClassVar[int] = 1 << 14
    """Rows per call of ``logits``; one call costs tens of microseconds besides arithmetic."""

    @abstractmethod
    def logits(self, rows: Rows, ptr: Borders) -> NDArray[np.float32]:
        """Logits ``(R, B)`` of bags with the kept rows ``(T, K)``, or ``(B, K)`` if a row is kept per bag."""


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

    of_pooling: ClassVar[tuple[str, ...]] = ()
    """Attributes that come from the pooling and the queries, which a part that is sent to be merged leaves behind."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, **dict.fromkeys(self.of_pooling)}

    def adopt(self, other: "PartialPooling") -> None:
        """Take over what this part left behind when it was sent, if the other part has it."""
        for name in self.of_pooling:
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

    def log_sums_so_far(self) -> Floats:
        """The logarithms ``(h, R)`` of the sums of the softmax over the targets so far, for a second pass."""
        raise MIVError("Only cross-attention pooling with several heads may need a second pass.")

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


class KeptForm(ABC):
    """What is stored per instance, per member of a bag, or per bag, and how queries read it."""

    per: ClassVar[Per] = "instance"
    needs_variance: ClassVar[bool] = False
    """Whether ``partial_pooling`` needs the variance of the whole bag, which takes a pass of its own."""

    is_kept_apart: ClassVar[bool] = True
    """Whether kept rows are stored beside the features; otherwise the features themselves are read."""

    @property
    @abstractmethod
    def width(self) -> int:
        """``K``, the length of a kept row."""

    @abstractmethod
    def keep(self, features: Rows, ptr: Borders) -> Rows:
        """Kept rows of bags of features ``(T, C)``; for ``per = "instance"`` the borders do not matter."""

    @abstractmethod
    def prepare(self, queries: Rows) -> PreparedQueries:
        """Prepare the features ``(R, C)`` of ``R`` queries."""

    def partial_pooling(
        self, queries: Rows, top: int, variance: Floats | None = None, log_sums: Floats | None = None
    ) -> PartialPooling | None:
        """An empty part of a bag; ``None``, the default, if the pooling needs the whole bag at once.

        Args:
            queries: features ``(R, C)``.
            top: number of targets to name per query.
            variance: ``(C,)``, of the normed features of the whole bag, if ``needs_variance``.
            log_sums: ``(h, R)``, of the whole bag, if this is a second pass that names targets.
        """
        return None
