"""Poolings that choose one target, over stored rows and part by part: baseline and nearest."""

import math
from typing import Any

import numpy as np

from miv.poolings.partial import Floats, Integers, PartialBag, PooledBag
from miv.poolings.stored import Borders, QuerySimilarity, Rows, StoredForm, StoredQueries, as_rows, block_rows

_ROUNDING = 1e-5  # of a product in float32, relative to the product of the greatest lengths


class BestTargetForm(StoredForm):
    """``baseline`` and ``nearest``: the target with the greatest similarity, or cosine, gives the logit.

    The features after the first norm are stored.

    Args:
        pooling: the pooling.
        sharpness: factor of the cosines before a softmax gives the shares; ``None`` to choose by the similarity.
    """

    is_stored_apart = True

    def __init__(self, pooling: Any, sharpness: float | None = None) -> None:
        super().__init__(pooling)
        self.sharpness = sharpness

    def rows(self, features: Rows, ptr: Borders) -> Rows:
        return as_rows(self.normed(features))

    def prepare(self, queries: Rows) -> "BestTargetQueries":
        return BestTargetQueries(self, queries, self.sharpness)

    def partial_bag(
        self, queries: Rows, top: int, variance: Floats | None = None, log_sums: Floats | None = None
    ) -> PartialBag:
        return PartialBest(self.prepare(queries), top)


class BestTargetQueries(StoredQueries):
    """Queries of a ``BestTargetForm``."""

    rows_together = 1 << 16

    def __init__(self, form: StoredForm, queries: Rows, sharpness: float | None) -> None:
        super().__init__(form, queries)
        self.sharpness, self.by_cosine = sharpness, sharpness is not None
        self.similarity = QuerySimilarity(self.pooling, self.pooling.norm(self.query))
        self.directions = self.similarity.query if self.by_cosine else self.similarity.factors  # (R, C)
        norm, channels = self.pooling.norm, self.pooling.channels
        longest = math.sqrt(channels) * float(norm.weight.abs().max()) + float(norm.bias.norm())
        self.slack = _ROUNDING * longest * np.linalg.norm(self.directions, axis=1)  # (R,)

    def logits(self, rows: Rows, ptr: Borders) -> Rows:
        value = np.empty((self.count, len(rows)), np.float32)
        cosine = np.empty_like(value) if self.by_cosine else value
        step = block_rows(rows.shape[1])
        for start in range(0, len(rows), step):
            block, place = rows[start : start + step], slice(start, start + step)
            for query in range(self.count):
                value[query, place] = self.similarity.logits(block, query)
                if self.by_cosine:
                    cosine[query, place] = block @ self.similarity.query[query]
        if self.by_cosine:
            greatest = np.repeat(np.maximum.reduceat(cosine, ptr[:-1], axis=1), np.diff(ptr), axis=1)
            value = np.where(cosine == greatest, value, -np.inf)  # equally near targets are equal but for rounding
        return np.asarray(np.maximum.reduceat(value, ptr[:-1], axis=1))

    def scores(self, rows: Rows) -> Rows:
        """What targets are chosen by, ``(N, R)``, up to ``slack``."""
        if self.by_cosine or self.similarity.distance is None:
            return np.asarray(rows @ self.directions.T)
        return np.stack([self.similarity.logits(rows, query) for query in range(self.count)], axis=1)

    def exact_scores(self, rows: Rows, query: int) -> tuple[Floats, Floats]:
        """What targets are chosen by, and their logits, in double precision, each row by itself."""
        similarity, wide = self.similarity, rows.astype(np.float64)
        logits = (wide * similarity.factors[query]).sum(axis=1) + similarity.offset[query]
        if similarity.distance is not None:
            logits -= (np.abs(wide - similarity.query[query]) * similarity.distance).sum(axis=1)
        return ((wide * similarity.query[query]).sum(axis=1) if self.by_cosine else logits), logits


class PartialBest(PartialBag):
    """The target with the greatest similarity (``baseline``) or cosine (``nearest``) so far.

    Products in single precision only rule targets out. The few that remain are computed again, each in the same way,
    so that equal targets have equal scores in whatever chunk they are.
    """

    def __init__(self, queries: BestTargetQueries, top: int) -> None:
        super().__init__(queries, top)
        sharpness, channels = queries.sharpness, queries.pooling.channels
        self.scale = None if sharpness is None else sharpness / channels  # of products, for the shares
        self.best: Floats = np.full(queries.count, -np.inf)
        self.logit: Floats = np.full(queries.count, -np.inf)
        self.equal: Integers = np.zeros(queries.count, np.int64)  # number of targets with the best score

    def update(self, rows: Rows, first: int) -> None:
        step = block_rows(rows.shape[1])
        for start in range(0, len(rows), step):
            self._add(rows[start : start + step], first + start)

    def _add(self, rows: Rows, first: int) -> None:
        scores = self.queries.scores(rows)  # (N, R)
        greatest = scores.max(axis=0)  # (R,)
        for query, leading in enumerate(self.leading):
            least = leading.floor if leading.top else max(self.best[query], greatest[query])
            least -= self.queries.slack[query]
            if greatest[query] < least:
                continue
            places = np.flatnonzero(scores[:, query] >= least)
            exact, logits = self.queries.exact_scores(rows[places], query)
            leading.add(exact, first + places)
            is_best = exact == exact.max()
            self._take_best(query, exact.max(), logits[is_best].max(), int(is_best.sum()))
        if self.scale is not None:
            scores *= np.float32(self.scale)
            self.sums.weights(np.ascontiguousarray(scores.T)[None])

    def _take_best(self, query: int, best: float, logit: float, equal: int) -> None:
        """Compare ``equal`` targets with the score ``best`` with the best so far."""
        if best > self.best[query]:
            self.best[query], self.logit[query], self.equal[query] = best, logit, equal
        elif best == self.best[query]:
            self.logit[query] = max(self.logit[query], logit)
            self.equal[query] += equal

    def merge(self, other: PartialBag) -> None:
        assert isinstance(other, PartialBest)  # noqa: S101 - of one pass
        for query in range(len(self.best)):
            self._take_best(query, other.best[query], other.logit[query], other.equal[query])
        super().merge(other)

    def finish(self) -> PooledBag:
        places, shares = [], []
        for query, leading in enumerate(self.leading):
            of_query, scores = leading.ranked()
            if self.scale is not None:
                share = np.exp(scores * self.scale - self.sums.log_sums[0, query])
            else:
                share = (scores == self.best[query]) / self.equal[query]
            places.append(of_query)
            shares.append(share)
        return PooledBag(self.logit, places, shares)
