"""Differences between models on the same exemplars, with their errors; and Holm's correction for many of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from miv.errors import MIVError
from miv.experiments.results import Result
from miv.files.json import Floats

Term = tuple[float, Sequence[Result], str]  # weight, one model's results by round, metric
_ROUNDING = 1e-12  # what sums of floating point numbers are off by, and more


@dataclass(frozen=True)
class Estimate:
    r"""A figure, or a sum of figures, over ``R`` rounds, and the evidence that it is on one side of a bound.

    Neither error covers all of the other, so a value is beyond a bound only if it is by both. With the distance
    :math:`d` to the bound,

    .. math:: p = \max\{ P(Z > d / SE_{exemplars}),\ P(T_{R-1} > d / SE_{rounds}) \}

    where :math:`Z` is normal, for thousands of exemplars, and :math:`T` is Student's, for few rounds.

    Args:
        value: the mean over rounds.
        rounds: number of rounds.
        over_exemplars: standard error over new draws of exemplars with the same trained models. It treats exemplars as
            independent, even across rounds; in QMNIST all rounds test on the same writers.
        over_rounds: standard error over rounds, which draw new exemplars and weights; ``None`` for one round. It does
            not cover what rounds share (the writers of QMNIST, the test file of FEVER).
    """

    value: float
    rounds: int
    over_exemplars: float
    over_rounds: float | None

    @property
    def standard_error(self) -> float:
        """The error over rounds, as in the paper; for one round, the error over exemplars."""
        return self.over_exemplars if self.over_rounds is None else self.over_rounds

    @property
    def p(self) -> float:
        """Two-sided p-value for a value of 0."""
        return 2 * self._tail(abs(self.value))

    def p_above(self, bound: float) -> float:
        """One-sided p-value for a value of at most ``bound``: small if the value is clearly above it."""
        return self._tail(self.value - bound)

    def p_below(self, bound: float) -> float:
        """One-sided p-value for a value of at least ``bound``: small if the value is clearly below it."""
        return self._tail(bound - self.value)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval: the bounds from which the value differs by both errors, each with p >= 0.05.

        >>> [round(bound, 3) for bound in Estimate(0.5, 3, 0.01, 0.02).interval]  # 4.303 errors over three rounds
        [0.414, 0.586]
        """
        reach = float(ndtri(0.975)) * self.over_exemplars
        if self.over_rounds is not None:
            reach = max(reach, float(stdtrit(self.rounds - 1, 0.975)) * self.over_rounds)
        return self.value - reach, self.value + reach

    def _tail(self, distance: float) -> float:
        """The larger of the two probabilities of such a distance by chance; NaN if an error is unknown."""
        if not math.isfinite(distance) or not math.isfinite(self.over_exemplars):
            return math.nan
        among_exemplars = _survival(distance, self.over_exemplars, None)
        if self.over_rounds is None:
            return among_exemplars
        return max(among_exemplars, _survival(distance, self.over_rounds, self.rounds - 1))


def _survival(distance: float, error: float, freedom: int | None) -> float:
    """The tail probability of Student's or the normal distribution; with an error of 0, the side is certain."""
    if error < _ROUNDING:
        return 0.5 if abs(distance) < _ROUNDING else float(distance < 0)
    return float(ndtr(-distance / error) if freedom is None else stdtr(freedom, -distance / error))


def estimate(terms: Sequence[Term]) -> Estimate | None:
    """The weighted sum of metrics over the rounds that all terms share; ``None`` if there is no such round.

    One term is a figure; two with the weights 1 and -1 are a paired difference; four are a difference of gaps. Rounds
    with exactly the same test exemplars count these once. Other exemplars count as independent.
    """
    by_round = [(weight, {result.job.cell.round: result for result in some}, metric) for weight, some, metric in terms]
    rounds = sorted(set.intersection(*(set(found) for _, found, _ in by_round)))
    if not rounds:
        return None
    values: list[float] = []
    moved: dict[str, Floats] = {}  # by the test exemplars
    for number in rounds:
        value, per_exemplar, data = 0.0, np.zeros(0), ""
        for weight, found, metric in by_round:
            result = found[number]
            if metric not in result.metrics:
                return None
            fingerprint = result.document["data"]["test"]
            if data and fingerprint != data:
                raise MIVError(
                    f"{result.folder} and the models it is compared with were tested on different exemplars."
                )
            part: Floats = weight * result.influence_on(metric)
            value, data = value + weight * result.metrics[metric], fingerprint
            per_exemplar = part if not len(per_exemplar) else per_exemplar + part
        values.append(value)
        moved[data] = moved.get(data, np.zeros(len(per_exemplar))) + per_exemplar / len(rounds)
    over_exemplars = math.sqrt(sum(float((part**2).sum()) for part in moved.values()))
    spread = float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else None
    return Estimate(float(np.mean(values)), len(rounds), over_exemplars, spread)


def difference(ours: Sequence[Result], theirs: Sequence[Result], metric: str) -> Estimate | None:
    """The advantage of the first over the second, exemplar by exemplar."""
    return estimate([(1.0, ours, metric), (-1.0, theirs, metric)])


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction: the chance that any of the comparisons is called real by accident stays below the level.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda place: (math.isnan(p_values[place]), p_values[place]))
    corrected, least = [math.nan] * len(p_values), 0.0
    count = sum(not math.isnan(p) for p in p_values)
    for place, number in enumerate(order[:count]):
        least = max(least, min(1.0, (count - place) * p_values[number]))
        corrected[number] = least
    return corrected
