"""Errors at every threshold, and goals: equal errors, or a bound on one or both kinds of error."""

import contextlib
import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, Literal

import numpy as np

from miv.data import csr
from miv.errors import MIVError
from miv.evaluation.clusters import ErrorEvidence, rate_interval, upper_bound
from miv.files.arrays import Floats, Integers, Labels, Mask


@dataclass(frozen=True, eq=False)
class ErrorCurve:
    """The errors at ``J`` cuts, from accepting everything to accepting nothing.

    >>> curve = ErrorCurve.of(np.array([0.2, 0.4, 0.6, 0.8]), np.array([0, 1, 0, 1]))
    >>> curve.cuts.round(2).tolist()
    [0.2, 0.3, 0.5, 0.7, 0.9]
    >>> curve.false_accepts.tolist(), curve.false_rejects.tolist()
    ([2, 1, 1, 0, 0], [0, 0, 1, 1, 2])
    """

    cuts: Floats  # (J,) increasing thresholds; an exemplar is accepted if its probability is at least the cut
    false_accepts: Integers  # (J,) accepted negatives; decreases along the cuts
    false_rejects: Integers  # (J,) rejected positives; increases along the cuts
    of_negatives: ErrorEvidence  # for the false-accept rate
    of_positives: ErrorEvidence
    below: Floats  # (J,) the highest logit that each cut rejects; -inf for the first
    above: Floats  # (J,) the lowest logit that each cut accepts; inf for the last

    @classmethod
    def of(
        cls,
        probability: Floats,
        label: Labels,
        cluster: Integers | None = None,
        words: str = "queries",
        logit: Floats | None = None,
    ) -> "ErrorCurve":
        """Count the errors of every threshold that separates two of the probabilities ``(E,)``.

        ``cluster`` ``(E,)`` is the same number for exemplars that depend on each other; ``words`` names the clusters.
        """
        if not 0 < (label == 1).sum() < len(label):
            raise MIVError(f"All {len(label)} labels are the same. A threshold needs positives and negatives.")
        cluster = np.arange(len(label)) if cluster is None else cluster
        negative, logit = label == 0, probability if logit is None else logit
        levels, place = np.unique(probability, return_inverse=True)
        below, above = np.full(len(levels) + 1, -np.inf), np.full(len(levels) + 1, np.inf)
        np.maximum.at(below, place + 1, logit)
        np.minimum.at(above, place, logit)
        counts = [csr.borders(np.bincount(place[label == value], minlength=len(levels))) for value in (0, 1)]  # (J,)
        return cls(
            _cuts(levels),
            counts[0][-1] - counts[0],
            counts[1],
            ErrorEvidence.of(logit[negative], cluster[negative], words),
            ErrorEvidence.of(-logit[~negative], cluster[~negative], words),
            below,
            above,
        )

    def at(self, confidence: float, growth: float = 1.0) -> "ErrorCurve":
        """The same errors as evidence for another confidence, or as if there were more clusters like these."""
        negatives, positives = (part.at(confidence, growth) for part in (self.of_negatives, self.of_positives))
        return replace(self, of_negatives=negatives, of_positives=positives)

    @cached_property
    def mirrored(self) -> "ErrorCurve":
        """With the labels swapped and the cuts in reverse, so that its false accepts are our false rejects."""
        return ErrorCurve(
            -self.cuts[::-1],
            self.false_rejects[::-1],
            self.false_accepts[::-1],
            self.of_positives,
            self.of_negatives,
            -self.above[::-1],
            -self.below[::-1],
        )

    @property
    def negatives(self) -> int:
        return self.of_negatives.exemplars

    @property
    def positives(self) -> int:
        return self.of_positives.exemplars

    @property
    def false_accept_rate(self) -> Floats:
        """``(J,)``."""
        return np.asarray(self.false_accepts / self.negatives)

    @property
    def false_reject_rate(self) -> Floats:
        """``(J,)``."""
        return np.asarray(self.false_rejects / self.positives)


def _cuts(levels: Floats) -> Floats:
    """Halfway between neighbours; the first accepts everything, the last nothing."""
    edges = np.append(levels, max(1.0, np.nextafter(levels[-1], 2.0)))  # (J,) the lowest that each cut accepts
    middle = (levels + edges[1:]) / 2
    middle = np.where(middle > levels, middle, edges[1:])  # adjacent floats have no number between them
    return np.concatenate([levels[:1], middle])


# Goals.

_FEWEST = 3  # clusters
_OBSERVED = 0.5  # of a rate, if there are nearly enough clusters (benchmarks/promises.py)
_MODEL_SHARE = 0.5  # least product of the rate and the number of clusters (benchmarks/promises.py)
_REMEDY = "more data for validation (a larger split has --validation 0.34)"


