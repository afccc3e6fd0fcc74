"""One query as each head of cross-attention pooling sees it: scores, and the vectors that attention averages."""

import numpy as np
from numpy.typing import NDArray

from miv.io.checked_values import Floats
from miv.kept.cross_attention_queries import CANCELS, CrossAttentionQueries
from miv.kept.similarity_of_query import Rows, as_rows

_ROUNDING = 2e-6  # of a score in float32, relative to the terms that it is summed of


class HeadQuery:
    r"""The query in one head of ``D`` channels.

    The score of a key is :math:`-\lVert q - z \rVert^2_w`, :math:`-\lVert q - z \rVert_{1, w}` or :math:`q \cdot z`, up
    to a constant that the softmax removes. What attention averages is :math:`x = LN(g \odot z)` without scale and
    offset, or :math:`g \odot z` without a norm per head.

    Args:
        query: prepared queries.
        number: which of them.
        head: number of the head.
    """

    def __init__(self, query: CrossAttentionQueries, number: int, head: int) -> None:
        part = slice(head * query.size, (head + 1) * query.size)
        self.power = 2 if query.square_weight is not None else 1 if query.distance is not None else 0
        weight = query.square_weight if self.power == 2 else query.distance
        self.weight: Rows | None = None if weight is None else weight[part]  # (D,)
        self.centre = (query.projected if self.power else query.score_directions)[number, part]  # (D,) q
        self.length = float(length(self.centre, self.weight, self.power))
        self.gate = query.gate[number, part]  # (D,) g
        pre_norm = query.pooling.pre_norm
        self.eps = None if pre_norm is None else pre_norm.eps
        self.channels = query.size

    def scores(self, keys: Rows) -> Rows:
        """Scores ``(N,)`` of keys ``(N, D)``."""
        if self.weight is None:
            return np.asarray(keys @ self.centre)
        gap = keys - self.centre
        gap = np.multiply(gap, gap, out=gap) if self.power == 2 else np.abs(gap, out=gap)
        return np.asarray(gap @ -self.weight)

    def slopes(self, keys: Rows) -> Rows:
        """How much each score changes with each channel, ``(N, D)`` or ``(D,)``, at keys ``(N, D)``."""
        if self.weight is None:
            return self.centre
        if self.power == 1:
            return self.weight
        return np.asarray((self.centre - keys) * (2 * self.weight))

    def rounding(self, longest: float) -> float:
        """How far a score in single precision may be off, if no key is longer than ``longest`` by the score's norm."""
        terms = self.length * longest if self.power == 0 else (self.length + longest) ** self.power
        return _ROUNDING * (1 + terms)


class ComparedKeys:
    """Keys ``(N, D)`` of one head, compared with a query.

    Args:
        query: the query in this head.
        keys: ``(N, D)``.
    """

    def __init__(self, query: HeadQuery, keys: Rows) -> None:
        self.query, self.keys = query, keys
        self.scores = query.scores(keys)  # (N,)
        self._mean: Rows = np.zeros(len(keys), np.float32)
        self.deviation: Rows | None = None
        if query.eps is not None:
            part = np.float32(1 / query.channels)
            self._mean = np.asarray(keys @ (query.gate * part))
            self.deviation = self._deviation((keys * keys) @ (query.gate * query.gate * part), query.eps)

    def _deviation(self, second: Rows, eps: float) -> Rows:
        """Deviations ``(N,)`` of the channels of each gated key; where digits cancel, computed anew."""
        variance = second - np.square(self._mean)
        lost = variance < CANCELS * second
        if lost.any():
            variance[lost] = np.var(self.keys[lost].astype(np.float64) * self.query.gate, axis=1)
        variance += np.float32(eps**2)
        return np.sqrt(variance, out=variance)

    def values(self, slope: Floats) -> Rows:
        """``slope`` ``(D,)`` times what attention averages, ``(N,)``."""
        if self.deviation is None:
            return np.asarray(self.keys @ (self.query.gate * slope).astype(np.float32))
        centred = (self.query.gate * (slope - slope.mean())).astype(np.float32)
        return np.asarray((self.keys @ centred) / self.deviation)

    def sum(self, weights: Floats) -> Floats:
        """The sum ``(D,)`` of what attention averages by weights ``(N,)``."""
        if self.deviation is None:
            return np.asarray(self.query.gate * (weights.astype(np.float32) @ self.keys), np.float64)
        scaled = (weights / self.deviation).astype(np.float32)
        return np.asarray(self.query.gate * (scaled @ self.keys).astype(np.float64) - float(scaled @ self._mean))

    def averaged(self) -> Rows:
        """What attention averages, ``(N, D)``."""
        gated = self.keys * self.query.gate
        if self.deviation is None:
            return gated
        return np.asarray((gated - self._mean[:, None]) / self.deviation[:, None])


