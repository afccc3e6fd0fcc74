"""Poolings that choose one target, over stored rows and part by part: baseline and nearest."""

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from miv.poolings.kept_form import Borders, PartialPooling, PooledBag, PreparedQueries, Rows, as_rows, block_rows
from miv.poolings.plain_forms import PoolingForm, QuerySimilarity
from miv.poolings.pooling_base import Pooling
from miv.poolings.running_sums import Floats, Integers, RunningSums

_ROUNDING = 1e-5  # of a product in float32, relative to the product of the greatest lengths


class BestTargetForm(PoolingForm[Pooling]):
    """``baseline`` and ``nearest``: the target with the greatest similarity, or cosine, gives the logit.

    The features after the first norm are kept.

    Args:
        pooling: the pooling.
        sharpness: factor of the cosines before a softmax gives the shares; ``None`` to choose by the similarity.
    """

    def __init__(self, pooling: Pooling, sharpness: float | None = None) -> None:
        super().__init__(pooling)
        self.sharpness, self.by_cosine = sharpness, sharpness is not None

    def keep(self, features: Rows, ptr: Borders) -> Rows:
        return as_rows(self.normed(features))

    def prepare(self, queries: Rows) -> PreparedQueries:
        query = self.normed(queries)
        return _BestTarget(QuerySimilarity(self.pooling, query), self.by_cosine)

    def partial_pooling(
        self, queries: Rows, top: int, variance: Floats | None = None, log_sums: Floats | None = None
    ) -> PartialPooling:
        return PartialBest(self, queries, top)


class _BestTarget(PreparedQueries):
    rows_together: ClassVar[int] = 1 << 16

    def __init__(self, similarity: QuerySimilarity, by_cosine: bool) -> None:
        self.similarity, self.by_cosine = similarity, by_cosine

    def logits(self, rows: Rows, ptr: Borders) -> NDArray[np.float32]:
        similarity = self.similarity
        queries = len(similarity.query)
        value = np.empty((queries, len(rows)), np.float32)
        cosine = np.empty_like(value) if self.by_cosine else value
        step = block_rows(rows.shape[1])
        for start in range(0, len(rows), step):
            block, place = rows[start : start + step], slice(start, start + step)
            for query in range(queries):
                value[query, place] = similarity.logits(block, query)
                if self.by_cosine:
                    cosine[query, place] = block @ similarity.query[query]
        if not self.by_cosine:
            return np.asarray(np.maximum.reduceat(value, ptr[:-1], axis=1))
        greatest = np.repeat(np.maximum.reduceat(cosine, ptr[:-1], axis=1), np.diff(ptr), axis=1)
        chosen = np.where(cosine == greatest, value, -np.inf)  # equally near targets are equal but for rounding
        return np.asarray(np.maximum.reduceat(chosen, ptr[:-1], axis=1))


class PartialBest(PartialPooling):
    """The target with the greatest similarity (``baseline``) or cosine (``nearest``) so far.

    Products in single precision only rule targets out. The few that remain are computed again, each in the same way,
    so that equal targets have equal scores in whatever chunk they are.

    Args:
        form: the kept form.
        queries: features ``(R, C)``.
        top: number of targets to name per query.
    """

    of_pooling = ("form", "similarity", "directions")

    def __init__(self, form: BestTargetForm, queries: Rows, top: int) -> None:
        super().__init__(len(queries), 1, top)
        self.form, self.sharpness, count = form, form.sharpness, len(queries)
        self.similarity = QuerySimilarity(form.pooling, form.normed(queries))
        self.directions = self.similarity.query if form.by_cosine else self.similarity.factors  # (R, C)
        norm, channels = form.pooling.norm, form.pooling.channels
        longest = math.sqrt(channels) * float(norm.weight.abs().max()) + float(norm.bias.norm())
        self._slack = _ROUNDING * longest * np.linalg.norm(self.directions, axis=1)  # (R,)
        self.best: Floats = np.full(count, -np.inf)
        self.logit: Floats = np.full(count, -np.inf)
        self.equal: Integers = np.zeros(count, np.int64)  # targets with the best score
        self.sums = RunningSums((1, count))

    def rows(self, features: Rows) -> Rows:
        return self.form.keep(features, np.array([0, len(features)]))

    def update(self, rows: Rows, first: int) -> None:
        step = block_rows(rows.shape[1])
        for start in range(0, len(rows), step):
            self._add(rows[start : start + step], first + start)

    def _add(self, rows: Rows, first: int) -> None:
        scores = self._scores(rows)  # (N, R)
        greatest = scores.max(axis=0)  # (R,)
        for query, leading in enumerate(self.leading):
            least = leading.floor[0] if leading.top else max(self.best[query], greatest[query])
            if greatest[query] < least - self._slack[query]:
                continue
            places = np.flatnonzero(scores[:, query] >= least - self._slack[query])
            exact, logits = self._exactly(rows[places], query)
            leading.add(exact[:, None], first + places)
            self._keep_best(query, exact, logits)
        if self.sharpness is not None:
            scores *= np.float32(self.sharpness / rows.shape[1])
            self.sums.weights(np.ascontiguousarray(scores.T)[None])

    def _keep_best(self, query: int, scores: Floats, logits: Floats) -> None:
        best = scores.max()
        if best < self.best[query]:
            return
        if best > self.best[query]:
            self.best[query], self.logit[query], self.equal[query] = best, -np.inf, 0
        chosen = scores == best
        self.logit[query] = max(self.logit[query], logits[chosen].max())
        self.equal[query] += int(chosen.sum())

    def _scores(self, rows: Rows) -> Rows:
        scores = np.asarray(rows @ self.directions.T)
        if not self.form.by_cosine and self.similarity.distance is not None:
            for query in range(len(self.best)):
                scores[:, query] = self.similarity.logits(rows, query)
        return scores

    def _exactly(self, rows: Rows, query: int) -> tuple[Floats, Floats]:
        """What targets are chosen by, and their logits, in double precision, each row by itself."""
        similarity, wide = self.similarity, rows.astype(np.float64)
        logits = (wide * similarity.factors[query]).sum(axis=1) + similarity.offset
        if similarity.distance is not None:
            logits -= (np.abs(wide - similarity.query[query]) * similarity.distance).sum(axis=1)
        return ((wide * similarity.query[query]).sum(axis=1) if self.form.by_cosine else logits), logits

    def merge(self, other: PartialPooling) -> None:
        assert isinstance(other, PartialBest)  # noqa: S101 - of one pass
        better, same = other.best > self.best, other.best == self.best
        self.equal = np.where(better, other.equal, self.equal + np.where(same, other.equal, 0))
        self.logit = np.where(better, other.logit, np.where(same, np.maximum(self.logit, other.logit), self.logit))
        self.best = np.maximum(self.best, other.best)
        self.sums.merge(other.sums)
        self.merge_leading(other)

    def finish(self) -> PooledBag:
        places, shares = [], []
        for query, leading in enumerate(self.leading):
            of_query, scores = leading.ranked()
            if self.sharpness is not None:
                sharp = scores * (self.sharpness / self.directions.shape[1])
                share = np.exp(sharp - self.sums.log_sums[0, query])
            else:
                share = (scores == self.best[query]) / self.equal[query]
            places.append(of_query)
            shares.append(share)
        return PooledBag(self.logit, places, shares)