@dataclass(frozen=True)
class Bound:
    r"""At most this share of negatives is accepted, or of positives rejected, with the confidence of the curve.

    Errors of the other kind are as few as possible. If the threshold is at the ``k + 1``-th most extreme of ``n``
    independent exemplars, the true error rate is below the Clopper–Pearson bound for ``k`` errors of ``n`` with that
    confidence (Wilks 1941). Exemplars of one cluster count as fewer; see ``ErrorEvidence``. ``k`` is the largest number
    of errors with a bound not above the rate.

    With as many clusters as a rate :math:`\alpha` needs independent exemplars, :math:`N`, no errors at all are always
    enough evidence: one exemplar per cluster would be. With fewer, :math:`G`, the threshold respects two more limits:
    that of a ``ClusterModel``, and the mean error rate of the clusters may be at most
    :math:`\alpha G / (2 N)`, because the model does not know of rare classes that are far worse.
    """

    kind: Literal["accept", "reject"]
    rate: float

    @property
    def words(self) -> str:
        return f"false-{self.kind} rate <= {self.rate:g}"

    @property
    def _labels(self) -> tuple[str, str]:
        """The exemplars with this kind of error, and the others."""
        return ("negatives", "positives") if self.kind == "accept" else ("positives", "negatives")

    def _side(self, curve: ErrorCurve) -> ErrorCurve:
        """The curve with errors of this kind as its false accepts."""
        return curve if self.kind == "accept" else curve.mirrored

    def _needed(self, evidence: ErrorEvidence) -> int:
        """The number of independent exemplars that can show the rate, if none is wrong."""
        return math.ceil(math.log(1 - evidence.confidence) / math.log1p(-self.rate))

    def _needs_model(self, evidence: ErrorEvidence) -> bool:
        """Whether there are clusters, and fewer than any difference between them would need."""
        return evidence.growth * evidence.clusters < min(evidence.exemplars, self._needed(evidence))

    def pick(self, curve: ErrorCurve) -> int:
        """Return the index of the cut."""
        side = self._side(curve)
        cut, last = self._counted(side), len(side.cuts) - 1
        if self._needs_model(side.of_negatives):
            # A cut is certainly above the limit if it rejects everything up to it.
            cut = max(cut, min(int(np.searchsorted(side.below, side.of_negatives.limit(self.rate))), last))
        return cut if side is curve else last - cut

    def _counted(self, side: ErrorCurve) -> int:
        """The lowest cut that counted errors allow."""
        evidence = side.of_negatives
        self._check_enough(evidence)
        limits = [(evidence.upper_bound(np.arange(math.floor(self.rate * evidence.exemplars) + 1)), self.rate)]
        if self._needs_model(evidence):
            share = evidence.growth * evidence.clusters / self._needed(evidence)
            limits.append((evidence.rates / evidence.clusters, _OBSERVED * self.rate * share))
        allowed = min(max(int(np.searchsorted(bounds, most, side="right")) - 1, 0) for bounds, most in limits)
        return int((side.false_accepts > allowed).sum())

    def _check_enough(self, evidence: ErrorEvidence) -> None:
        """Raise an error if even zero errors would not be enough evidence."""
        exemplars, clusters, words, labels = evidence.exemplars, evidence.clusters, evidence.words, self._labels[0]
        least = max(_FEWEST, math.ceil(round(_MODEL_SHARE / self.rate, 9)))  # clusters that the model needs
        in_clusters = clusters < exemplars
        data = f"{exemplars:,} {labels}" + (f" of {clusters:,} {words}" if in_clusters else "")
        if evidence.growth * exemplars < self._needed(evidence):
            bound = float(upper_bound(np.asarray(0), exemplars, evidence.confidence))
            raise MIVError(
                f"{self.words} cannot be shown with {data}: even with no wrong answer among them, "
                f"the true rate could be up to {bound:.2g} ({evidence.confidence:.0%} confidence). Expected at least "
                f"{self._needed(evidence):,} {labels}{f' of {least:,} {words} or more' if in_clusters else ''}. "
                f"Use {_REMEDY}, or a rate of {rounded_up(bound):g} or more."
            )
        if in_clusters and evidence.growth * clusters < least:
            rate = f", or a rate of {rounded_up(_MODEL_SHARE / clusters):g} or more" if clusters >= _FEWEST else ""
            raise MIVError(
                f"{self.words} cannot be promised for new {words} with {data}: they say too little about how {words} "
                f"differ. Expected {labels} of at least {least:,} {words}. Use {_REMEDY}{rate}."
            )

    def notes(self, curve: ErrorCurve) -> list[str]:
        """What the promise assumes, as sentences."""
        evidence = self._side(curve).of_negatives
        if not self._needs_model(evidence):
            return []
        return [
            f"{self.words} rests on {self._labels[0]} of {evidence.clusters:,} {evidence.words}. Fewer than "
            f"{self._needed(evidence):,} cannot show it whatever the difference between {evidence.words}; the "
            "threshold follows a normal model of their mean logits, and allows few errors."
        ]

    def check(self, curve: ErrorCurve) -> None:
        """Raise an error if the verifier cannot reach the rate."""
        cut, side = self.pick(curve), self._side(curve)
        evidence, (labels, others) = side.of_negatives, self._labels
        if self.price(curve, cut)[1] > 0:
            _check_informative(self.words, curve, cut)
            return
        new, direction = "", "higher" if self.kind == "accept" else "lower"
        why = f"too many {labels} score {direction} than all of them. Train a better verifier"
        if int(side.false_rejects[self._counted(side)]) < side.positives:  # only the model forbids it
            words, new = evidence.words, f" for new {evidence.words}"
            why = f"the {evidence.clusters:,} {words} of the data differ too much for so few of them. Use {_REMEDY}"
        does = f"{self.kind}s any of the {side.positives:,} {others}"
        raise MIVError(f"No threshold with a {self.words}{new} {does}: {why}, or allow a higher rate.")

    def price(self, curve: ErrorCurve, cut: int) -> tuple[float, float]:
        """The error at a cut, and the share of the other label that is decided right there."""
        rates = float(curve.false_accept_rate[cut]), float(curve.false_reject_rate[cut])
        own, other = rates if self.kind == "accept" else rates[::-1]
        return own, 1 - other


