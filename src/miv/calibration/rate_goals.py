"""Goals that bound one error rate, or both, with confidence."""

import math
from dataclasses import dataclass

import numpy as np

from miv.calibration.error_curve import ErrorCurve
from miv.calibration.error_evidence import CONFIDENCE, ErrorEvidence, upper_bound
from miv.calibration.goal_base import Goal
from miv.errors import MIVError
from miv.io.checked_values import Integers

_FEWEST = 3  # clusters
_MODEL_SHARE = 0.5  # least product of the rate and the number of clusters; chosen with benchmarks/promises.py


@dataclass(frozen=True)
class _AtMost(Goal):
    """An upper bound on one error rate, with 95 % confidence, and as few errors of the other kind as possible.

    If the threshold is at the ``k + 1``-th most extreme of ``n`` independent exemplars, the true error rate is below
    the Clopper–Pearson bound for ``k`` errors of ``n`` with that confidence (Wilks 1941). Exemplars of one cluster
    count as fewer; see ``ErrorEvidence``. ``k`` is the largest number of errors with a bound not above the rate.

    With as many clusters as a rate needs independent exemplars, no errors at all are always enough evidence: one
    exemplar per cluster would be. With fewer, the threshold must also respect the limit of a ``ClusterModel``, and
    zero errors are then enough.
    """

    rate: float

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise MIVError(f"The rate is {self.rate:g}. Expected a number between 0 and 1, such as 0.01.")

    @property
    def needed(self) -> int:
        """The number of independent exemplars that can show the rate, if none is wrong."""
        return math.ceil(math.log(1 - CONFIDENCE) / math.log1p(-self.rate))

    @property
    def least_clusters(self) -> int:
        """The number of clusters that the model needs: fewer say too little about the tail of their effects."""
        return max(_FEWEST, math.ceil(round(_MODEL_SHARE / self.rate, 9)))

    def uses_model(self, evidence: ErrorEvidence) -> bool:
        """Whether there are clusters, and fewer than any difference between them would need."""
        return evidence.clusters < min(evidence.exemplars, self.needed)

    def errors_allowed(self, evidence: ErrorEvidence, kind: str) -> int:
        """Return ``k``; raise an error if even zero errors would not be enough evidence."""
        self._check_enough(evidence, kind)
        errors = np.arange(math.floor(self.rate * evidence.exemplars) + 1)
        return max(int(np.searchsorted(evidence.upper_bound(errors), self.rate, side="right")) - 1, 0)

    def _check_enough(self, evidence: ErrorEvidence, kind: str) -> None:
        clusters, words = evidence.clusters, evidence.words
        in_clusters = clusters < evidence.exemplars
        if evidence.exemplars < self.needed:
            bound = float(upper_bound(np.asarray(0), evidence.exemplars))
            given = f"{evidence.exemplars:,} {kind}" + (f" of {clusters:,} {words}" if in_clusters else "")
            raise MIVError(
                f"{self.words} cannot be shown with {given}: even with no wrong answer among them, "
                f"the true rate could be up to {bound:.2g} ({CONFIDENCE:.0%} confidence). Expected at least "
                f"{self.needed:,} {kind}{f' of {self.least_clusters:,} {words} or more' if in_clusters else ''}. "
                f"Use more data, or a rate of {_rounded_up(bound):g} or more."
            )
        if in_clusters and clusters < self.least_clusters:
            least = _rounded_up(_MODEL_SHARE / max(clusters, _FEWEST))
            other_rate = f", or a rate of {least:g} or more" if clusters >= _FEWEST else ""
            raise MIVError(
                f"{self.words} cannot be promised for new {words} with {evidence.exemplars:,} {kind} of {clusters:,} "
                f"{words}: they say too little about how {words} differ. Expected {kind} of at least "
                f"{self.least_clusters:,} {words}. Use data with more {words}{other_rate}."
            )

    def _differ_too_much(self, evidence: ErrorEvidence, does: str) -> MIVError:
        """The errors counted on the data would allow a useful threshold, and the limit of the model does not."""
        words = evidence.words
        return MIVError(
            f"No threshold with a {self.words} for new {words} {does}: the {evidence.clusters:,} {words} of the data "
            f"differ too much for so few of them. Use data with more {words}, or allow a higher rate."
        )

    def _notes(self, evidence: ErrorEvidence, kind: str) -> list[str]:
        if not self.uses_model(evidence):
            return []
        return [
            f"{self.words} rests on {kind} of {evidence.clusters:,} {evidence.words}. Fewer than {self.needed:,} "
            f"cannot show it whatever the difference between {evidence.words}; the threshold assumes that their mean "
            "logits are normally distributed."
        ]


