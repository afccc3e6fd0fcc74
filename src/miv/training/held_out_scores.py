"""Compares candidates by how well they tell held-out bags apart."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from miv.data import ExemplarSet
from miv.evaluation import auroc
from miv.evaluation.influence import auroc_error
from miv.io.checked_values import Floats


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """Bags to choose by.

    Args:
        label: ``(E,)``.
        scores: ``(E,)`` that each candidate gives them.
        reuse: by which standard errors grow, because bags that share instances are not independent.
    """

    label: NDArray[np.int8]
    scores: list[Floats]
    reuse: float = 1.0

    @property
    def can_choose(self) -> bool:
        """Whether there are at least two bags with each label; with one, there is no standard error."""
        return bool(min(np.sum(self.label == 0), np.sum(self.label == 1)) > 1)


def auroc_gain(parts: list[HeldOutScores], one: int, other: int) -> tuple[float, float]:
    """How much AUROC a candidate gains over another, averaged over the parts by size, and its standard error."""
    share = np.array([len(part.label) for part in parts], np.float64)
    share /= share.sum()
    gains = [auroc(part.label, part.scores[one]) - auroc(part.label, part.scores[other]) for part in parts]
    errors = [part.reuse * auroc_error(part.label, part.scores[one], part.scores[other]) for part in parts]
    return float(share @ gains), float(np.sqrt(share**2 @ np.square(errors)))


def independent(exemplars: ExemplarSet) -> float:
    """Number of exemplars the instances allow without reuse: the effective sample size."""
    return min(len(exemplars), len(exemplars.used) / (1 + float(exemplars.bag_sizes.mean())))