def rounded_up(rate: float) -> float:
    """Round the rate up to two significant digits.

    >>> rounded_up(0.00993)
    0.01
    """
    scale = 10.0 ** (1 - math.floor(math.log10(rate)))
    return math.ceil(round(rate * scale, 9)) / scale


def _check_informative(words: str, curve: ErrorCurve, cut: int) -> None:
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
        f"The threshold for {words} {outcome}, no better than chance. Train a better verifier, or choose another goal."
    )


@dataclass(frozen=True)
class Goal:
    """Bounds of error rates, first that of false accepts; without any, the errors should be equal.

    With two bounds there are two thresholds, and the decision is unsure between them. If one threshold keeps both
    rates, it is the one with the most equal errors.
    """

    bounds: tuple[Bound, ...] = ()

    @property
    def words(self) -> str:
        return ", ".join(bound.words for bound in self.bounds) or "equal error rate"

    def cuts(self, curve: ErrorCurve) -> tuple[int, int]:
        """Return the index of the cut below which the decision is no, and of that from which it is yes."""
        picked = [bound.pick(curve) for bound in self.bounds] or [0, len(curve.cuts) - 1]
        # A higher threshold accepts fewer negatives, and a lower one rejects fewer positives: if the lowest allowed
        # for the first is below the highest allowed for the second, everything between them keeps both.
        first, last = picked[0], picked[-1]
        single = min(max(equal_errors(curve)[0], first), last)
        return (last, first) if last < first else (single, single)

    def notes(self, curve: ErrorCurve) -> list[str]:
        """What the promises assume, as sentences."""
        return [note for bound in self.bounds for note in bound.notes(curve)]

    def check(self, curve: ErrorCurve) -> None:
        """Raise an error if the data cannot support the goal, or the verifier cannot reach it."""
        for bound in self.bounds:
            bound.check(curve)
        if self.bounds:
            return
        cut, rate = equal_errors(curve)
        if rate >= 0.5:
            raise MIVError(
                f"The equal error rate is {rate:.2g}, no better than a coin toss. Expected less than 0.5. Train a "
                "better verifier, and check that label 1 means a bag with something of the query's class."
            )
        _check_informative(self.words, curve, cut)


def equal_errors(curve: ErrorCurve) -> tuple[int, float]:
    """The cut where both rates are closest, and the mean of both there."""
    accepts, rejects = curve.false_accept_rate, curve.false_reject_rate
    cut = int(np.abs(accepts - rejects).argmin())
    return cut, float(accepts[cut] + rejects[cut]) / 2


_KINDS: dict[str, Literal["accept", "reject"]] = {"far": "accept", "frr": "reject"}


