"""Goals for a threshold: equal errors, a bound on one or both kinds of error, or the lowest cost."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from miv.errors import MIVError
from miv.evaluation.error_curve import CONFIDENCE, ErrorCurve, ErrorEvidence, upper_bound
from miv.files.arrays import Floats, Integers


class Goal(ABC):
    """Chooses one of the cuts of an error curve, or two."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The goal in words."""

    @abstractmethod
    def pick(self, curve: ErrorCurve) -> Integers:
        """Return the index of the cut, ``()`` or, for a batch of resampled curves, ``(R,)``."""

    def pick_lower(self, curve: ErrorCurve) -> Integers:
        """Return the index of the cut below which the decision is no; by default the same, so that none is unsure."""
        return self.pick(curve)

    def promised(self) -> dict[str, float]:
        """The rates that the goal promises with confidence, by their names in an operating point's figures."""
        return {}

    def notes(self, curve: ErrorCurve) -> list[str]:
        """What a promise assumes, as sentences."""
        return []

    def check(self, curve: ErrorCurve) -> None:
        """Raise an error if the data cannot support the goal, or the verifier cannot reach it."""
        cut = int(self.pick(curve))
        exemplars = int(curve.negatives + curve.positives)
        accepted = int(curve.false_accepts[cut] + curve.positives - curve.false_rejects[cut])
        accepts, rejects = float(curve.false_accept_rate[cut]), float(curve.false_reject_rate[cut])
        if accepted in (0, exemplars):
            outcome = f"would answer {'yes' if accepted else 'no'} to all {exemplars:,} exemplars"
        elif accepts + rejects >= 1:
            outcome = f"accepts {accepts:.1%} of the negatives and {1 - rejects:.1%} of the positives"
        else:
            return
        raise MIVError(
            f"The threshold for {self.words} {outcome}, no better than chance. Train a better verifier, or choose "
            "another goal."
        )


_FEWEST = 3  # clusters
_MODEL_SHARE = 0.5  # least product of the rate and the number of clusters (benchmarks/promises.py)