def length(vectors: NDArray[np.floating], weight: Rows | None, power: int) -> Floats:
    """Lengths of vectors ``(..., D)`` by the norm of the score: Euclidean for products, otherwise weighted."""
    if power == 1 and weight is not None:
        return np.asarray((np.abs(vectors) * weight).sum(axis=-1), np.float64)
    squares = np.square(vectors, dtype=np.float64)
    return np.asarray(np.sqrt((squares if weight is None else squares * weight).sum(axis=-1)))


class LogitOfMeans:
    r"""The logit of what attention averaged, :math:`m` ``(h, D)``, and how it changes with it.

    With scale :math:`\gamma` and offset :math:`\beta` of the norm, :math:`v^P = \gamma \odot m + \beta` and

    .. math:: f(m) = c \cdot v^P + b - \sum_i d_i \, |v^Q_i - v^P_i|

    This is linear up to the points where a channel of :math:`v^P` passes that of :math:`v^Q`.

    Args:
        query: prepared queries.
        number: which of them.
    """

    def __init__(self, query: CrossAttentionQueries, number: int) -> None:
        self.shape = (query.heads, query.size)
        similarity, norm = query.similarity, query.pooling.pre_norm
        self._scale = np.ones(self.shape) if norm is None else self._by_head(as_rows(norm.weight))
        self._shift = np.zeros(self.shape) if norm is None else self._by_head(as_rows(norm.bias))
        self._factors, self._query = self._by_head(similarity.factors[number]), self._by_head(similarity.query[number])
        has_distance = similarity.distance is not None
        self._distance = self._by_head(similarity.distance) if has_distance else np.zeros(self.shape)  # d
        self._offset = similarity.offset
        self.is_linear = similarity.is_linear

    def _by_head(self, channels: Rows | None) -> Floats:
        return np.asarray(channels, np.float64).reshape(self.shape)

    def _gap(self, means: Floats) -> Floats:
        return np.asarray(self._query - self._scale * means - self._shift)

    def logit(self, means: Floats) -> float:
        """The logit of means ``(h, D)``."""
        near = self._factors * (self._scale * means + self._shift) - self._distance * np.abs(self._gap(means))
        return float(near.sum() + self._offset)

    def slopes(self, means: Floats) -> Floats:
        """The derivative ``(h, D)`` of the logit."""
        return np.asarray(self._scale * (self._factors + self._distance * np.sign(self._gap(means))))

    def bends(self, means: Floats, error: Floats) -> tuple[float, float]:
        """How far the logit may be below and above the linear form, if the means of a head err by ``error`` ``(h,)``.

        Only a channel that passes the query's bends the logit, by twice what it is beyond it.
        """
        beyond = np.maximum(0, np.abs(self._scale) * error[:, None] - np.abs(self._gap(means)))
        found = []
        for weight in (np.maximum(self._distance, 0), np.maximum(-self._distance, 0)):
            by_channel = 2 * (weight * beyond).sum(axis=1)
            together = 2 * np.sqrt(np.square(weight * self._scale).sum(axis=1)) * error
            found.append(float(np.minimum(by_channel, together).sum()))
        return found[0], found[1]
