"""Gated attention, which is the same for all queries, and late interaction, part by part."""

from typing import TYPE_CHECKING

import numpy as np
import torch

from miv.io.checked_values import Floats
from miv.kept.kept_form import as_tensor
from miv.kept.similarity_of_query import QuerySimilarity, Rows, as_rows
from miv.poolings import GatedAttentionPooling
from miv.streaming.partial_pooling import PartialPooling, PooledBag
from miv.streaming.running_softmax import RunningSums

if TYPE_CHECKING:
    from miv.models.verifier import Verifier

_ROWS = 2048  # gated together
_NUMBERS = 1 << 24  # in the products of tokens that are computed together


class PartialGated(PartialPooling):
    """GABMIL: one attention for all queries, and one sum of the targets.

    Args:
        verifier: the verifier.
        queries: features ``(R, C)``.
        top: number of targets to name.
    """

    of_verifier = ("verifier", "query")

    def __init__(self, verifier: "Verifier", queries: Rows, top: int) -> None:
        super().__init__(1, 1, top)
        self.verifier, self.count = verifier, len(queries)
        self.query = verifier.pooling.norm(as_tensor(verifier, queries))
        self.sums = RunningSums((1, 1))
        self.vector: Floats = np.zeros(verifier.pooling.channels)

    def rows(self, features: Rows) -> Rows:
        return as_rows(self.verifier.pooling.norm(as_tensor(self.verifier, features)))

    def update(self, rows: Rows, first: int) -> None:
        pooling = self.verifier.pooling
        assert isinstance(pooling, GatedAttentionPooling)  # noqa: S101 - for the type checker
        for start in range(0, len(rows), _ROWS):
            part = rows[start : start + _ROWS]
            targets = as_tensor(self.verifier, part)
            hidden = pooling.content(targets).tanh() * pooling.gate(targets).sigmoid()  # (N, H)
            scores = as_rows(pooling.score(hidden)).reshape(1, 1, -1)  # (1, 1, N)
            self.lead(scores, first + start)
            weights, factor = self.sums.weights(scores)
            self.vector = self.vector * factor[0, 0] + weights[0, 0] @ part

    def merge(self, other: PartialPooling) -> None:
        assert isinstance(other, PartialGated)  # noqa: S101 - of one pass
        here, there = self.sums.merge(other.sums)
        self.vector = self.vector * here[0, 0] + other.vector * there[0, 0]
        self.merge_leading(other)

    def finish(self) -> PooledBag:
        similarity = QuerySimilarity(self.verifier.pooling, self.query)
        vector = (self.vector / self.sums.total[0, 0]).astype(np.float32)[None]
        logit = np.concatenate([similarity.logits(vector, query) for query in range(self.count)])
        places, shares = self.leading[0].shares(self.sums.log_sums[:, 0])
        return PooledBag(logit.astype(np.float64), [places] * self.count, [shares] * self.count)


class PartialTokens(PartialPooling):
    """``maxsim``: the target that matches most of the query's tokens so far.

    Args:
        verifier: the verifier.
        queries: features ``(R, C)``.
        top: number of targets to name per query.
    """

    of_verifier = ("verifier", "query")

    def __init__(self, verifier: "Verifier", queries: Rows, top: int) -> None:
        super().__init__(len(queries), 1, top)
        self.verifier = verifier
        self.query = as_tensor(verifier, queries)
        self.sums = RunningSums((1, len(queries)))

    def rows(self, features: Rows) -> Rows:
        return features

    def update(self, rows: Rows, first: int) -> None:
        step = max(16, _NUMBERS // (4 * rows.shape[1]))
        for start in range(0, len(rows), step):
            targets = as_tensor(self.verifier, rows[start : start + step])
            similarity = self.verifier.pooling.similarity
            found = [similarity(one.expand(len(targets), -1), targets) for one in self.query]
            scores = as_rows(torch.stack(found))[None]  # (1, R, N)
            self.lead(scores, first + start)
            self.sums.weights(scores)

    def merge(self, other: PartialPooling) -> None:
        assert isinstance(other, PartialTokens)  # noqa: S101 - of one pass
        self.sums.merge(other.sums)
        self.merge_leading(other)

    def finish(self) -> PooledBag:
        found = [leading.shares(self.sums.log_sums[:, query]) for query, leading in enumerate(self.leading)]
        return PooledBag(self.sums.maximum[0].copy(), [places for places, _ in found], [shares for _, shares in found])