@dataclass(frozen=True)
class RateAtMost(Goal):
    """At most this share of negatives is accepted, or of positives rejected, with 95 % confidence.

    Errors of the other kind are as few as possible. If the threshold is at the ``k + 1``-th most extreme of ``n``
    independent exemplars, the true error rate is below the Clopper–Pearson bound for ``k`` errors of ``n`` with that
    confidence (Wilks 1941). Exemplars of one cluster count as fewer; see ``ErrorEvidence``. ``k`` is the largest number
    of errors with a bound not above the rate.

    With as many clusters as a rate needs independent exemplars, no errors at all are always enough evidence: one
    exemplar per cluster would be. With fewer, the threshold must also respect the limit of a ``ClusterModel``, and
    zero errors are then enough.
    """

    kind: Literal["accept", "reject"]
    rate: float

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise MIVError(f"The rate is {self.rate:g}. Expected a number between 0 and 1, such as 0.01.")

    @property
    def words(self) -> str:
        return f"false-{self.kind} rate <= {self.rate:g}"

    @property
    def _labels(self) -> str:
        return "negatives" if self.kind == "accept" else "positives"  # the exemplars with this kind of error

    @property
    def _needed(self) -> int:
        """The number of independent exemplars that can show the rate, if none is wrong."""
        return math.ceil(math.log(1 - CONFIDENCE) / math.log1p(-self.rate))

    def _evidence(self, curve: ErrorCurve) -> ErrorEvidence:
        return curve.of_negatives if self.kind == "accept" else curve.of_positives

    def _needs_model(self, curve: ErrorCurve) -> bool:
        """Whether there are clusters, and fewer than any difference between them would need."""
        evidence = self._evidence(curve)
        return evidence.clusters < min(evidence.exemplars, self._needed)

    def pick(self, curve: ErrorCurve) -> Integers:
        cut = self._counted(curve)
        model = curve.negative_model if self.kind == "accept" else curve.positive_model
        if model is None or not self._needs_model(curve):
            return cut
        if self.kind == "accept":  # a cut is certainly above the limit if it rejects everything up to it
            lowest = np.searchsorted(curve.below, model.limit(self.rate))
            return np.maximum(cut, np.minimum(lowest, len(curve.cuts) - 1))
        highest = np.searchsorted(curve.above, -model.limit(self.rate), side="right") - 1
        return np.minimum(cut, np.maximum(highest, 0))

    def _counted(self, curve: ErrorCurve) -> Integers:
        """The cut by counted errors. Shares are compared, because counts differ in resampled curves."""
        evidence = self._evidence(curve)
        self._check_enough(evidence)
        errors = np.arange(math.floor(self.rate * evidence.exemplars) + 1)
        allowed = max(int(np.searchsorted(evidence.upper_bound(errors), self.rate, side="right")) - 1, 0)
        if self.kind == "accept":  # errors fall along the cuts: take the lowest cut
            return np.asarray((curve.false_accepts * evidence.exemplars > allowed * curve.negatives[..., None]).sum(-1))
        within = curve.false_rejects * evidence.exemplars <= allowed * curve.positives[..., None]
        return np.asarray(within.sum(-1) - 1)  # errors rise along the cuts: take the highest cut

    def _check_enough(self, evidence: ErrorEvidence) -> None:
        """Raise an error if even zero errors would not be enough evidence."""
        exemplars, clusters, words, labels = evidence.exemplars, evidence.clusters, evidence.words, self._labels
        least = max(_FEWEST, math.ceil(round(_MODEL_SHARE / self.rate, 9)))  # clusters that the model needs
        in_clusters = clusters < exemplars
        data = f"{exemplars:,} {labels}" + (f" of {clusters:,} {words}" if in_clusters else "")
        if exemplars < self._needed:
            bound = float(upper_bound(np.asarray(0), exemplars))
            raise MIVError(
                f"{self.words} cannot be shown with {data}: even with no wrong answer among them, "
                f"the true rate could be up to {bound:.2g} ({CONFIDENCE:.0%} confidence). Expected at least "
                f"{self._needed:,} {labels}{f' of {least:,} {words} or more' if in_clusters else ''}. "
                f"Use more data, or a rate of {_rounded_up(bound):g} or more."
            )
        if in_clusters and clusters < least:
            rate = f", or a rate of {_rounded_up(_MODEL_SHARE / clusters):g} or more" if clusters >= _FEWEST else ""
            raise MIVError(
                f"{self.words} cannot be promised for new {words} with {data}: they say too little about how {words} "
                f"differ. Expected {labels} of at least {least:,} {words}. Use data with more {words}{rate}."
            )

    def promised(self) -> dict[str, float]:
        return {f"false_{self.kind}_rate": self.rate}

    def notes(self, curve: ErrorCurve) -> list[str]:
        if not self._needs_model(curve):
            return []
        evidence = self._evidence(curve)
        return [
            f"{self.words} rests on {self._labels} of {evidence.clusters:,} {evidence.words}. Fewer than "
            f"{self._needed:,} cannot show it whatever the difference between {evidence.words}; the threshold assumes "
            "that their mean logits are normally distributed."
        ]

    def check(self, curve: ErrorCurve) -> None:
        if self.kind == "accept":
            errors, total, verb, labels = curve.false_rejects, int(curve.positives), "accepts", "positives"
        else:
            errors, total, verb, labels = curve.false_accepts, int(curve.negatives), "rejects", "negatives"
        if int(errors[self.pick(curve)]) < total:
            super().check(curve)
            return
        evidence = self._evidence(curve)
        words, clusters = evidence.words, evidence.clusters
        if int(errors[self._counted(curve)]) < total:  # counted errors would allow it, and the model does not
            new = f" for new {words}"
            why = f"the {clusters:,} {words} of the data differ too much for so few of them. Use data with more {words}"
        else:
            new, side = "", "higher" if self.kind == "accept" else "lower"
            why = f"too many {self._labels} score {side} than all of them. Train a better verifier"
        does = f"{verb} any of the {total:,} {labels}"
        raise MIVError(f"No threshold with a {self.words}{new} {does}: {why}, or allow a higher rate.")


