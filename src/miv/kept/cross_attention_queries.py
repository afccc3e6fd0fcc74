r"""Queries of cross-attention pooling over kept keys, as few products per key.

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
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv.kept.kept_form import Borders, PreparedQueries, block_rows, softmax_in_place, weighted_sum
from miv.kept.similarity_of_query import QuerySimilarity, Rows, as_rows
from miv.poolings import CrossAttentionPooling, DistancePooling

# A variance that is a smaller part of the mean square than this lost too many digits and is computed again.
CANCELS = 0.05


class CrossAttentionQueries(PreparedQueries):
    """``R`` queries after the first norm, ``(R, C)``, as directions to multiply the keys with.

    Args:
        pooling: the pooling.
        query: ``(R, C)``.
        delta: ``(C,)``, the excitation of VEMA if all rows are of one bag, whose rows are then keys only.
    """

    rows_together: ClassVar[int] = 1 << 14

    def __init__(self, pooling: CrossAttentionPooling, query: Tensor, delta: Tensor | None = None) -> None:
        self.pooling, self.heads, self.size = pooling, pooling.heads, pooling.head_channels
        projected = pooling.project(query)  # (R, C)
        gate = torch.ones_like(projected)
        if pooling.gate is not None:
            gate = pooling.gate(query if pooling.gate_reads == "query" else projected)
        value = projected * gate
        if pooling.pre_norm is not None:
            value = pooling.pre_norm(value)
        elif pooling.post_norm is not None:
            value = pooling.post_norm(value)
        self.similarity = QuerySimilarity(pooling, value)
        self.gate, self.projected = as_rows(gate), as_rows(projected)
        self.count = len(query)
        self.sums_vectors = not self.similarity.is_linear or pooling.post_norm is not None
        self._prepare_scores(projected if delta is None else projected * delta)
        self.value_directions, self.constant = self._value_directions()
        self._key_matrices, self._square_matrices = self._matrices()

    def logits(self, rows: Rows, ptr: Borders) -> NDArray[np.float32]:
        scores, values, deviation, mean = self.products(rows)  # each (h, R, T)
        softmax_in_place(scores, ptr)
        if not self.sums_vectors:
            scores *= values
            by_bag = np.add.reduceat(scores, ptr[:-1], axis=2).sum(axis=0)  # (R, B)
            return np.asarray(by_bag + self.constant[:, None])
        weights = scores / deviation if deviation is not None else scores
        offsets = None if mean is None else np.add.reduceat(weights * mean, ptr[:-1], axis=2)  # (h, R, B)
        keys = rows[:, -self.pooling.channels :]
        found = []
        for query in range(self.count):
            total = weighted_sum(np.ascontiguousarray(weights[:, query].T), keys, ptr)
            found.append(self.logits_of_sums(total, None if offsets is None else offsets[:, query].T, query))
        return np.stack(found)

    def logits_of_sums(self, total: Rows, offsets: Rows | None, query: int) -> NDArray[np.float32]:
        """Logits ``(B,)`` for one query.

        Args:
            total: ``(B, C)``, the sums of the keys by attention, over the deviation if there is a norm per head.
            offsets: ``(B, h)``, the sums of the means by the same weights; ``None`` without a norm per head.
            query: the number of the query.
        """
        vectors = total.reshape(len(total), self.heads, self.size) * self.gate[query].reshape(self.heads, self.size)
        if offsets is not None:
            vectors -= offsets[:, :, None]
        return self.similarity.logits(self._normed(vectors.reshape(len(total), -1)), query)

    def _normed(self, vectors: Rows) -> Rows:
        """Bag vectors after scale and offset of the norm in each head, or after the norm of the sum."""
        pooling = self.pooling
        if pooling.pre_norm is not None:
            return vectors * as_rows(pooling.pre_norm.weight) + as_rows(pooling.pre_norm.bias)
        if pooling.post_norm is not None:
            return as_rows(pooling.post_norm(torch.from_numpy(vectors).to(pooling.post_norm.weight)))
        return vectors

    def _prepare_scores(self, projected: Tensor) -> None:
        """Directions of the scores, ``(R, C)``, and of what is subtracted, ``(C,)``."""
        pooling, root = self.pooling, math.sqrt(self.size)
        sharpness = torch.ones(self.heads) if pooling.sharpness is None else pooling.sharpness
        factor = sharpness.to(projected).repeat_interleave(self.size)  # (C,)
        self.distance: Rows | None = None  # of a distance that is no product
        self.square_weight: Rows | None = None
        if isinstance(pooling, DistancePooling):
            weight = pooling.distance_weight * factor / pooling.constants(self.size)[1]
            if pooling.power == 1:
                self.distance = as_rows(weight)
                self.score_directions = np.zeros_like(self.gate)
                return
            self.square_weight = as_rows(weight)
            self.score_directions = as_rows(2 * weight * projected)
        else:
            self.score_directions = as_rows(projected * factor / root)

    def _value_directions(self) -> tuple[Rows, NDArray[np.float32]]:
        """Directions of the values, ``(R, C)``, and the part ``(R,)`` of each logit that no key changes."""
        similarity, pre_norm = self.similarity, self.pooling.pre_norm
        if pre_norm is None:
            return similarity.factors * self.gate, np.full(self.count, similarity.offset, np.float32)
        scaled = (similarity.factors * as_rows(pre_norm.weight)).reshape(self.count, self.heads, self.size)
        centred = (scaled - scaled.mean(axis=2, keepdims=True)).reshape(self.count, -1)
        return centred * self.gate, similarity.factors @ as_rows(pre_norm.bias) + np.float32(similarity.offset)

    def _matrices(self) -> tuple[list[Rows], list[Rows]]:
        """For each head, the columns that keys ``(N, D)`` and their squares are multiplied with."""
        of_keys = [self.score_directions, self.value_directions]
        of_squares = [] if self.square_weight is None else [self.square_weight[None]]
        if self.pooling.pre_norm is not None:
            of_keys.append(self.gate / np.float32(self.size))
            of_squares = [self.gate * (self.gate / np.float32(self.size)), *of_squares]
        by_head = [
            [np.ascontiguousarray(np.concatenate(some)[:, part].T) if some else np.zeros((self.size, 0), np.float32)
             for part in self._parts]
            for some in (of_keys, of_squares)
        ]  # fmt: skip
        return by_head[0], by_head[1]

    @cached_property
    def _parts(self) -> list[slice]:
        return [slice(head * self.size, (head + 1) * self.size) for head in range(self.heads)]

    def products(self, rows: Rows) -> tuple[Rows, Rows, Rows | None, Rows | None]:
        """Scores, values, deviations and means of all keys, each ``(h, R, T)``; the last two only for ``pre``."""
        count, channels = self.count, self.pooling.channels
        pre_norm = self.pooling.pre_norm
        found = np.empty((self.heads, self._key_matrices[0].shape[1], len(rows)), np.float32)
        squares = np.empty((self.heads, self._square_matrices[0].shape[1], len(rows)), np.float32)
        step = block_rows(rows.shape[1])
        buffer = np.empty((min(step, len(rows)), channels), np.float32)
        for start in range(0, len(rows), step):
            place = slice(start, start + step)
            block = rows[place, -channels:]
            for head, part in enumerate(self._parts):
                found[head, :, place] = (block[:, part] @ self._key_matrices[head]).T
            if squares.shape[1]:
                squared = np.multiply(block, block, out=buffer[: len(block)])
                for head, part in enumerate(self._parts):
                    squares[head, :, place] = (squared[:, part] @ self._square_matrices[head]).T
            self._other_scores(rows[place], found[:, :count, place], buffer)
        scores, values = found[:, :count], found[:, count : 2 * count]
        if self.square_weight is not None:
            scores -= squares[:, -1:]
        if pre_norm is None:
            return scores, values, None, None
        mean, second = found[:, 2 * count :], squares[:, :count]
        deviation = self._deviation(rows[:, -channels:], mean, second, pre_norm.eps)
        values /= deviation
        return scores, values, deviation, mean

    def _other_scores(self, rows: Rows, scores: Rows, buffer: Rows) -> None:
        """Write scores ``(h, R, N)`` that are no product with the keys: of distances, and of excited keys."""
        channels = self.pooling.channels
        excited = rows.shape[1] > channels
        if self.distance is None and not excited:
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
        lost = variance < CANCELS * second
        for head, query, row in np.argwhere(lost) if lost.any() else ():
            part = self._parts[head]
            variance[head, query, row] = np.var(keys[row, part].astype(np.float64) * self.gate[query, part])
        variance += np.float32(eps**2)
        return np.sqrt(variance, out=variance)
