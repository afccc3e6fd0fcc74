r"""Queries of cross-attention pooling over stored keys, with as few products per key as possible.

For one head and the gate :math:`g`, with the normalised key
:math:`\hat z_n = (z_n \odot g - \mu_n) / \sigma_n`, the bag vector is
:math:`v^P = \gamma \odot \sum_n a_n \hat z_n + b`. If the similarity is a product :math:`c \cdot v^P`, and
:math:`e = c \odot \gamma`, the part of one key is

.. math:: e \cdot \hat z_n = \frac{\big(g \odot (e - mean(e))\big) \cdot z_n}{\sigma_n}, \qquad
    \sigma_n^2 = \frac{g^2 \cdot z_n^2}{D} - \Big(\frac{g \cdot z_n}{D}\Big)^2

so a logit needs four products per key and head, and no vector per bag. A similarity that weighs distances, or a norm
after the sum, needs the bag vector too, which is one more pass over rows that are still in the cache.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from miv.poolings.cap import CrossAttentionPooling
from miv.poolings.stored import Borders, QuerySimilarity, Rows, StoredForm, StoredQueries, as_rows, block_rows

# A variance that is a smaller part of the mean square than this lost too many digits and is computed again.
_CANCELS = 0.05


class Products(NamedTuple):
    """Products of queries and keys, each ``(h, R, N)``: values in the logit, deviations and means of gated keys."""

    values: Rows
    deviation: Rows | None
    mean: Rows | None


class CrossAttentionQueries(StoredQueries):
    """``R`` queries as directions to multiply keys with."""

    def __init__(self, form: Any, queries: Rows) -> None:
        super().__init__(form, queries)
        pooling = form.pooling
        self.heads, self.size = pooling.heads, pooling.head_channels
        self._parts = [slice(head * self.size, (head + 1) * self.size) for head in range(self.heads)]
        query = pooling.norm(self.query)
        projected = pooling.project(query)  # (R, C)
        gate = torch.ones_like(projected)
        if pooling.gate is not None:
            gate = pooling.gate(query if pooling.gate_reads == "query" else projected)
        norm = pooling.post_norm if pooling.pre_norm is None else pooling.pre_norm
        self.similarity = QuerySimilarity(pooling, projected * gate if norm is None else norm(projected * gate))
        self.gate, self.projected = as_rows(gate), as_rows(projected)
        self.sums_vectors = self.similarity.distance is not None or pooling.post_norm is not None

        sharpness = torch.ones(self.heads) if pooling.sharpness is None else pooling.sharpness
        factor = sharpness.to(projected).repeat_interleave(self.size)  # (C,)
        self.distance: Rows | None = None  # (C,), of a distance that is no product
        self.square_weight: Rows | None = None  # (C,), of the squared keys in the scores
        if form.distance_weight is None:
            self.score_directions = as_rows(projected * factor / math.sqrt(self.size))  # (R, C)
        else:
            weight = form.distance_weight * factor
            if form.power == 1:
                self.distance, self.score_directions = as_rows(weight), np.zeros_like(self.gate)
            else:
                self.square_weight, self.score_directions = as_rows(weight), as_rows(2 * weight * projected)
        self._prepare_values()

    def _prepare_values(self) -> None:
        """The columns that keys ``(N, D)`` and their squares are multiplied with, ``(h, D, ...)``."""
        similarity, pre_norm = self.similarity, self.pooling.pre_norm
        of_squares = [np.zeros((0, self.pooling.channels), np.float32)]
        if pre_norm is None:
            self.constant = similarity.offset  # (R,) of each logit, whatever the keys
            of_keys = [self.score_directions, similarity.factors * self.gate]
        else:
            self.constant = similarity.factors @ as_rows(pre_norm.bias) + similarity.offset
            scaled = (similarity.factors * as_rows(pre_norm.weight)).reshape(self.count, self.heads, self.size)
            centred = (scaled - scaled.mean(axis=2, keepdims=True)).reshape(self.count, -1)
            mean = self.gate / np.float32(self.size)
            of_keys = [self.score_directions, centred * self.gate, mean]
            of_squares.append(self.gate * mean)
        if self.square_weight is not None:
            of_squares.append(self.square_weight[None])
        self._of_keys, self._of_squares = (
            np.stack([np.ascontiguousarray(np.concatenate(directions)[:, part].T) for part in self._parts])
            for directions in (of_keys, of_squares)
        )

    def logits(self, rows: Rows, ptr: Borders) -> Rows:
        scores, (values, deviation, mean) = self.scores(rows)  # each (h, R, T)
        softmax_in_place(scores, ptr)
        if not self.sums_vectors:
            scores *= values
            by_bag = np.add.reduceat(scores, ptr[:-1], axis=2).sum(axis=0)  # (R, B)
            return np.asarray(by_bag + self.constant[:, None])
        weights = scores if deviation is None else scores / deviation
        offsets = None if mean is None else np.add.reduceat(weights * mean, ptr[:-1], axis=2)  # (h, R, B)
        keys = rows[:, -self.pooling.channels :]
        logits = []
        for query in range(self.count):
            total = weighted_sum(np.ascontiguousarray(weights[:, query].T), keys, ptr)
            logits.append(self._logits_of_vectors(total, None if offsets is None else offsets[:, query].T, query))
        return np.stack(logits)

    def _logits_of_vectors(self, total: Rows, offsets: Rows | None, query: int) -> Rows:
        """Logits ``(B,)`` for one query, from attention sums of keys ``(B, C)`` and, with a norm, means ``(B, h)``."""
        by_head = total.reshape(len(total), self.heads, self.size) * self.gate[query].reshape(self.heads, self.size)
        if offsets is not None:
            by_head -= offsets[:, :, None]
        vectors, pre_norm, post_norm = by_head.reshape(len(total), -1), self.pooling.pre_norm, self.pooling.post_norm
        if pre_norm is not None:
            vectors = vectors * as_rows(pre_norm.weight) + as_rows(pre_norm.bias)
        elif post_norm is not None:
            vectors = as_rows(post_norm(torch.from_numpy(vectors).to(post_norm.weight)))
        return self.similarity.logits(vectors, query)

    def scores(self, rows: Rows) -> tuple[Rows, Products]:
        """Scores ``(h, R, T)`` of all keys, and their other products."""
        count, channels, pre_norm = self.count, self.pooling.channels, self.pooling.pre_norm
        products = np.empty((self.heads, self._of_keys.shape[2], len(rows)), np.float32)
        squares = np.empty((self.heads, self._of_squares.shape[2], len(rows)), np.float32)
        step = block_rows(rows.shape[1])
        buffer = np.empty((min(step, len(rows)), channels), np.float32)
        for start in range(0, len(rows), step):
            place = slice(start, start + step)
            block = rows[place, -channels:]
            for head, part in enumerate(self._parts):
                products[head, :, place] = (block[:, part] @ self._of_keys[head]).T
            if squares.shape[1]:
                squared = np.multiply(block, block, out=buffer[: len(block)])
                for head, part in enumerate(self._parts):
                    squares[head, :, place] = (squared[:, part] @ self._of_squares[head]).T
            self._other_scores(rows[place], products[:, :count, place], buffer)
        scores, values = products[:, :count], products[:, count : 2 * count]
        if self.square_weight is not None:
            scores -= squares[:, -1:]
        if pre_norm is None:
            return scores, Products(values, None, None)
        mean, second = products[:, 2 * count :], squares[:, :count]
        deviation = self._deviation(rows[:, -channels:], mean, second, pre_norm.eps)
        values /= deviation
        return scores, Products(values, deviation, mean)

    def _other_scores(self, rows: Rows, scores: Rows, buffer: Rows) -> None:
        """Write scores ``(h, R, N)`` that are no product with the keys: of distances, and of excited keys."""
        if self.distance is None and rows.shape[1] == self.pooling.channels:
            return
        for query in range(self.count):
            if self.distance is not None:
                gap = np.abs(np.subtract(rows, self.projected[query], out=buffer[: len(rows)]), out=buffer[: len(rows)])
            for head, part in enumerate(self._parts):
                if self.distance is not None:
                    scores[head, query] = -(gap[:, part] @ self.distance[part])
                else:
                    scores[head, query] = rows[:, part] @ self.score_directions[query, part]

    def _deviation(self, keys: Rows, mean: Rows, second: Rows, eps: float) -> Rows:
        variance = np.square(mean)
        np.subtract(second, variance, out=variance)
        cancelled = variance < _CANCELS * second
        for head, query, row in np.argwhere(cancelled) if cancelled.any() else ():
            part = self._parts[head]
            variance[head, query, row] = np.var(keys[row, part].astype(np.float64) * self.gate[query, part])
        variance += np.float32(eps**2)
        return np.sqrt(variance, out=variance)


class CrossAttentionForm(StoredForm):
    r"""CAP: the keys :math:`z_n = v^{target}_n W` are stored.

    With VEMA, :math:`\delta` depends on the bag but not on the query, so :math:`\delta \odot z_n` is stored too, for
    every member of every bag.

    Args:
        pooling: the pooling.
        distance_weight: ``(C,)``, of the distances in the scores; ``None`` if the scores are products.
        power: of the absolute differences in the distances, 1 or 2.
        delta: VEMA's layer from the variance of a bag, minus 1, to :math:`\delta`.
    """

    queries = CrossAttentionQueries
    is_stored_apart = True
    pooling: CrossAttentionPooling

    def __init__(
        self,
        pooling: CrossAttentionPooling,
        distance_weight: Tensor | None = None,
        power: int = 2,
        delta: nn.Module | None = None,
    ) -> None:
        super().__init__(pooling)
        self.distance_weight, self.power, self.delta = distance_weight, power, delta
        self.per = "instance" if delta is None else "member"

    @property
    def width(self) -> int:
        return self.pooling.channels * (1 if self.delta is None else 2)

    def rows(self, features: Rows, ptr: Borders) -> Rows:
        normed = self.normed(features)
        keys = self.pooling.project(normed)  # (T, C)
        if self.delta is None:
            return as_rows(keys)
        bags = self.bags(features, ptr).with_values(normed)
        delta = bags.expand(self.delta(bags.var(normed) - 1))  # (T, C)
        return np.concatenate([as_rows(delta * keys), as_rows(keys)], axis=1)


def softmax_in_place(scores: Rows, ptr: Borders) -> None:
    """Softmax over each bag of scores ``(..., T)``; no bag is empty."""
    sizes = np.diff(ptr)
    scores -= np.repeat(np.maximum.reduceat(scores, ptr[:-1], axis=-1), sizes, axis=-1)
    np.exp(scores, out=scores)
    scores /= np.repeat(np.add.reduceat(scores, ptr[:-1], axis=-1), sizes, axis=-1)


def weighted_sum(weights: Rows, keys: Rows, ptr: Borders) -> Rows:
    """Sum of the keys ``(T, C)`` of each bag by weights ``(T, h)``, ``(B, C)``, in one pass over the keys."""
    from scipy.sparse import csc_array  # not at the top: the import takes a tenth of a second

    rows, heads = weights.shape
    bags = len(ptr) - 1
    # Column t h + j has one number, in the row of the bag of instance t and of head j.
    owner = (np.repeat(np.arange(bags) * heads, np.diff(ptr))[:, None] + np.arange(heads)).ravel()
    sparse = csc_array((weights.ravel(), owner, np.arange(rows * heads + 1)), shape=(bags * heads, rows * heads))
    return np.asarray(sparse @ keys.reshape(rows * heads, -1)).reshape(bags, -1)