def _rounded_up(rate: float) -> float:
    """Round the rate up to two significant digits.

    >>> _rounded_up(0.00993)
    0.01
    """
    scale = 10.0 ** (1 - math.floor(math.log10(rate)))
    return math.ceil(rate * scale) / scale


class FalseAcceptsAtMost(_AtMost):
    """At most this share of the negatives is accepted."""

    @property
    def words(self) -> str:
        return f"false-accept rate <= {self.rate:g}"

    def pick(self, curve: ErrorCurve) -> Integers:
        place = self._counted(curve)
        if curve.negative_model is not None and self.uses_model(curve.of_negatives):
            # A cut is certainly above the limit if it rejects everything up to it.
            lowest = np.searchsorted(curve.below, curve.negative_model.limit(self.rate))
            place = np.maximum(place, np.minimum(lowest, len(curve.cuts) - 1))
        return np.asarray(place)

    def _counted(self, curve: ErrorCurve) -> Integers:
        allowed = self.errors_allowed(curve.of_negatives, "negatives")
        # Compare shares, because counts differ in resampled curves. Errors fall along the cuts: take the lowest cut.
        over = curve.false_accepts * curve.of_negatives.exemplars > allowed * curve.negatives[..., None]
        return np.asarray(over.sum(-1))

    def promised(self) -> dict[str, float]:
        return {"false_accept_rate": self.rate}

    def notes(self, curve: ErrorCurve) -> list[str]:
        return self._notes(curve.of_negatives, "negatives")

    def check(self, curve: ErrorCurve) -> None:
        if int(curve.false_rejects[self.pick(curve)]) == curve.positives:
            if int(curve.false_rejects[self._counted(curve)]) < curve.positives:
                raise self._differ_too_much(curve.of_negatives, f"accepts any of the {curve.positives:,} positives")
            raise MIVError(
                f"No threshold with a {self.words} accepts any of the {curve.positives:,} positives: too many "
                "negatives score higher than all of them. Train a better verifier, or allow a higher rate."
            )
        super().check(curve)


class FalseRejectsAtMost(_AtMost):
    """At most this share of the positives is rejected."""

    @property
    def words(self) -> str:
        return f"false-reject rate <= {self.rate:g}"

    def pick(self, curve: ErrorCurve) -> Integers:
        place = self._counted(curve)
        if curve.positive_model is not None and self.uses_model(curve.of_positives):
            highest = np.searchsorted(curve.above, -curve.positive_model.limit(self.rate), side="right") - 1
            place = np.minimum(place, np.maximum(highest, 0))
        return np.asarray(place)

    def _counted(self, curve: ErrorCurve) -> Integers:
        allowed = self.errors_allowed(curve.of_positives, "positives")
        within = curve.false_rejects * curve.of_positives.exemplars <= allowed * curve.positives[..., None]
        return np.asarray(within.sum(-1) - 1)  # errors rise along the cuts: take the highest cut

    def promised(self) -> dict[str, float]:
        return {"false_reject_rate": self.rate}

    def notes(self, curve: ErrorCurve) -> list[str]:
        return self._notes(curve.of_positives, "positives")

    def check(self, curve: ErrorCurve) -> None:
        if int(curve.false_accepts[self.pick(curve)]) == curve.negatives:
            if int(curve.false_accepts[self._counted(curve)]) < curve.negatives:
                raise self._differ_too_much(curve.of_positives, f"rejects any of the {curve.negatives:,} negatives")
            raise MIVError(
                f"No threshold with a {self.words} rejects any of the {curve.negatives:,} negatives: too many "
                "positives score lower than all of them. Train a better verifier, or allow a higher rate."
            )
        super().check(curve)
