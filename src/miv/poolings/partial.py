"""One bag part by part: the sums of its softmax, the targets with the greatest shares, and how parts merge."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
Rows = NDArray[np.float32]

_PENDING = 512  # new candidates that are compared with each other only when there are this many
_MOST = 5_000  # candidates; comparing them takes their square
_GUARDS = 100
_TOGETHER = 1024  # candidates compared with all others at once
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
    ``width`` is ``K``; ``log_sums`` ``(h, R)`` are those of the whole bag, if this is a second pass that names targets.
    """

    def __init__(self, queries: Any, top: int, width: int = 0, log_sums: Floats | None = None) -> None:
        self.queries, self.log_sums = queries, log_sums
        self.leading = [LeadingTargets(top, queries.heads if log_sums is None else 1) for _ in range(queries.count)]
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
                self._lead(scores, first + start)
            else:
                shares = np.exp(scores - self.log_sums[:, :, None].astype(np.float32)).mean(axis=0, keepdims=True)
                self._lead(np.log(np.maximum(shares, _LEAST)), first + start)
            weights = self.sums.weights(scores)
            self.sums.vectors += self.queries.summed(weights, terms, block)

    def merge(self, other: "PartialBag") -> None:
        """Add another part of the same bag, pooled for the same queries."""
        self.sums.merge(other.sums)
        for mine, theirs in zip(self.leading, other.leading, strict=True):
            mine.merge(theirs)

    def finish(self) -> PooledBag:
        """The answers for all targets so far."""
        logit = self.queries.logits_of(self.sums)
        log_sums = self.sums.log_sums if self.log_sums is None else np.zeros((1, len(self.leading)))
        named = [leading.shares(log_sums[:, query]) for query, leading in enumerate(self.leading)]
        named *= len(logit) // len(named)  # one attention may serve all queries
        return PooledBag(logit.astype(np.float64), [places for places, _ in named], [shares for _, shares in named])

    def _lead(self, scores: Rows, first: int) -> None:
        """Remember the leading targets of a block with scores ``(h, R, N)``."""
        if not self.leading[0].top:
            return
        floor = np.stack([leading.floor for leading in self.leading], axis=1)  # (h, R)
        possible: Mask = np.asarray((scores >= floor[:, :, None]).any(axis=0))  # (R, N)
        for query in np.flatnonzero(possible.any(axis=1)):
            rows = np.flatnonzero(possible[query])
            self.leading[query].add(scores[:, query, rows].T.astype(np.float64), first + rows)


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
    r"""The ``top`` targets by :math:`\frac{1}{h} \sum_j e^{s_{nj}} / Z_j`, whatever the sums :math:`Z_j` will be.

    A target is dropped if ``top`` others score at least as high in *every* head, because they then have at least its
    share. With one head these are the ``top`` best. With several, a few more are kept until the sums are known.

    Args:
        top: number of targets.
        heads: ``h``.
    """

    def __init__(self, top: int, heads: int) -> None:
        self.top, self.heads = top, heads
        self.scores: Floats = np.zeros((0, heads))
        self.places: Integers = np.zeros(0, np.int64)
        self.is_lost = False
        """Whether too many targets could be among the leading ones, as with many heads: a second pass finds them."""
        self._checked = 0  # the first of them that are known to be needed
        self.floor: Floats = np.full(heads, -np.inf)
        """A target that is below this in every head is not among the leading ones."""
        self._guards: Floats = np.zeros((0, heads))  # good candidates, which rule out most others

    def add(self, scores: Floats, places: Integers) -> None:
        """Add targets with scores ``(N, h)`` at places ``(N,)`` of the bag."""
        if not self.top or self.is_lost:
            return
        if len(places) > _PENDING:
            possible = (scores >= self._floor_of(scores)).any(axis=1)
            scores, places = scores[possible], places[possible]
        if self.heads > 1 and len(self._guards):
            possible = ~_below(scores, self._guards, self.top)
            scores, places = scores[possible], places[possible]
        self.scores = np.concatenate([self.scores, scores])
        self.places = np.concatenate([self.places, places])
        if len(self.places) - self._checked >= max(_PENDING, self._checked) or self._checked < self.top:
            self._drop()

    def merge(self, other: "LeadingTargets") -> None:
        """Add the leading targets of another part of the bag."""
        if not self.top:
            return
        self.add(other.scores, other.places)
        self._drop()
        self.is_lost |= other.is_lost

    def shares(self, log_sums: Floats) -> tuple[Integers, Floats]:
        """Places and shares ``(k,)`` of the leading targets, largest first, given the logarithms ``(h,)`` of sums."""
        share = np.exp(self.scores - log_sums).mean(axis=1)
        order = np.lexsort((self.places, -share))[: self.top]
        return self.places[order], share[order]

    def ranked(self) -> tuple[Integers, Floats]:
        """Places and scores ``(k,)`` of the leading targets of one head, best first."""
        order = np.lexsort((self.places, -self.scores[:, 0]))[: self.top]
        return self.places[order], self.scores[order, 0]

    def _drop(self) -> None:
        if self.heads == 1:
            needed = np.lexsort((self.places, -self.scores[:, 0]))[: self.top]
        else:
            needed = np.flatnonzero(_better_in_every_head(self.scores, self.places, self.top) < self.top)
        if len(needed) > _MOST:
            self.is_lost, needed = True, needed[:0]
        self.scores, self.places = self.scores[needed], self.places[needed]
        self._checked = len(needed)
        if len(needed) >= self.top:
            self.floor = self._floor_of(self.scores)
            self._guards = self.scores[np.argsort(-self.scores.sum(axis=1))[: _GUARDS + self.top]]

    def _floor_of(self, scores: Floats) -> Floats:
        """A floor by ``top`` of at least as many candidates: those that are good in every head rule out most."""
        if len(scores) < self.top:
            return self.floor
        worst = (scores - scores.max(axis=0)).min(axis=1)
        best = np.argpartition(-worst, self.top - 1)[: self.top]
        return np.asarray(scores[best].min(axis=0))


def _below(scores: Floats, guards: Floats, enough: int) -> Mask:
    """Which targets with scores ``(N, h)`` are below at least ``enough`` of the guards ``(G, h)`` in every head."""
    is_below = np.zeros(len(scores), bool)
    for start in range(0, len(scores), _TOGETHER):
        block = scores[start : start + _TOGETHER]
        better: Mask = guards[None, :, 0] > block[:, 0, None]  # (n, G)
        for head in range(1, scores.shape[1]):
            better &= guards[None, :, head] > block[:, head, None]
        is_below[start : start + _TOGETHER] = better.sum(axis=1) >= enough
    return is_below


def _better_in_every_head(scores: Floats, places: Integers, enough: int) -> NDArray[np.int64]:
    """For each candidate the number of others that are at least as good in every head; of equal ones, the first is."""
    order = np.lexsort((places, -scores.sum(axis=1)))  # those after it in this order cannot be better
    ranked = scores[order]
    counts = np.zeros(len(ranked), np.int64)
    for start in range(0, len(ranked), _TOGETHER):
        block = ranked[start : start + _TOGETHER]
        before: Mask = np.ones((len(block), start + len(block)), bool)
        for head in range(scores.shape[1]):
            before &= ranked[None, : start + len(block), head] >= block[:, head, None]
        before &= np.arange(start + len(block)) < np.arange(start, start + len(block))[:, None]
        counts[start : start + len(block)] = before.sum(axis=1)
    by_candidate = np.empty_like(counts)
    by_candidate[order] = np.minimum(counts, enough)
    return by_candidate
