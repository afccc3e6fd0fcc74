"""One bag part by part: the sums of its softmax, the targets with the greatest shares, and how parts merge."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Rows = NDArray[np.float32]

_PENDING = 512  # new candidates that are sorted only when there are this many
_LEAST = np.float32(1e-37)  # share whose logarithm is taken


class PooledBag(NamedTuple):
    """The answers for ``R`` queries on one bag: logits ``(R,)``; for each query the leading targets, largest first."""

    logit: Floats
    places: list[Integers]
    shares: list[Floats]


class PartialBag:
    """A part of one bag, pooled for ``R`` queries.

    The queries give for a block of rows ``scores(rows)``: scores ``(h, R, N)``, and what ``summed(weights, terms,
    rows)`` needs to sum ``(h, R, K)`` numbers; ``logits_of(sums)`` are then the logits ``(R,)``.
    ``width`` is ``K``. With several heads, the shares of targets are known only once the sums of the whole bag are, so
    naming targets takes a second pass, with those ``log_sums`` ``(h, R)``.
    """

    def __init__(self, queries: Any, top: int, width: int = 0, log_sums: Floats | None = None) -> None:
        self.queries, self.log_sums = queries, log_sums
        self.needs_second_pass = top > 0 and queries.heads > 1 and log_sums is None
        self.leading = [LeadingTargets(0 if self.needs_second_pass else top) for _ in range(queries.count)]
        self.sums = RunningSums(queries.heads, queries.count, width)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "queries": None}  # a part that is sent to be merged needs no layers

    def update(self, rows: Rows, first: int) -> None:
        """Add targets with these ``rows`` at the places from ``first`` on."""
        step = self.queries.step
        for start in range(0, len(rows), step):
            block = rows[start : start + step]
            scores, terms = self.queries.scores(block)
            if self.log_sums is None:
                self._lead(scores[0], first + start)
            else:
                shares = np.exp(scores - self.log_sums[:, :, None].astype(np.float32)).mean(axis=0)
                self._lead(np.log(np.maximum(shares, _LEAST)), first + start)
            weights = self.sums.weights(scores)
            self.sums.vectors += self.queries.summed(weights, terms, block)

    def merge(self, other: "PartialBag") -> None:
        """Add another part of the same bag, pooled for the same queries."""
        self.sums.merge(other.sums)
        for mine, theirs in zip(self.leading, other.leading, strict=True):
            mine.add(theirs.scores, theirs.places)

    def finish(self) -> PooledBag:
        """The answers for all targets so far."""
        logit = self.queries.logits_of(self.sums)
        log_sums = self.sums.log_sums[0] if self.log_sums is None else np.zeros(len(self.leading))
        named = [leading.ranked() for leading in self.leading]
        shares = [np.exp(scores - log_sum) for (_, scores), log_sum in zip(named, log_sums, strict=True)]
        times = len(logit) // len(named)  # one attention may serve all queries
        return PooledBag(logit.astype(np.float64), [places for places, _ in named] * times, shares * times)

    def _lead(self, scores: Rows, first: int) -> None:
        """Remember the leading targets of a block with scores ``(R, N)``."""
        for of_query, leading in zip(scores, self.leading, strict=True):
            if leading.top and len(rows := np.flatnonzero(of_query >= leading.floor)):
                leading.add(of_query[rows].astype(np.float64), first + rows)


class RunningSums:
    r"""Sums of :math:`e^{s_n}` and of :math:`e^{s_n} x_n` over the targets so far, relative to the greatest score.

    .. math:: Z = \sum_n e^{s_n - m}, \qquad X = \sum_n e^{s_n - m} x_n, \qquad m = \max_n s_n

    When a greater score comes, all sums are multiplied by :math:`e^{m - m'}`. Scores are ``(h, R)`` per target, and
    :math:`X` is ``(h, R, K)``.
    """

    def __init__(self, heads: int, queries: int, width: int) -> None:
        self.maximum: Floats = np.full((heads, queries), -np.inf)  # m
        self.total: Floats = np.zeros((heads, queries))  # Z
        self.vectors: Floats = np.zeros((heads, queries, width))  # X

    def weights(self, scores: Rows) -> Rows:
        """Overwrite scores ``(h, R, N)`` with weights and add these to the total; their vectors are to be added."""
        maximum = np.maximum(self.maximum, scores.max(axis=-1))
        with np.errstate(invalid="ignore"):
            factor = np.exp(self.maximum - maximum)
        scores -= maximum.astype(scores.dtype)[..., None]
        np.exp(scores, out=scores)
        self.maximum = maximum
        self.total = self.total * factor + scores.sum(axis=-1)
        self.vectors *= factor[..., None]
        return scores

    def merge(self, other: "RunningSums") -> None:
        """Add the sums of another part."""
        maximum = np.maximum(self.maximum, other.maximum)
        with np.errstate(invalid="ignore"):
            factors = (np.exp(self.maximum - maximum), np.exp(other.maximum - maximum))
        here, there = (np.where(np.isneginf(maximum), 0.0, factor) for factor in factors)
        self.total = self.total * here + other.total * there
        self.vectors = self.vectors * here[..., None] + other.vectors * there[..., None]
        self.maximum = maximum

    @property
    def means(self) -> Rows:
        """The vectors ``(h, R, K)`` over the totals, in single precision."""
        return (self.vectors / self.total[..., None]).astype(np.float32)

    @property
    def log_sums(self) -> Floats:
        """The logarithms ``(h, R)`` of the sums of all exponentials."""
        return np.asarray(self.maximum + np.log(self.total))


class LeadingTargets:
    """The ``top`` targets with the greatest scores so far; of equal ones, the first in the bag."""

    def __init__(self, top: int) -> None:
        self.top = top
        self.scores: Floats = np.zeros(0)
        self.places: Integers = np.zeros(0, np.int64)
        self.floor = -np.inf
        """A target with a lower score is not among them."""

    def add(self, scores: Floats, places: Integers) -> None:
        """Add targets with scores ``(N,)`` at places ``(N,)`` of the bag."""
        if not self.top:
            return
        self.scores = np.concatenate([self.scores, scores])
        self.places = np.concatenate([self.places, places])
        if len(self.places) >= 2 * self.top + _PENDING or np.isneginf(self.floor):
            self.places, self.scores = self.ranked()
            if len(self.scores) == self.top:
                self.floor = float(self.scores[-1])

    def ranked(self) -> tuple[Integers, Floats]:
        """Their places and scores ``(k,)``, best first."""
        order = np.lexsort((self.places, -self.scores))[: self.top]
        return self.places[order], self.scores[order]
