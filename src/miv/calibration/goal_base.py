"""What every goal for a threshold has in common."""

from abc import ABC, abstractmethod

from miv.calibration.error_curve import ErrorCurve
from miv.errors import MIVError
from miv.io.checked_values import Integers


class Goal(ABC):
    """Chooses one of the cuts of an error curve, or two."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The goal in words."""

    @abstractmethod
    def pick(self, curve: ErrorCurve) -> Integers:
        """Return the place of the cut, ``()`` or, for a batch of resampled curves, ``(R,)``."""

    def pick_lower(self, curve: ErrorCurve) -> Integers:
        """Return the place of the cut below which the decision is no; by default the same, so that none is unsure."""
        return self.pick(curve)

    def promised(self) -> dict[str, float]:
        """The rates that the goal promises with confidence, by their names in an operating point's figures."""
        return {}

    def notes(self, curve: ErrorCurve) -> list[str]:
        """What a promise assumes, as sentences."""
        return []

    def check(self, curve: ErrorCurve) -> None:
        """Raise an error if the data cannot support the goal, or the verifier cannot reach it."""
        place = int(self.pick(curve))
        exemplars = int(curve.negatives + curve.positives)
        accepted = int(curve.false_accepts[place] + curve.positives - curve.false_rejects[place])
        if accepted in (0, exemplars):
            raise MIVError(
                f"The threshold for {self.words} would answer {'yes' if accepted else 'no'} to all {exemplars:,} "
                "exemplars, so the verifier adds nothing. Train a better one, or choose another goal."
            )
        accepts, rejects = float(curve.false_accept_rate[place]), float(curve.false_reject_rate[place])
        if accepts + rejects >= 1:
            raise MIVError(
                f"The threshold for {self.words} accepts {accepts:.1%} of the negatives and {1 - rejects:.1%} of the "
                "positives: no better than chance. Train a better verifier, or choose another goal."
            )
