"""What targets that are not read can change at most, from the centre and the radius of their cells: no chance in it."""

import numpy as np

from miv.io.checked_values import Floats
from miv.streaming.head_sample import HeadCentres, HeadSample

_ROUNDS = 6
_SLACK = 1e-5  # relative; sums in single precision are off by less
_TINY = 1e-300  # against division by zero


class CellBounds:
    r"""Bounds for one head that hold for every bag.

    A key in a cell with the centre :math:`c` and the radius :math:`r` scores between

    .. math:: -(\lVert q - c \rVert + r)^p \le s \le -\max(0, \lVert q - c \rVert - r)^p, \qquad
        q \cdot c \pm \lVert q \rVert \, r

    for distances (:math:`p` = 1 or 2, weighted) and for products. The mean score :math:`\bar s` of a cell is known, or
    bounded, so the exponentials of its scores between :math:`a` and :math:`b` are on average, because the exponential
    is convex, from

    .. math:: e^{\bar s} \quad to \quad \frac{(b - \bar s) \, e^a + (\bar s - a) \, e^b}{b - a}

    and the attention averages vectors in a ball, or after a norm in a cone, around that of the centre.

    Args:
        centres: scores and vectors of the centres.
        sample: the targets that are read.
    """

    def __init__(self, centres: HeadCentres, sample: HeadSample) -> None:
        self._centres, self._sample = centres, sample
        cells, query = centres.cells, centres.query
        self.rounding = query.rounding(cells.longest)  # of scores
        low, high, mean_low, mean_high = _scores(centres, 2 * self.rounding)  # each (n,)
        unread = cells.sizes - sample.counts
        self.top = top = max(sample.top, float(high[unread > 0].max(initial=-np.inf)))
        factor = np.exp(sample.top - top)
        sums, vector = sample.read()
        sums, self._vector = sums * factor, vector * factor
        least, most = np.exp(low - top), np.exp(np.minimum(high - top, 0))
        share = np.clip((mean_high - low) / (high - low), 0, 1)
        jensen = cells.sizes * np.exp(np.minimum(mean_low - top, 0))
        chord = cells.sizes * (least + share * (most - least))
        off = (_SLACK + 2 * self.rounding) * (chord + sums)
        self.read = float(sums.sum())
        self.most: Floats = np.maximum(unread * least, np.minimum(unread * most, chord - sums + off))
        self.least: Floats = np.clip(jensen - sums - off, unread * least, self.most)
        self.reach = float(np.abs(query.gate).max()) * cells.radii * (1 + _SLACK)  # of gated keys
        if query.eps is not None:
            self._turn()

    def _turn(self) -> None:
        r"""By which angle a gated key may be off its centre.

        With :math:`y` for a gated key without its mean, the norm gives the first :math:`D` channels of
        :math:`(y, \sqrt D \epsilon)`, scaled to the length :math:`\sqrt D`. All angles are between such vectors.
        """
        deviation, channels = self._centres.compared.deviation, self._centres.query.channels
        assert deviation is not None  # noqa: S101 - for the type checker
        size = deviation.astype(np.float64) * channels**0.5 * (1 - _SLACK)  # (n,)
        self._sine = np.minimum(self.reach / size, 1)
        self._cosine = np.where(self._sine < 1, np.sqrt(1 - np.square(self._sine)), -1.0)

    def values(self, slope: Floats) -> tuple[Floats, Floats]:
        """The least and the greatest ``(n,)`` that ``slope`` ``(D,)`` times a vector of a cell can be."""
        query = self._centres.query
        middle = self._centres.compared.values(slope).astype(np.float64)
        if query.eps is None:
            weighted = float(np.linalg.norm(query.gate * slope))
            half = weighted * (self._centres.cells.radii + _SLACK * self._centres.cells.lengths)
            return middle - half, middle + half
        longest = max(float(np.linalg.norm(slope - slope.mean())) * query.channels**0.5, _TINY)
        cosine = np.clip(middle / longest, -1, 1)
        # Near 1, the rounding of a cosine is a much larger angle.
        sine = np.sqrt(1 - np.square(np.maximum(np.abs(cosine) - _SLACK, 0))) * self._sine
        low = np.where(cosine > -self._cosine, cosine * self._cosine - sine, -1.0)
        high = np.where(cosine < self._cosine, cosine * self._cosine + sine, 1.0)
        return longest * (low - _SLACK), longest * (high + _SLACK)

    def mean(self, slope: Floats) -> tuple[float, float]:
        """The least and the greatest ``slope`` times the mean over all targets that the unread ones allow."""
        low, high = self.values(slope)
        known, middle = float(self._vector @ slope), float(self._sample.mean @ slope)
        spare = 2 * self.rounding * float(high.max() - low.min()) + _SLACK * (1 + abs(middle))
        upper = self._greatest(known, high, middle)
        lower = -self._greatest(-known, -low, -middle)
        return min(lower, middle) - spare, max(upper, middle) + spare

    def _greatest(self, known: float, values: Floats, start: float) -> float:
        r"""The greatest :math:`(known + \sum_k A_k v_k) / (read + \sum_k A_k)` with each :math:`A_k` in its bounds.

        Dinkelbach's method from below; what is left is added, so that the result is never too small.
        """
        found = start
        for _ in range(_ROUNDS):
            masses = np.where(values > found, self.most, self.least)
            total = self.read + float(masses.sum())
            better = (known + float(masses @ values)) / total if total > 0 else found
            if better <= found:
                break
            found = better
        gap = values - found
        left = known - found * self.read + float(np.where(gap > 0, self.most, self.least) @ gap)
        if left <= 0:
            return found
        least, greatest = self.read + float(self.least.sum()), float(values.max())  # which no mean exceeds
        return min(found + left / least, greatest) if least > 0 else greatest

    def error(self) -> float:
        """The greatest distance of the mean over all targets from the estimated one."""
        query, mean, vectors = self._centres.query, self._sample.mean, self._centres.compared.averaged()
        away_from_mean = np.linalg.norm(vectors - mean, axis=1)
        reach = self.reach
        if query.eps is not None:
            half_sine = np.sqrt(np.maximum(1 - self._cosine, 0) / 2)  # of half the angle
            reach = query.channels**0.5 * (2 * half_sine + _SLACK)
        middle, half = (self.most + self.least) / 2, (self.most - self.least) / 2
        away = self._vector + middle @ vectors - (self.read + middle.sum()) * mean
        width = float(half @ away_from_mean + self.most @ reach) + float(np.linalg.norm(away))
        least = self.read + float(self.least.sum())
        greatest = float((away_from_mean + reach).max())  # no vector is further away
        found = min(width / least, greatest) if least > 0 else greatest
        return found + (2 * self.rounding + _SLACK) * greatest + _SLACK  # the weights err as much as the scores


def _scores(centres: HeadCentres, rounding: float) -> tuple[Floats, Floats, Floats, Floats]:
    """The least and the greatest score of each cell, and the least and the greatest that their mean can be."""
    cells, query, scores = centres.cells, centres.query, centres.compared.scores.astype(np.float64)
    if query.power == 0:
        half = query.length * cells.reach
        low, high, mean_low = scores - half, scores + half, scores
    else:
        near, far = np.maximum(-scores - rounding, 0), np.maximum(-scores, 0) + rounding
        if query.power == 2:
            near, far = np.sqrt(near), np.sqrt(far)
        low = -((far + cells.reach) ** query.power)
        high = -(np.maximum(near - cells.reach, 0) ** query.power)
        mean_low = scores - cells.spread
    mean_high = mean_low if query.power == 2 else scores  # of absolute values, the mean is only bounded
    return low - rounding, high + rounding, mean_low - rounding, mean_high + rounding
