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
from torch import Tensor, nn

from miv.errors import MIVError
from miv.poolings.cap import CrossAttentionPooling
from miv.poolings.kept_form import (
    Borders,
    PartialPooling,
    Per,
    PooledBag,
    PreparedQueries,
    Rows,
    as_rows,
    block_rows,
)
from miv.poolings.plain_forms import PoolingForm, QuerySimilarity
from miv.poolings.running_sums import Floats, RunningSums

# A variance that is a smaller part of the mean square than this lost too many digits and is computed again.
_CANCELS = 0.05
_NUMBERS, _ROWS = 1 << 15, 1 << 13  # scores and rows worked on together, so that they stay in the cache
_LEAST = np.float32(1e-37)  # share whose logarithm is taken


class CrossAttentionForm(PoolingForm[CrossAttentionPooling]):
    r"""CAP: the keys :math:`z_n = v^{target}_n W` are kept.

    With VEMA, :math:`\delta` depends on the bag but not on the query, so :math:`\delta \odot z_n` is kept too, for
    every member of every bag.

    Args:
        pooling: the pooling.
        distance_weight: ``(C,)``, of the distances in the scores; ``None`` if the scores are products.
        power: of the absolute differences in the distances, 1 or 2.
        delta: VEMA's layer from the variance of a bag, minus 1, to :math:`\delta`.
    """

    def __init__(
        self,
        pooling: CrossAttentionPooling,
        distance_weight: Tensor | None = None,
        power: int = 2,
        delta: nn.Module | None = None,
    ) -> None:
        super().__init__(pooling)
        self.distance_weight, self.power, self.delta = distance_weight, power, delta

    @property
    def per(self) -> Per:  # type: ignore[override]
        return "instance" if self.delta is None else "member"

    @property
    def needs_variance(self) -> bool:  # type: ignore[override]
        return self.delta is not None

    @property
    def width(self) -> int:
        return self.pooling.channels * (1 if self.delta is None else 2)

    def keep(self, features: Rows, ptr: Borders) -> Rows:
        normed = self.normed(features)
        keys = self.pooling.project(normed)  # (T, C)
        if self.delta is None:
            return as_rows(keys)
        bags = self.bags(features, ptr).with_values(normed)
        delta = bags.expand(self.delta(bags.var(normed) - 1))  # (T, C)
        return np.concatenate([as_rows(delta * keys), as_rows(keys)], axis=1)

    def keys(self, features: Rows) -> Rows:
        """The keys ``(N, C)`` of features ``(N, C)``, without what depends on a bag."""
        return as_rows(self.pooling.project(self.normed(features)))

    def prepare_for_bag(self, queries: Rows, variance: Floats | None) -> "CrossAttentionQueries":
        r"""Prepare queries for the keys of one bag, given for VEMA the variance ``(C,)`` of its normed features."""
        delta = None
        if self.delta is not None:
            if variance is None:
                raise MIVError("The variance is missing. cap_vema needs the variance of the bag before its pass.")
            delta = self.delta(torch.from_numpy(variance).to(next(self.pooling.parameters())) - 1)
        return CrossAttentionQueries(self, self.normed(queries), delta)

    def prepare(self, queries: Rows) -> PreparedQueries:
        return CrossAttentionQueries(self, self.normed(queries))

    def partial_pooling(
        self, queries: Rows, top: int, variance: Floats | None = None, log_sums: Floats | None = None
    ) -> PartialPooling:
        return PartialAttention(self, queries, top, variance, log_sums)


class CrossAttentionQueries(PreparedQueries):
    """``R`` queries after the first norm, ``(R, C)``, as directions to multiply the keys with.

    Args:
        form: the kept form.
        query: ``(R, C)``.
        delta: ``(C,)``, the excitation of VEMA if all rows are of one bag, whose rows are then keys only.
    """

    rows_together: ClassVar[int] = 1 << 14

    def __init__(self, form: "CrossAttentionForm", query: Tensor, delta: Tensor | None = None) -> None:
        self.pooling = pooling = form.pooling
        self.form, self.heads, self.size = form, pooling.heads, pooling.head_channels
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
        logits = []
        for query in range(self.count):
            total = weighted_sum(np.ascontiguousarray(weights[:, query].T), keys, ptr)
            logits.append(self.logits_of_sums(total, None if offsets is None else offsets[:, query].T, query))
        return np.stack(logits)

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
        if self.form.distance_weight is not None:
            weight = self.form.distance_weight * factor
            if self.form.power == 1:
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
        lost = variance < _CANCELS * second
        for head, query, row in np.argwhere(lost) if lost.any() else ():
            part = self._parts[head]
            variance[head, query, row] = np.var(keys[row, part].astype(np.float64) * self.gate[query, part])
        variance += np.float32(eps**2)
        return np.sqrt(variance, out=variance)


class PartialAttention(PartialPooling):
    """CAP, see ``CrossAttentionQueries``: sums of what each key adds to the logit, or of the keys themselves.

    Args:
        form: the kept form.
        queries: features ``(R, C)``.
        top: number of targets to name per query.
        variance: ``(C,)``, of the normed features of the whole bag, for VEMA.
        log_sums: ``(h, R)``, of the whole bag, if this is a second pass that names targets.
    """

    of_pooling = ("form", "queries")

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

    def log_sums_so_far(self) -> Floats:
        return self.sums.log_sums

    def finish(self) -> PooledBag:
        queries, total = self.queries, self.sums.total
        log_sums = self.sums.log_sums if self.log_sums is None else np.zeros((1, queries.count))
        named = [leading.shares(log_sums[:, query]) for query, leading in enumerate(self.leading)]
        if queries.sums_vectors:
            vectors = (self.vectors / np.repeat(total, queries.size, axis=0).T).astype(np.float32)  # (R, C)
            offsets = (self.values / total).astype(np.float32).T  # (R, h)
            has_norm = self.form.pooling.pre_norm is not None
            logit = np.concatenate([
                queries.logits_of_sums(vectors[row : row + 1], offsets[row : row + 1] if has_norm else None, row)
                for row in range(queries.count)
            ])  # fmt: skip
        else:
            logit = (self.values / total).sum(axis=0) + queries.constant
        return PooledBag(logit.astype(np.float64), [places for places, _ in named], [shares for _, shares in named])


def _dot(weights: Rows, values: Rows) -> Floats:
    """Sums ``(h, R)`` of products ``(h, R, N)``."""
    return np.asarray((weights[:, :, None] @ values[:, :, :, None])[:, :, 0, 0], np.float64)


def softmax_in_place(scores: NDArray[np.float32], ptr: Borders) -> None:
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