def parse_goal(text: str) -> Goal:
    """Parse a goal in the form of the command line.

    >>> parse_goal("far=0.01,frr=0.05").words
    'false-accept rate <= 0.01, false-reject rate <= 0.05'
    """
    if text.strip() == "eer":
        return Goal()
    parts = [part.strip().partition("=") for part in text.split(",")]
    with contextlib.suppress(KeyError, ValueError):
        bounds = {_KINDS[name]: Bound(_KINDS[name], float(rate)) for name, _, rate in parts}
        if len(bounds) == len(parts) and all(0 < bound.rate < 1 for bound in bounds.values()):
            return Goal(tuple(bounds[kind] for kind in _KINDS.values() if kind in bounds))
    expected = "eer, far=0.01, frr=0.05, or both as far=0.01,frr=0.05, with rates between 0 and 1"
    raise MIVError(f"The goal is {text!r}. Expected {expected}.")


def point_rates(curve: ErrorCurve, goal: Goal, probability: Floats, label: Labels, cluster: Integers) -> dict[str, Any]:
    """The errors at the thresholds and the share of unsure, each with its interval, and the equal error rate."""
    lower, upper = (curve.cuts[cut] for cut in goal.cuts(curve))
    yes, no = probability >= upper, probability < lower
    promised = {str(bound.kind): bound.rate for bound in goal.bounds}
    rates: dict[str, Any] = {}
    for kind, wrong, value, evidence in (("accept", yes, 0, curve.of_negatives), ("reject", no, 1, curve.of_positives)):
        of = label == value
        errors = np.asarray(wrong[of].sum())
        rates[f"false_{kind}_rate"] = _with_interval(wrong[of], cluster[of], evidence.confidence) | {
            "errors": int(errors),
            "effective_exemplars": float(evidence.effective(errors)),
            "at_most": min(float(evidence.upper_bound(errors)), promised.get(kind, 1.0)),
        }
    rates["eer"] = {"value": equal_errors(curve)[1]}
    if lower < upper:
        unsure = ~yes & ~no
        rates["unsure"] = _with_interval(unsure, cluster, curve.of_negatives.confidence) | {
            "exemplars": int(unsure.sum()),
            "of_negatives": float(unsure[label == 0].mean()),
            "of_positives": float(unsure[label == 1].mean()),
        }
    return rates


def _with_interval(hits: Mask, cluster: Integers, confidence: float) -> dict[str, float]:
    low, high = rate_interval(hits, cluster, confidence)
    return {"value": float(hits.mean()), "low": low, "high": high}


# What a promise costs: the share of matches found at other rates and confidences, and with more clusters.

_CONFIDENCES = (0.5, 0.8, 0.95)
_USUAL = tuple(Bound("accept", rate) for rate in (0.01, 0.05, 0.1))  # to show for a goal without a rate
_GROWTHS = (1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)


def trade(curve: ErrorCurve, goal: Goal) -> list[dict[str, Any]]:
    """For each rate and confidence the expected error and the share found; ``None`` if the data are too few."""
    wider = [replace(bound, rate=rate) for bound in goal.bounds for rate in (bound.rate, 2 * bound.rate) if rate < 1]
    rows = []
    for bound, confidence in product(wider or _USUAL, sorted({*_CONFIDENCES, curve.of_negatives.confidence})):
        expected = found = None
        with contextlib.suppress(MIVError):
            expected, found = bound.price(curve, bound.pick(curve.at(confidence)))
        row = {"goal": bound.words, "promised": bound.rate, "confidence": confidence}
        rows.append(row | {"expected": expected, "found": found})
    return rows


def clusters_to_halve_the_price(curve: ErrorCurve, goal: Goal) -> str:
    """How many more clusters would halve what the first promised rate costs, in a sentence; "" if it costs nothing."""
    if not goal.bounds:
        return ""
    bound = goal.bounds[0]
    side = bound._side(curve)
    evidence = side.of_negatives
    best = float(1 - side.false_reject_rate[side.false_accept_rate <= bound.rate].min())
    found = bound.price(curve, bound.pick(curve))[1]
    if best - found < 0.02:
        return ""
    what = "matches found" if bound.kind == "accept" else "others rejected"
    grown = ((growth, bound.price(curve, bound.pick(curve.at(evidence.confidence, growth)))[1]) for growth in _GROWTHS)
    enough = next((growth for growth, share in grown if best - share <= (best - found) / 2), None)
    words = f"even {_GROWTHS[-1]:g} times as many {evidence.words} would not halve that"
    if enough is not None:
        more = math.ceil((enough - 1) * evidence.clusters)
        words = f"about {more:,} more {evidence.words} like these would halve that"
    return f"The promise costs {best - found:.0%} of the {what} ({found:.0%} instead of {best:.0%}); {words}."
