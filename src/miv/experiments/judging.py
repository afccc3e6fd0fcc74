"""Judge a claim: compare what its contrasts must show with what they do show."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from miv.experiments.comparison import CellEvidence
from miv.experiments.contrasts import Compared, Contrast, compare_all, p_text
from miv.experiments.paired import Estimate, holm

Judgement = Literal["holds", "does not hold", "cannot be told"]
HOLDS: Judgement = "holds"
FAILS: Judgement = "does not hold"
UNKNOWN: Judgement = "cannot be told"
LEVEL = 0.05

# What counts as no difference. The smallest lead that the paper calls sizeable is 0.022 (CAP-VEMA on FEVER, AUROC).
MARGIN = 0.02

_NAMED = 4  # contrasts that a reason names
_LISTED = 12  # contrasts that a claim lists


@dataclass(frozen=True)
class Assertion:
    """A claim of the paper and our judgement.

    Args:
        name: a short name.
        statement: what the paper says, and how it is judged.
        judgement: what our figures say.
        reason: the reason, in one sentence.
        numbers: the evidence, one per line.
        weakest: the contrast that shows the claim least; ``None`` if the contrasts have no values.
        effects: the values of all contrasts.
    """

    name: str
    statement: str
    judgement: Judgement
    reason: str
    numbers: list[str] = field(default_factory=list)
    weakest: Compared | None = field(default=None, repr=False)
    effects: tuple[float, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Question:
    """What every contrast of a claim must show.

    Args:
        all_are: what all contrasts are if the claim holds, in words.
        shown: the p-value that is small if a contrast supports the claim.
        refuted: the p-value that is small if a contrast shows the opposite.
        is_refuted: what such an opposite contrast is, in words.
        p_of_what: the null hypothesis of ``shown``, if it is not a difference of 0.
    """

    all_are: str
    shown: Callable[[Estimate], float]
    refuted: Callable[[Estimate], float]
    is_refuted: str
    p_of_what: str = ""

    def line(self, one: Compared) -> str:
        """A contrast, its value and its p-values."""
        if not self.p_of_what:
            return str(one)
        return f"{str(one).removesuffix(')')}; {p_text(self.shown(one.value))} {self.p_of_what})"


ABOVE = Question(
    all_are="above 0",
    shown=lambda value: value.p if value.value > 0 else 1.0,
    refuted=lambda value: value.p if value.value < 0 else 1.0,
    is_refuted="significantly below 0",
)
NOT_BELOW = Question(
    all_are=f"above −{MARGIN}",
    shown=lambda value: value.p_above(-MARGIN),
    refuted=lambda value: min(1.0, 2 * value.p_below(-MARGIN)),
    is_refuted=f"significantly below −{MARGIN}",
    p_of_what=f"for −{MARGIN} or less",
)
WITHIN = Question(
    all_are=f"between −{MARGIN} and {MARGIN}",
    shown=lambda value: max(value.p_above(-MARGIN), value.p_below(MARGIN)),  # two one-sided tests
    refuted=lambda value: min(1.0, 2 * min(value.p_above(MARGIN), value.p_below(-MARGIN))),
    is_refuted=f"significantly more than {MARGIN}",
    p_of_what=f"for {MARGIN} or more to either side",
)


def judge(
    name: str, statement: str, evidence: CellEvidence, contrasts: Sequence[Contrast], question: Question
) -> Assertion:
    """Judge a claim that says the same about all its contrasts.

    The claim holds if every contrast is significant. This needs no correction: that all pass by accident is less likely
    than that one does. A single contrast that refutes it needs Holm's correction, because among many one may look so by
    accident. So do the contrasts that are shown if others are not. One round decides neither, because its error does
    not cover other training runs.
    """
    compared = compare_all(evidence, contrasts)
    if isinstance(compared, str):
        return Assertion(name, statement, UNKNOWN, compared)
    weakest_first = sorted(compared, key=lambda one: _evidence(one, question))
    listed = weakest_first[:_LISTED] if len(compared) > _LISTED else compared
    numbers = [question.line(one) for one in listed]
    if len(compared) > _LISTED:
        numbers.insert(0, f"The {_LISTED} of {len(compared)} with the weakest evidence:")
    effects = tuple(one.value.value for one in compared)
    return Assertion(name, statement, *_judge(compared, question), numbers, weakest_first[0], effects)


def _evidence(one: Compared, question: Question) -> tuple[float, float]:
    """How well a contrast shows the claim; of those that do not show it at all, how little it speaks against it."""
    # Without an error there is no p, and nothing is shown.
    shown, refuted = (2.0 if math.isnan(p) else p for p in (question.shown(one.value), question.refuted(one.value)))
    return -shown, refuted


def _judge(compared: Sequence[Compared], question: Question) -> tuple[Judgement, str]:
    corrected = holm([question.refuted(one.value) for one in compared])
    refuting = [one for one, p in zip(compared, corrected, strict=True) if p < LEVEL]
    firmly = [one for one in refuting if one.value.rounds > 1]
    if firmly:
        return FAILS, f"{question.is_refuted.capitalize()}: {_names(firmly)}."
    if refuting:
        return UNKNOWN, f"{question.is_refuted.capitalize()}, but in one round only: {_names(refuting)}."
    shown = [question.shown(one.value) for one in compared]
    if not all(p < LEVEL for p in shown):
        unshown = [one for one, p in zip(compared, holm(shown), strict=True) if not p < LEVEL]
        return UNKNOWN, f"Not shown to be {question.all_are}: {_names(unshown)}."
    single = [one for one in compared if one.value.rounds == 1]
    if single:
        return UNKNOWN, (
            f"All are {question.all_are} (p < {LEVEL}), but there is only one round of {_names(single)}. Its error "
            "covers exemplars, but not other training runs."
        )
    return HOLDS, f"All are {question.all_are} (p < {LEVEL} each)."


def _names(some: Sequence[Compared]) -> str:
    more = f" and {len(some) - _NAMED} more" if len(some) > _NAMED else ""
    return "; ".join(one.what for one in some[:_NAMED]) + more
