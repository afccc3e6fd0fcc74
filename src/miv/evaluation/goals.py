"""Goals for a threshold: equal errors, or a bound on one or both kinds of error."""

import contextlib
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from miv.errors import MIVError
from miv.evaluation.error_curve import ErrorCurve, ErrorEvidence, rate_interval, upper_bound
from miv.files.arrays import Floats, Integers, Labels, Mask


class Goal(ABC):
    """Chooses one of the cuts of an error curve, or two."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The goal in words."""

    @abstractmethod
    def pick(self, curve: ErrorCurve) -> int:
        """Return the index of the cut."""

    def pick_lower(self, curve: ErrorCurve) -> int:
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
        cut = self.pick(curve)
        exemplars = curve.negatives + curve.positives
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
    """At most this share of negatives is accepted, or of positives rejected, with the confidence of the curve.

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

    def _needed(self, evidence: ErrorEvidence) -> int:
        """The number of independent exemplars that can show the rate, if none is wrong."""
        return math.ceil(math.log(1 - evidence.confidence) / math.log1p(-self.rate))

    def _evidence(self, curve: ErrorCurve) -> ErrorEvidence:
        return curve.of_negatives if self.kind == "accept" else curve.of_positives

    def _needs_model(self, curve: ErrorCurve) -> bool:
        """Whether there are clusters, and fewer than any difference between them would need."""
        evidence = self._evidence(curve)
        return evidence.growth * evidence.clusters < min(evidence.exemplars, self._needed(evidence))

    def pick(self, curve: ErrorCurve) -> int:
        cut = self._counted(curve)
        model = curve.negative_model if self.kind == "accept" else curve.positive_model
        if model is None or not self._needs_model(curve):
            return cut
        if self.kind == "accept":  # a cut is certainly above the limit if it rejects everything up to it
            lowest = int(np.searchsorted(curve.below, model.limit(self.rate)))
            return max(cut, min(lowest, len(curve.cuts) - 1))
        highest = int(np.searchsorted(curve.above, -model.limit(self.rate), side="right")) - 1
        return min(cut, max(highest, 0))

    def _counted(self, curve: ErrorCurve) -> int:
        """The cut by counted errors."""
        evidence = self._evidence(curve)
        self._check_enough(evidence)
        errors = np.arange(math.floor(self.rate * evidence.exemplars) + 1)
        allowed = max(int(np.searchsorted(evidence.upper_bound(errors), self.rate, side="right")) - 1, 0)
        if self.kind == "accept":  # errors fall along the cuts: take the lowest cut
            return int((curve.false_accepts > allowed).sum())
        return int((curve.false_rejects <= allowed).sum()) - 1  # errors rise along the cuts: take the highest cut

    def _check_enough(self, evidence: ErrorEvidence) -> None:
        """Raise an error if even zero errors would not be enough evidence."""
        exemplars, clusters, words, labels = evidence.exemplars, evidence.clusters, evidence.words, self._labels
        least = max(_FEWEST, math.ceil(round(_MODEL_SHARE / self.rate, 9)))  # clusters that the model needs
        in_clusters = clusters < exemplars
        data = f"{exemplars:,} {labels}" + (f" of {clusters:,} {words}" if in_clusters else "")
        if evidence.growth * exemplars < self._needed(evidence):
            bound = float(upper_bound(np.asarray(0), exemplars, evidence.confidence))
            raise MIVError(
                f"{self.words} cannot be shown with {data}: even with no wrong answer among them, "
                f"the true rate could be up to {bound:.2g} ({evidence.confidence:.0%} confidence). Expected at least "
                f"{self._needed(evidence):,} {labels}{f' of {least:,} {words} or more' if in_clusters else ''}. "
                f"Use more data, or a rate of {_rounded_up(bound):g} or more."
            )
        if in_clusters and evidence.growth * clusters < least:
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
            f"{self._needed(evidence):,} cannot show it whatever the difference between {evidence.words}; the "
            "threshold assumes that their mean logits are normally distributed."
        ]

    def check(self, curve: ErrorCurve) -> None:
        if self.kind == "accept":
            errors, total, verb, labels = curve.false_rejects, curve.positives, "accepts", "positives"
        else:
            errors, total, verb, labels = curve.false_accepts, curve.negatives, "rejects", "negatives"
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

    def pick(self, curve: ErrorCurve) -> int:
        return int(np.abs(curve.false_accept_rate - curve.false_reject_rate).argmin())

    def rate(self, curve: ErrorCurve) -> float:
        """The mean of both rates at the cut where they are closest."""
        cut = self.pick(curve)
        return float(curve.false_accept_rate[cut] + curve.false_reject_rate[cut]) / 2

    def check(self, curve: ErrorCurve) -> None:
        rate = self.rate(curve)
        if rate >= 0.5:
            raise MIVError(
                f"The equal error rate is {rate:.2g}, no better than a coin toss. Expected less than 0.5. Train a "
                "better verifier, and check that label 1 means a bag with something of the query's class."
            )
        super().check(curve)


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

    def pick(self, curve: ErrorCurve) -> int:
        return self._both(curve)[1]

    def pick_lower(self, curve: ErrorCurve) -> int:
        return self._both(curve)[0]

    def promised(self) -> dict[str, float]:
        return self.far.promised() | self.frr.promised()

    def notes(self, curve: ErrorCurve) -> list[str]:
        return self.far.notes(curve) + self.frr.notes(curve)

    def check(self, curve: ErrorCurve) -> None:
        self.far.check(curve)
        self.frr.check(curve)

    def _both(self, curve: ErrorCurve) -> tuple[int, int]:
        # A higher threshold accepts fewer negatives, and a lower one rejects fewer positives: if the lowest allowed
        # for the first is below the highest allowed for the second, everything between them keeps both.
        upper, lower = self.far.pick(curve), self.frr.pick(curve)
        if lower < upper:
            return lower, upper
        single = min(max(EqualErrors().pick(curve), upper), lower)
        return single, single


_FORMS = "eer, far=0.01, frr=0.05, or both as far=0.01,frr=0.05"


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
    if name == "eer" and not rest:
        return EqualErrors()
    if name not in ("far", "frr"):
        raise MIVError(f"The goal is {text!r}. Expected {_FORMS}.")
    try:
        rate = float(rest)
    except ValueError as error:
        raise MIVError(f"The goal is {text!r}: {error}. Expected {_FORMS}.") from error
    return RateAtMost("accept" if name == "far" else "reject", rate)


# The thresholds of a goal and the errors at them, each with its interval.


def point_rates(curve: ErrorCurve, goal: Goal, probability: Floats, label: Labels, cluster: Integers) -> dict[str, Any]:
    """The errors at the thresholds and the share of unsure, each with its interval, and the equal error rate."""
    upper, lower = (curve.cuts[cut] for cut in (goal.pick(curve), goal.pick_lower(curve)))
    yes, no, promised = probability >= upper, probability < lower, goal.promised()
    rates: dict[str, Any] = {}
    for name, wrong, of, evidence in (
        ("false_accept_rate", yes, label == 0, curve.of_negatives),
        ("false_reject_rate", no, label == 1, curve.of_positives),
    ):
        errors = np.asarray(wrong[of].sum())
        rates[name] = _with_interval(wrong[of], cluster[of], evidence.confidence) | {
            "errors": int(errors),
            "effective_exemplars": float(evidence.effective(errors)),
            "at_most": min(float(evidence.upper_bound(errors)), promised.get(name, 1.0)),
        }
    rates["eer"] = {"value": EqualErrors().rate(curve)}
    rates["accuracy"] = float((yes == label).mean())
    if lower < upper:
        unsure = ~yes & ~no
        rates["unsure"] = _with_interval(unsure, cluster, curve.of_negatives.confidence) | {
            "exemplars": int(unsure.sum()),
            "of_negatives": float(unsure[label == 0].mean()),
            "of_positives": float(unsure[label == 1].mean()),
        }
        right = np.where(label == 1, yes, no)[~unsure]
        rates["accuracy_of_decided"] = float(right.mean()) if len(right) else None
    return rates


def _with_interval(hits: Mask, cluster: Integers, confidence: float) -> dict[str, float]:
    low, high = rate_interval(hits, cluster, confidence)
    return {"value": float(hits.mean()), "low": low, "high": high}


# What a promise costs: the share of matches found at other rates and confidences, and with more clusters.

_CONFIDENCES = (0.5, 0.8, 0.95)
_USUAL = (0.01, 0.05, 0.1)  # false-accept rates to show for a goal without a rate
_GROWTHS = (1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)


def trade(curve: ErrorCurve, goal: Goal) -> list[dict[str, Any]]:
    """For each rate and confidence the expected error, and the share of matches found, or of the others rejected.

    ``None`` if the data are too few to promise the rate.
    """
    kinds: dict[Literal["accept", "reject"], tuple[float, ...]] = {"accept": _USUAL} if not goal.promised() else {}
    for name, rate in goal.promised().items():
        kinds["accept" if "accept" in name else "reject"] = tuple(r for r in (rate, 2 * rate) if r < 1)
    rows = []
    for kind, rates in kinds.items():
        for one in (RateAtMost(kind, rate) for rate in rates):
            for confidence in sorted({*_CONFIDENCES, curve.of_negatives.confidence}):
                row = {
                    "goal": one.words,
                    "promised": one.rate,
                    "confidence": confidence,
                    "expected": None,
                    "found": None,
                }
                with contextlib.suppress(MIVError):
                    row["expected"], row["found"] = _price(curve, one, one.pick(curve.at(confidence)))
                rows.append(row)
    return rows


def clusters_to_halve_the_price(curve: ErrorCurve, goal: Goal) -> str:
    """How many more clusters would halve what the first promised rate costs, in a sentence; "" if it costs nothing."""
    promised = next(iter(goal.promised().items()), None)
    if promised is None:
        return ""
    one = RateAtMost("accept" if "accept" in promised[0] else "reject", promised[1])
    rates = curve.false_accept_rate if one.kind == "accept" else curve.false_reject_rate
    allowed = np.flatnonzero(rates <= one.rate)
    best = _price(curve, one, int(allowed[0] if one.kind == "accept" else allowed[-1]))[1]
    evidence, found = one._evidence(curve), _price(curve, one, one.pick(curve))[1]
    if best - found < 0.02:
        return ""
    what = "matches found" if one.kind == "accept" else "others rejected"
    told = f"The promise costs {best - found:.0%} of the {what} ({found:.0%} instead of {best:.0%})"
    for growth in _GROWTHS:
        grown = curve.at(evidence.confidence, growth)
        if best - _price(curve, one, one.pick(grown))[1] <= (best - found) / 2:
            more = math.ceil((growth - 1) * evidence.clusters)
            return f"{told}; about {more:,} more {evidence.words} like these would halve that."
    return f"{told}; even {_GROWTHS[-1]:g} times as many {evidence.words} would not halve that."


def _price(curve: ErrorCurve, goal: RateAtMost, cut: int) -> tuple[float, float]:
    """The error at a cut, and the share of the other label that is decided right there."""
    rates = float(curve.false_accept_rate[cut]), float(curve.false_reject_rate[cut])
    own, other = rates if goal.kind == "accept" else rates[::-1]
    return own, 1 - other