def _rounded_up(rate: float) -> float:
    """Round the rate up to two significant digits.

    >>> _rounded_up(0.00993)
    0.01
    """
    scale = 10.0 ** (1 - math.floor(math.log10(rate)))
    return math.ceil(rate * scale) / scale


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
    """The lowest expected cost per exemplar; ``prior`` is the share of positives, by default that of the data."""

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
        prior = "that of the validation data" if self.prior is None else f"{self.prior:g}"
        costs = f"a false accept costs {self.false_accept:g}, a false reject {self.false_reject:g}"
        return f"least cost, where {costs} and the share of positives is {prior}"

    def pick(self, curve: ErrorCurve) -> Integers:
        accept, reject = self._prices(curve)
        cost = accept[..., None] * curve.false_accept_rate + reject[..., None] * curve.false_reject_rate
        return np.asarray(cost.argmin(-1))

    def check(self, curve: ErrorCurve) -> None:
        super().check(curve)
        cut = int(self.pick(curve))
        accept, reject = (float(price) for price in self._prices(curve))
        accepts, rejects = curve.false_accepts[cut], curve.false_rejects[cut]
        rates = float(curve.of_negatives.upper_bound(accepts)), float(curve.of_positives.upper_bound(rejects))
        highest, constant = accept * rates[0] + reject * rates[1], min(accept, reject)
        if highest >= constant:
            raise MIVError(
                f"Too few data for {self.words}. The best threshold accepts {accepts:,} of {curve.negatives:,} "
                f"negatives and rejects {rejects:,} of {curve.positives:,} positives. The true rates may be up to "
                f"{rates[0]:.2g} and {rates[1]:.2g}; an exemplar then costs {highest:.3g}, and the answer "
                f"{'no' if reject <= accept else 'yes'} to everything costs {constant:.3g}. Use more data."
            )

    def _prices(self, curve: ErrorCurve) -> tuple[Floats, Floats]:
        """The mean cost ``(...)`` per exemplar of accepting all negatives, and of rejecting all positives."""
        share = curve.positives / (curve.positives + curve.negatives) if self.prior is None else np.array(self.prior)
        return np.asarray(self.false_accept * (1 - share)), np.asarray(self.false_reject * share)


@dataclass(frozen=True)
class BothAtMost(Goal):
    """Two thresholds: few negatives are accepted above the upper one, few positives rejected below the lower one.

    The decision is unsure between them. If thresholds keep both rates, we take the one with the most equal errors.
    """

    far: RateAtMost
    frr: RateAtMost

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
        single = np.clip(EqualErrors().pick(curve), upper, np.maximum(lower, upper))
        return np.where(upper <= lower, single, lower), np.where(upper <= lower, single, upper)


_FORMS = (
    "eer, far=0.01, frr=0.05, both as far=0.01,frr=0.05, or cost=FALSE_ACCEPT:FALSE_REJECT[:PRIOR] such as "
    "cost=10:1:0.2"
)


def parse_goal(text: str) -> Goal:
    """Parse a goal in the form of the command line.

    >>> parse_goal("far=0.01,frr=0.05").words
    'false-accept rate <= 0.01, false-reject rate <= 0.05'
    """
    goals = [_parse_part(part, text) for part in text.split(",")]
    rates = {goal.kind: goal for goal in goals if isinstance(goal, RateAtMost)}
    if len(goals) == 2 == len(rates):
        return BothAtMost(rates["accept"], rates["reject"])
    if len(goals) > 1:
        raise MIVError(f"The goal is {text!r}. Expected {_FORMS}.")
    return goals[0]


