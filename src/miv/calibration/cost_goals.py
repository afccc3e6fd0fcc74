"""Goals that weigh both kinds of error: equal errors, and the lowest cost."""

import math
from dataclasses import dataclass

import numpy as np

from miv.calibration.error_curve import ErrorCurve
from miv.calibration.error_evidence import CONFIDENCE
from miv.calibration.goal_base import Goal
from miv.errors import MIVError
from miv.io.checked_values import Floats, Integers


@dataclass(frozen=True)
class EqualErrors(Goal):
    """False-accept rate and false-reject rate as close to each other as possible."""

    @property
    def words(self) -> str:
        return "equal error rate"

    def pick(self, curve: ErrorCurve) -> Integers:
        return np.asarray(np.abs(curve.false_accept_rate - curve.false_reject_rate).argmin(-1))

    def rate(self, curve: ErrorCurve) -> Floats:
        """The mean ``(...)`` of both rates at the cut where they are closest."""
        both = (curve.false_accept_rate + curve.false_reject_rate) / 2
        return np.asarray(np.take_along_axis(both, self.pick(curve)[..., None], -1)[..., 0])

    def check(self, curve: ErrorCurve) -> None:
        rate = float(self.rate(curve))
        if rate >= 0.5:
            raise MIVError(
                f"The equal error rate is {rate:.2g}, no better than a coin toss. Expected less than 0.5. Train a "
                "better verifier, and check that label 1 means a bag with something of the query's class."
            )
        super().check(curve)


@dataclass(frozen=True)
class LeastCost(Goal):
    """The lowest expected cost per exemplar.

    Args:
        false_accept: cost of a yes when no is true.
        false_reject: cost of a no when yes is true.
        prior: share of positives in use; ``None`` for the share in the data.
    """

    false_accept: float
    false_reject: float
    prior: float | None = None

    def __post_init__(self) -> None:
        if not (0 < self.false_accept < math.inf and 0 < self.false_reject < math.inf):
            raise MIVError(f"The costs are {self.false_accept:g} and {self.false_reject:g}. Expected both above 0.")
        if self.prior is not None and not 0 < self.prior < 1:
            raise MIVError(f"The prior is {self.prior:g}. Expected a share of positives between 0 and 1.")

    @property
    def words(self) -> str:
        of = "that of the validation data" if self.prior is None else f"{self.prior:g}"
        costs = f"a false accept costs {self.false_accept:g}, a false reject {self.false_reject:g}"
        return f"least cost, where {costs} and the share of positives is {of}"

    def pick(self, curve: ErrorCurve) -> Integers:
        accept, reject = self._prices(curve)
        cost = accept[..., None] * curve.false_accept_rate + reject[..., None] * curve.false_reject_rate
        return np.asarray(cost.argmin(-1))

    def check(self, curve: ErrorCurve) -> None:
        super().check(curve)
        place = int(self.pick(curve))
        accept, reject = (float(price) for price in self._prices(curve))
        accepts, rejects = curve.false_accepts[place], curve.false_rejects[place]
        rates = float(curve.of_negatives.upper_bound(accepts)), float(curve.of_positives.upper_bound(rejects))
        highest, alike = accept * rates[0] + reject * rates[1], min(accept, reject)
        if highest >= alike:
            raise MIVError(
                f"Too few data for {self.words}. The best threshold accepts {accepts:,} of {curve.negatives:,} "
                f"negatives and rejects {rejects:,} of {curve.positives:,} positives, but the true rates may be up to "
                f"{rates[0]:.2g} and {rates[1]:.2g} ({CONFIDENCE:.0%} confidence each), at which an exemplar costs "
                f"{highest:.3g}; the answer {'no' if reject <= accept else 'yes'} to everything costs {alike:.3g}. "
                "Use more data, costs closer to each other, or a better verifier."
            )

    def _prices(self, curve: ErrorCurve) -> tuple[Floats, Floats]:
        """The mean cost ``(...)`` per exemplar of accepting all negatives, and of rejecting all positives."""
        share = curve.positives / (curve.positives + curve.negatives) if self.prior is None else np.array(self.prior)
        return np.asarray(self.false_accept * (1 - share)), np.asarray(self.false_reject * share)
