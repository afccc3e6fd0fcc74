"""Cross-attention pooling of a bag part by part."""

import numpy as np

from miv.io.checked_values import Floats
from miv.kept.cross_attention import CrossAttentionForm
from miv.kept.similarity_of_query import Rows
from miv.streaming.partial_pooling import PartialPooling, PooledBag
from miv.streaming.running_softmax import RunningSums

_NUMBERS, _ROWS = 1 << 15, 1 << 13  # scores and rows worked on together, so that they stay in the cache

_LEAST = np.float32(1e-37)  # share whose logarithm is taken


class PartialAttention(PartialPooling):
    """CAP, see ``CrossAttentionQueries``: sums of what each key adds to the logit, or of the keys themselves.

    Args:
        form: the kept form.
        queries: features ``(R, C)``.
        top: number of targets to name per query.
        variance: ``(C,)``, of the normed features of the whole bag, for VEMA.
        log_sums: ``(h, R)``, of the whole bag, if this is a second pass that names targets.
    """

    of_verifier = ("form", "queries")

    def __init__(
        self,
        form: CrossAttentionForm,
        queries: Rows,
        top: int,
        variance: Floats | None,
        log_sums: Floats | None = None,
    ) -> None:
        super().__init__(len(queries), form.pooling.heads if log_sums is None else 1, top)
        self.form, self.log_sums = form, log_sums
        self.queries = form.prepare_for_bag(queries, variance)
        shape = (form.pooling.heads, len(queries))
        self.sums = RunningSums(shape)
        self.values: Floats = np.zeros(shape)  # or, if vectors are summed, of the means
        self.vectors: Floats = np.zeros((len(queries), form.pooling.channels if self.queries.sums_vectors else 0))

    def rows(self, features: Rows) -> Rows:
        return self.form.keys(features)

    def update(self, rows: Rows, first: int) -> None:
        step = max(64, min(_ROWS, _NUMBERS // (self.queries.heads * self.queries.count)))
        for start in range(0, len(rows), step):
            self._add(rows[start : start + step], first + start)

    def _add(self, keys: Rows, first: int) -> None:
        scores, values, deviation, mean = self.queries.products(keys)  # each (h, R, N)
        if self.log_sums is None:
            self.lead(scores, first)
        else:
            shares = np.exp(scores - self.log_sums[:, :, None].astype(np.float32)).mean(axis=0, keepdims=True)
            self.lead(np.log(np.maximum(shares, _LEAST)), first)
        weights, factor = self.sums.weights(scores)
        if not self.queries.sums_vectors:
            self.values = self.values * factor + _dot(weights, values)
            return
        if deviation is not None and mean is not None:
            weights /= deviation
            self.values = self.values * factor + _dot(weights, mean)
        size = self.queries.size
        for head in range(self.queries.heads):
            part = slice(head * size, (head + 1) * size)
            self.vectors[:, part] *= factor[head][:, None]
            self.vectors[:, part] += weights[head] @ keys[:, part]

    def merge(self, other: PartialPooling) -> None:
        assert isinstance(other, PartialAttention)  # noqa: S101 - of one pass
        here, there = self.sums.merge(other.sums)
        self.values = self.values * here + other.values * there
        if self.vectors.size:
            size = self.vectors.shape[1] // len(here)
            by_channel = [np.repeat(factor, size, axis=0).T for factor in (here, there)]  # (R, C)
            self.vectors = self.vectors * by_channel[0] + other.vectors * by_channel[1]
        self.merge_leading(other)

    def finish(self) -> PooledBag:
        queries, total = self.queries, self.sums.total
        log_sums = self.sums.log_sums if self.log_sums is None else np.zeros((1, queries.count))
        found = [leading.shares(log_sums[:, query]) for query, leading in enumerate(self.leading)]
        if queries.sums_vectors:
            vectors = (self.vectors / np.repeat(total, queries.size, axis=0).T).astype(np.float32)  # (R, C)
            offsets = (self.values / total).astype(np.float32).T  # (R, h)
            has_norm = self.form.pooling.pre_norm is not None
            logit = np.concatenate([
                queries.logits_of_sums(vectors[one : one + 1], offsets[one : one + 1] if has_norm else None, one)
                for one in range(queries.count)
            ])  # fmt: skip
        else:
            logit = (self.values / total).sum(axis=0) + queries.constant
        return PooledBag(logit.astype(np.float64), [places for places, _ in found], [shares for _, shares in found])


def _dot(weights: Rows, values: Rows) -> Floats:
    """Sums ``(h, R)`` of products ``(h, R, N)``."""
    return np.asarray((weights[:, :, None] @ values[:, :, :, None])[:, :, 0, 0], np.float64)
