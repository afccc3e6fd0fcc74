"""Differences between models on the same exemplars, with their errors; and Holm's correction for many of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from miv.errors import MivError
from miv.experiments.influence import influence
from miv.experiments.results import Result
from miv.values import Floats

Term = tuple[float, Sequence[Result], str]  # weight, one model's results by round, metric


@dataclass(frozen=True)
class Estimate:
    """A figure, or a sum of figures, over rounds.

    Args:
        value: the mean over rounds.
        rounds: how many.
        over_exemplars: standard error as exemplars are drawn anew, the trained models staying as they are.
        over_rounds: standard error over rounds, in which data and weights are drawn anew; ``None`` of one round.
    """

    value: float
    rounds: int
    over_exemplars: float
    over_rounds: float | None

    @property
    def standard_error(self) -> float:
        """That over rounds, as in the paper; of one round that over exemplars."""
        return self.over_exemplars if self.over_rounds is None else self.over_rounds

    @property
    def p(self) -> float:
        """Two-sided, that the value is 0; by the larger of the two errors, as neither knows all of the other."""
        error = max(self.over_exemplars, self.over_rounds or 0.0)
        if not math.isfinite(error) or not math.isfinite(self.value):
            return math.nan
        if error == 0:
            return 1.0 if self.value == 0 else 0.0
        return float(2 * norm.sf(abs(self.value) / error))


def estimate(terms: Sequence[Term]) -> Estimate | None:
    """The weighted sum of metrics over the rounds that all terms have; ``None`` where there is no such round.

    One term is a figure, two with the weights 1 and -1 a paired difference, four a difference of gaps. Rounds with the
    very same test exemplars count these once, not as so many more exemplars.
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
                raise MivError(f"{result.folder} was tested on other exemplars than its rivals; they cannot be paired.")
            part: Floats = weight * influence(result.predictions, metric)
            value, data = value + weight * result.metrics[metric], fingerprint
            per_exemplar = part if not len(per_exemplar) else per_exemplar + part
        values.append(value)
        moved[data] = moved.get(data, np.zeros(len(per_exemplar))) + per_exemplar / len(rounds)
    over_exemplars = math.sqrt(sum(float((part**2).sum()) for part in moved.values()))
    spread = float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else None
    return Estimate(float(np.mean(values)), len(rounds), over_exemplars, spread)


def difference(ours: Sequence[Result], theirs: Sequence[Result], metric: str) -> Estimate | None:
    """How much better the first is than the second, exemplar by exemplar."""
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
