"""What a threshold is chosen for: equal errors, a bound on one kind of error, or the least cost."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from miv.calibration.error_curve import ErrorCurve
from miv.errors import MivError

CONFIDENCE = 0.95
FORMS = "eer, far=0.01, frr=0.05, or cost=FALSE_ACCEPT:FALSE_REJECT[:PRIOR] such as cost=10:1:0.2"
Places = NDArray[np.int64]


class Goal(ABC):
    """Chooses one of the cuts of an error curve."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The goal in words."""

    @abstractmethod
    def pick(self, curve: ErrorCurve) -> Places:
        """Return the place of the cut, ``()`` or, for a batch of resampled curves, ``(R,)``."""

    def check(self, curve: ErrorCurve) -> None:  # noqa: B027  # most goals ask for nothing more than a curve
        """Refuse where the data cannot support the goal, or the verifier cannot reach it."""


@dataclass(frozen=True)
class EqualErrors(Goal):
    """False-accept rate and false-reject rate as near to each other as can be."""

    @property
    def words(self) -> str:
        return "equal error rate"

    def pick(self, curve: ErrorCurve) -> Places:
        return np.asarray(np.abs(curve.false_accept_rate - curve.false_reject_rate).argmin(-1))


@dataclass(frozen=True)
class LeastCost(Goal):
    """The least expected cost of an exemplar.

    Args:
        false_accept: what a yes costs where no is true.
        false_reject: what a no costs where yes is true.
        prior: the share of positives where the verifier will be used; ``None`` for that of the data.
    """

    false_accept: float
    false_reject: float
    prior: float | None = None

    def __post_init__(self) -> None:
        if not (0 < self.false_accept < math.inf and 0 < self.false_reject < math.inf):
            raise MivError(f"The costs are {self.false_accept:g} and {self.false_reject:g}. Expected both above 0.")
        if self.prior is not None and not 0 < self.prior < 1:
            raise MivError(f"The prior is {self.prior:g}. Expected a share of positives between 0 and 1.")

    @property
    def words(self) -> str:
        of = "that of the validation data" if self.prior is None else f"{self.prior:g}"
        costs = f"a false accept costs {self.false_accept:g}, a false reject {self.false_reject:g}"
        return f"least cost, where {costs} and the share of positives is {of}"

    def pick(self, curve: ErrorCurve) -> Places:
        share = curve.positives / (curve.positives + curve.negatives) if self.prior is None else self.prior
        accepts = self.false_accept * (1 - share) * curve.false_accept_rate
        return np.asarray((accepts + self.false_reject * share * curve.false_reject_rate).argmin(-1))


@dataclass(frozen=True)
class _AtMost(Goal):
    """One kind of error at most so often, with 95 % confidence, and as few of the other kind as that allows.

    Where the threshold stands beside the ``k + 1``-th most extreme of ``n`` exemplars, the true error rate is below
    the Clopper–Pearson bound for ``k`` errors of ``n`` with that confidence (Wilks 1941). ``k`` is the most errors for
    which this bound is not above the rate.
    """

    rate: float

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise MivError(f"The rate is {self.rate:g}. Expected a number between 0 and 1, such as 0.01.")

    def errors_allowed(self, exemplars: int, kind: str) -> int:
        """Return ``k``; refuse where even no error at all would not be evidence enough."""
        errors = np.arange(math.floor(self.rate * exemplars) + 1)
        allowed = int(np.searchsorted(upper_bound(errors, exemplars), self.rate, side="right")) - 1
        if allowed < 0:
            needed = math.ceil(math.log(1 - CONFIDENCE) / math.log1p(-self.rate))
            bound = float(upper_bound(np.array([0]), exemplars)[0])
            raise MivError(
                f"{self.words} cannot be shown with {exemplars:,} {kind}: even if none of them were answered wrongly, "
                f"the true rate could be up to {bound:.2g} ({CONFIDENCE:.0%} confidence). Expected at least {needed:,} "
                f"{kind}; give more data, or ask for a rate of {bound:.2g} or more."
            )
        return allowed


class FalseAcceptsAtMost(_AtMost):
    """Of the negatives, at most this share is accepted."""

    @property
    def words(self) -> str:
        return f"false-accept rate <= {self.rate:g}"

    def pick(self, curve: ErrorCurve) -> Places:
        allowed = self.errors_allowed(curve.negatives, "negatives")
        return np.asarray((curve.false_accepts > allowed).sum(-1))  # the lowest cut with so few, as they fall

    def check(self, curve: ErrorCurve) -> None:
        if int(curve.false_rejects[self.pick(curve)]) == curve.positives:
            raise MivError(
                f"No threshold with a {self.words} accepts any of the {curve.positives:,} positives: too many "
                "negatives score higher than all of them. Train a better verifier, or allow a higher rate."
            )


class FalseRejectsAtMost(_AtMost):
    """Of the positives, at most this share is rejected."""

    @property
    def words(self) -> str:
        return f"false-reject rate <= {self.rate:g}"

    def pick(self, curve: ErrorCurve) -> Places:
        allowed = self.errors_allowed(curve.positives, "positives")
        return np.asarray((curve.false_rejects <= allowed).sum(-1) - 1)  # the highest cut with so few, as they rise

    def check(self, curve: ErrorCurve) -> None:
        if int(curve.false_accepts[self.pick(curve)]) == curve.negatives:
            raise MivError(
                f"No threshold with a {self.words} rejects any of the {curve.negatives:,} negatives: too many "
                "positives score lower than all of them. Train a better verifier, or allow a higher rate."
            )


def upper_bound(errors: NDArray[np.int64], exemplars: int) -> NDArray[np.float64]:
    """Return the one-sided Clopper–Pearson bounds: how high the true rate may be after so many errors."""
    from scipy.special import betaincinv  # the quantile of scipy.stats.beta, which takes a second to import

    some = np.minimum(errors, exemplars - 1)
    return np.where(errors < exemplars, betaincinv(some + 1.0, exemplars - some, CONFIDENCE), 1.0)


def parse_goal(text: str) -> Goal:
    """Read a goal as the command line has it.

    >>> parse_goal("far=0.01").words
    'false-accept rate <= 0.01'
    """
    name, _, rest = text.strip().partition("=")
    numbers = []
    for part in rest.split(":") if rest else []:
        try:
            numbers.append(float(part))
        except ValueError as error:
            raise MivError(f"The goal {text!r} has {part!r} where a number should be. Expected {FORMS}.") from error
    if name == "eer" and not numbers:
        return EqualErrors()
    if name in ("far", "frr") and len(numbers) == 1:
        return FalseAcceptsAtMost(*numbers) if name == "far" else FalseRejectsAtMost(*numbers)
    if name == "cost" and len(numbers) in (2, 3):
        return LeastCost(*numbers)
    raise MivError(f"The goal is {text!r}. Expected {FORMS}.")
