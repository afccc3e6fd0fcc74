"""Rules that choose witnesses, for bags of any size."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from miv.data import csr
from miv.errors import unknown_name
from miv.files.json import Floats, Mask, Tagged, finite_number, from_document

# The source of the shares that are called attention below; see ``miv.explain``.
WitnessesBy = Literal["attention", "alone", "leave_one_out", "shapley", "rollout"]

# Lower limit of attention: if all but one instance get exactly 0, as with the pooling `baseline`, the probability of
# the bag still separates its instances from those of another bag.
_LEAST = 1e-9


class WitnessRule(Tagged, ABC):
    """Decides for every instance of every bag; a bag may have no witness."""

    @abstractmethod
    def chosen(self, probability: ArrayLike, accepted: ArrayLike, attention: ArrayLike, size: ArrayLike) -> Mask:
        """Decide for some instances ``(N,)``, given what ``witnesses`` takes and the size of the bag of each."""

    def witnesses(self, probability: ArrayLike, accepted: ArrayLike, attention: ArrayLike, ptr: ArrayLike) -> Mask:
        """Decide for every instance.

        Args:
            probability: ``(B,)``, calibrated probability that each bag holds something of the query's class.
            accepted: ``(B,)`` bool, whether the verdict on each bag is yes.
            attention: ``(T,)``, sums to 1 in each bag.
            ptr: ``(B + 1,)``, the borders between the bags.

        Returns:
            ``(T,)`` bool.
        """
        ptr = np.asarray(ptr)
        of_bag = (np.asarray(probability, np.float64), np.asarray(accepted, bool), np.diff(ptr))
        each_probability, each_accepted, size = (csr.to_rows(one, ptr) for one in of_bag)
        return self.chosen(each_probability, each_accepted, attention, size)


@dataclass(frozen=True)
class StatedRule(WitnessRule):
    r"""In an accepted bag of :math:`N`, the instances with :math:`a_n N \ge \min(factor, N)`.

    :math:`a_n N` is 1 for even attention, in bags of every size; it cannot exceed :math:`N`, hence the minimum. A
    rejected bag has no witness. The rule has no guarantee: it is for data without known witnesses.

    Args:
        factor: minimum attention of a witness, as a multiple of an even share.

    >>> rule = StatedRule(factor=1.5)
    >>> rule.witnesses([0.9, 0.2], [True, False], attention=[0.6, 0.3, 0.1, 1.0], ptr=[0, 3, 4]).tolist()
    [True, False, False, False]
    """

    factor: float = 1.5
    name: ClassVar[str] = "attention_times_n"

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", finite_number("factor of the witness rule", self.factor, low=0.0))

    def chosen(self, probability: ArrayLike, accepted: ArrayLike, attention: ArrayLike, size: ArrayLike) -> Mask:
        sizes = np.asarray(size, np.float64)
        needed = np.minimum(self.factor, sizes) / sizes
        return np.asarray((np.asarray(attention, np.float64) >= needed) & np.asarray(accepted, bool))


@dataclass(frozen=True)
class ConformalRule(WitnessRule):
    """The instances with a ``witness_score`` of at least a threshold calibrated on known witnesses.

    The sets contain at least ``1 - epsilon`` of the true witnesses of all positive exemplars, on average over data
    like the calibration data. The verdict plays no part, because the score falls with the probability of the bag: a
    likely negative bag has no witness, and a narrowly rejected bag may show candidates.

    Args:
        threshold: minimum score.
        epsilon: share of true witnesses that may be missed.
        by: source of the shares that it was calibrated on. It is not valid for other shares.

    >>> rule = ConformalRule(threshold=0.3, epsilon=0.1)
    >>> rule.witnesses([0.9, 0.2], [True, False], attention=[0.6, 0.3, 0.1, 1.0], ptr=[0, 3, 4]).tolist()
    [True, True, False, False]
    """

    threshold: float
    epsilon: float
    by: WitnessesBy = "attention"
    name: ClassVar[str] = "conformal"

    def __post_init__(self) -> None:
        threshold = finite_number("threshold of the witness rule", self.threshold, low=0.0)
        object.__setattr__(self, "threshold", threshold)
        object.__setattr__(
            self, "epsilon", finite_number("epsilon of the witness rule", self.epsilon, low=0.0, high=1.0)
        )
        if self.by not in get_args(WitnessesBy):
            raise unknown_name("kind of shares", str(self.by), get_args(WitnessesBy))

    def chosen(self, probability: ArrayLike, accepted: ArrayLike, attention: ArrayLike, size: ArrayLike) -> Mask:
        return np.asarray(_scores(probability, attention, size) >= self.threshold)


def witness_score(probability: ArrayLike, attention: ArrayLike, ptr: ArrayLike) -> Floats:
    r"""Return ``(T,)`` scores of at least 0: :math:`s_n = p \, a_n N`.

    Attention is divided among the :math:`N` instances of a bag, so the same value means little in a small bag and much
    in a large one; :math:`a_n N` is 1 for an even share in every bag. Of the scores tried on QMNIST (with and without
    :math:`p`; attention alone, or relative to the bag's highest), this one covers large and small bags most evenly.

    >>> witness_score([0.5], attention=[0.6, 0.3, 0.1], ptr=[0, 3]).round(3).tolist()
    [0.9, 0.45, 0.15]
    """
    ptr = np.asarray(ptr)
    each, size = (csr.to_rows(one, ptr) for one in (np.asarray(probability, np.float64), np.diff(ptr)))
    return _scores(each, attention, size)


def _scores(probability: ArrayLike, attention: ArrayLike, size: ArrayLike) -> Floats:
    attention = np.maximum(np.asarray(attention, np.float64), _LEAST)
    return np.asarray(np.asarray(probability, np.float64) * np.asarray(size) * attention)


RULES: dict[str, type[WitnessRule]] = {kind.name: kind for kind in (StatedRule, ConformalRule)}


def rule_from(document: object) -> WitnessRule:
    """Return the rule that ``WitnessRule.document`` described; raise an error for anything else."""
    return from_document(document, RULES, "witness rule")
