"""The goal that bounds both error rates, with two thresholds if one is not enough."""

from dataclasses import dataclass

import numpy as np

from miv.calibration.cost_goals import EqualErrors
from miv.calibration.error_curve import ErrorCurve
from miv.calibration.goal_base import Goal
from miv.calibration.rate_goals import FalseAcceptsAtMost, FalseRejectsAtMost
from miv.io.checked_values import Integers


@dataclass(frozen=True)
class BothAtMost(Goal):
    """Two thresholds: few negatives are accepted above the upper one, and few positives rejected below the lower one.

    The decision is unsure between them. If one threshold keeps both rates, there is no unsure: of those thresholds we
    take the one with the most equal errors.

    Args:
        far: highest share of the negatives with the decision yes.
        frr: highest share of the positives with the decision no.
    """

    far: FalseAcceptsAtMost
    frr: FalseRejectsAtMost

    @property
    def words(self) -> str:
        return f"{self.far.words}, {self.frr.words}"

    def pick(self, curve: ErrorCurve) -> Integers:
        return self._both(curve)[1]

    def pick_lower(self, curve: ErrorCurve) -> Integers:
        return self._both(curve)[0]

    def promised(self) -> dict[str, float]:
        return self.far.promised() | self.frr.promised()

    def notes(self, curve: ErrorCurve) -> list[str]:
        return self.far.notes(curve) + self.frr.notes(curve)

    def check(self, curve: ErrorCurve) -> None:
        self.far.check(curve)
        self.frr.check(curve)

    def _both(self, curve: ErrorCurve) -> tuple[Integers, Integers]:
        # A higher threshold accepts fewer negatives, and a lower one rejects fewer positives: if the lowest allowed
        # for the first is below the highest allowed for the second, everything between them keeps both.
        upper, lower = self.far.pick(curve), self.frr.pick(curve)
        one = np.clip(EqualErrors().pick(curve), upper, np.maximum(lower, upper))
        return np.where(upper <= lower, one, lower), np.where(upper <= lower, one, upper)