def _parse_part(part: str, text: str) -> Goal:
    name, _, rest = part.strip().partition("=")
    try:
        numbers = [float(number) for number in rest.split(":")] if rest else []
    except ValueError as error:
        raise MIVError(f"The goal is {text!r}: {error}. Expected {_FORMS}.") from error
    if name == "eer" and not numbers:
        return EqualErrors()
    if name in ("far", "frr") and len(numbers) == 1:
        return RateAtMost("accept" if name == "far" else "reject", numbers[0])
    if name == "cost" and len(numbers) in (2, 3):
        return LeastCost(*numbers)
    raise MIVError(f"The goal is {text!r}. Expected {_FORMS}.")


# The thresholds of a goal and the errors at them, each with its interval.


def point_rates(curve: ErrorCurve, goal: Goal, resampled: Iterator[ErrorCurve]) -> dict[str, Any]:
    """The thresholds, the errors at them, the share of unsure and the equal error rate, each with its interval.

    The thresholds and the equal error rate are recomputed in each round; the errors and the share of unsure are those
    of the chosen thresholds.
    """
    place, lower = goal.pick(curve), goal.pick_lower(curve)
    two = bool(lower < place)
    values = _figures(curve, place, lower, place, lower, two=two)
    draws = [_figures(drawn, place, lower, goal.pick(drawn), goal.pick_lower(drawn), two=two) for drawn in resampled]
    rates: dict[str, Any] = {
        name: interval(float(value), np.concatenate([drawn[name] for drawn in draws])) for name, value in values.items()
    }
    # Resampling zero errors always gives zero; the exact bound says how high the true rate may be.
    accepts, rejects, promised = curve.false_accepts[place], curve.false_rejects[lower], goal.promised()
    counted = {"false_accept_rate": (accepts, curve.of_negatives), "false_reject_rate": (rejects, curve.of_positives)}
    for name, (errors, evidence) in counted.items():
        rates[name] |= {
            "errors": int(errors),
            "effective_exemplars": float(evidence.effective(errors)),
            "at_most": min(float(evidence.upper_bound(errors)), promised.get(name, 1.0)),
        }
    exemplars = int(curve.negatives + curve.positives)
    rates["accuracy"] = 1 - int(curve.false_accepts[place] + curve.false_rejects[place]) / exemplars
    if two:
        negatives, positives = (int(count) for count in _unsure(curve, place, lower))
        rates["unsure"] |= {
            "exemplars": negatives + positives,
            "of_negatives": float(negatives / curve.negatives),
            "of_positives": float(positives / curve.positives),
        }
        decided = exemplars - negatives - positives
        rates["accuracy_of_decided"] = 1 - int(accepts + rejects) / decided if decided else None
    return rates


def interval(value: float, resampled: Floats) -> dict[str, Any]:
    """A value with the interval of its resamples."""
    low, high = np.quantile(resampled, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return {"value": value, "low": float(low), "high": float(high)}


def _figures(
    curve: ErrorCurve, place: Integers, lower: Integers, own: Integers, own_lower: Integers, *, two: bool
) -> dict[str, Floats]:
    """Figures ``(...)`` at the chosen cuts ``place`` and ``lower``; the thresholds are the curve's own."""
    figures = {
        "threshold": curve.cuts[own],
        "false_accept_rate": curve.false_accept_rate[..., place],
        "false_reject_rate": curve.false_reject_rate[..., lower],
        "eer": EqualErrors().rate(curve),
    }
    if two:
        figures["lower_threshold"] = curve.cuts[own_lower]
        figures["unsure"] = sum(_unsure(curve, place, lower)) / (curve.negatives + curve.positives)
    return figures


def _unsure(curve: ErrorCurve, place: Integers, lower: Integers) -> tuple[Integers, Integers]:
    """The negatives and positives ``(...)`` between the cuts ``lower`` and ``place``."""
    negatives = curve.false_accepts[..., lower] - curve.false_accepts[..., place]
    return np.asarray(negatives), np.asarray(curve.false_rejects[..., place] - curve.false_rejects[..., lower])
