"""The operating point of a verifier: the scaling of logits, one or two thresholds, and the rule for witnesses."""

import json
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miv.data import csr
from miv.errors import MIVError, unknown_name
from miv.files.arrays import Floats, Mask
from miv.files.json import Tagged, finite_number, from_document, read_json_object, write_json
from miv.verifier.scalings import SCALINGS, Identity, Scaling, Temperature

Decision = Literal["yes", "no", "unsure"]


def decisions_of(yes: NDArray[np.bool_], no: NDArray[np.bool_]) -> NDArray[np.str_]:
    """Return ``(B,)`` decisions of bags that are accepted, rejected, or neither.

    >>> decisions_of(np.array([True, False, False]), np.array([False, True, False])).tolist()
    ['yes', 'no', 'unsure']
    """
    return np.where(yes, "yes", np.where(no, "no", "unsure"))


def threshold_words(threshold: float, lower: float | None) -> str:
    """The thresholds in words.

    >>> threshold_words(0.8, None), threshold_words(0.8, 0.25)
    ('threshold 0.800', 'thresholds 0.250 and 0.800')
    """
    return f"threshold {threshold:.3f}" if lower is None else f"thresholds {lower:.3f} and {threshold:.3f}"


# The source of the shares that are called attention below; see ``miv.verifier.explain``.
WitnessesBy = Literal["attention", "alone", "leave_one_out"]

_LEAST = 1e-9  # of attention: with `baseline`, all but one are 0, and the probability of the bag must still count


class WitnessRule(Tagged, ABC):
    """Decides for every instance of every bag; a bag may have no witness."""

    @abstractmethod
    def chosen(self, probability: ArrayLike, accepted: ArrayLike, attention: ArrayLike, size: ArrayLike) -> Mask:
        """Decide for some instances ``(N,)``, given what ``witnesses`` takes and the size of the bag of each."""

    def witnesses(self, probability: ArrayLike, accepted: ArrayLike, attention: ArrayLike, ptr: ArrayLike) -> Mask:
        """Decide for every instance ``(T,)``, given the probabilities of bags ``(B,)`` and which are accepted."""
        ptr = np.asarray(ptr)
        of_bags = (np.asarray(probability, np.float64), np.asarray(accepted, bool), np.diff(ptr))
        probabilities, are_accepted, sizes = (csr.to_rows(column, ptr) for column in of_bags)
        return self.chosen(probabilities, are_accepted, attention, sizes)


@dataclass(frozen=True)
class StatedRule(WitnessRule):
    r"""In an accepted bag of :math:`N`, the instances with :math:`a_n N \ge \min(factor, N)`.

    :math:`a_n N` is 1 for even attention and at most :math:`N`. A rejected bag has no witness. The rule is for data
    without known witnesses and has no guarantee.

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
    like the calibration data. The score falls with the probability of the bag, so a likely negative bag has no witness,
    and a narrowly rejected bag may show candidates.

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
        epsilon = finite_number("epsilon of the witness rule", self.epsilon, low=0.0, high=1.0)
        object.__setattr__(self, "epsilon", epsilon)
        if self.by not in get_args(WitnessesBy):
            raise unknown_name("kind of shares", str(self.by), get_args(WitnessesBy))

    def chosen(self, probability: ArrayLike, accepted: ArrayLike, attention: ArrayLike, size: ArrayLike) -> Mask:
        return np.asarray(_scores(probability, attention, size) >= self.threshold)


def witness_score(probability: ArrayLike, attention: ArrayLike, ptr: ArrayLike) -> Floats:
    r"""Return ``(T,)`` scores of at least 0: :math:`s_n = p \, a_n N`.

    :math:`a_n N` is 1 for an even share in bags of every size :math:`N`, so large and small bags are covered evenly.

    >>> witness_score([0.5], attention=[0.6, 0.3, 0.1], ptr=[0, 3]).round(3).tolist()
    [0.9, 0.45, 0.15]
    """
    ptr = np.asarray(ptr)
    each, size = (csr.to_rows(column, ptr) for column in (np.asarray(probability, np.float64), np.diff(ptr)))
    return _scores(each, attention, size)


def _scores(probability: ArrayLike, attention: ArrayLike, size: ArrayLike) -> Floats:
    attention = np.maximum(np.asarray(attention, np.float64), _LEAST)
    return np.asarray(np.asarray(probability, np.float64) * np.asarray(size) * attention)


RULES: dict[str, type[WitnessRule]] = {kind.name: kind for kind in (StatedRule, ConformalRule)}


_FAR = 2  # times as large, or as small, as the bags of calibration
_VAGUE = 0.5  # width of an interval that says nothing


def _span(entry: Any) -> tuple[int, int] | None:
    """The least and the greatest number, from a file; ``None`` for anything else."""
    is_span = isinstance(entry, list) and len(entry) == 2 and all(isinstance(number, int) for number in entry)
    return (entry[0], entry[1]) if is_span and 0 < entry[0] <= entry[1] else None


def _between(least: int, most: int) -> str:
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def in_ten(rate: float) -> str:
    """A rate in words.

    >>> in_ten(0.44), in_ten(0.031), in_ten(0.0)
    ('4 in 10', '3 in 100', 'fewer than 1 in 100')
    """
    if rate >= 0.095:
        return f"{round(10 * rate)} in 10"
    return f"{round(100 * rate)} in 100" if rate >= 0.005 else "fewer than 1 in 100"


OPERATING_POINT_NAME = "operating_point.json"
_FORMAT = "miv-operating-point"
_LOWER = "lower_threshold"
_KEYS = {"format", "format_version", "goal", "threshold", "scaling", "witness_rule", "measured"}
_ALWAYS_NO = float(np.nextafter(1.0, 2.0))  # the smallest threshold that no probability reaches
_REMEDY = "Delete the file, then run `miv calibrate` again, or use the verifier with the default operating point."


@dataclass(frozen=True)
class OperatingPoint:
    """Turns the logits and the attention of a verifier into decisions.

    Args:
        scaling: converts logits to probabilities.
        threshold: the verdict is yes if the probability is at least this; from 0 to the next number after 1.
        goal: the goal of the threshold, in words.
        witness_rule: chooses the witnesses of a bag.
        measured: what calibration measured on validation data, as plain values.
        lower_threshold: the decision is no below this, and unsure from here up to the threshold; ``None`` if there is
            one threshold, and no answer is unsure.

    >>> point = OperatingPoint.default()
    >>> probability = point.probability([2.0, -1.0])
    >>> point.verdict(probability).tolist()
    [True, False]
    >>> point.witnesses(probability, attention=[0.9, 0.1, 0.5, 0.5], ptr=[0, 2, 4]).tolist()
    [True, False, False, False]
    >>> OperatingPoint(threshold=0.8, lower_threshold=0.3).decide([0.9, 0.5, 0.2]).tolist()
    ['yes', 'unsure', 'no']
    """

    scaling: Scaling = field(default_factory=Identity)
    threshold: float = 0.5
    goal: str = "default"
    witness_rule: WitnessRule = field(default_factory=StatedRule)
    measured: dict[str, Any] = field(default_factory=dict)
    lower_threshold: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", finite_number("threshold", self.threshold, low=0.0, high=_ALWAYS_NO))
        if not isinstance(self.goal, str) or not isinstance(self.measured, dict):
            raise MIVError("The goal is not a text, or what was measured is not an object.")
        try:
            json.dumps(self.measured, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise MIVError(
                f"What was measured has a number that is NaN or infinite, or no plain value ({error})."
            ) from error
        if self.lower_threshold is not None:
            lower = finite_number("lower threshold", self.lower_threshold, low=0.0, high=self.threshold)
            object.__setattr__(self, _LOWER, lower)

    @classmethod
    def default(cls) -> "OperatingPoint":
        """Return the operating point of an uncalibrated verifier."""
        return cls()

    @property
    def is_default(self) -> bool:
        """Whether the verifier is uncalibrated; training may have set a temperature, which changes no verdict."""
        temperature = self.scaling if isinstance(self.scaling, Temperature) else Identity()
        return self == OperatingPoint(temperature)

    @property
    def witnesses_by(self) -> WitnessesBy | None:
        """The method whose shares the witness rule was calibrated on; ``None`` if it takes any."""
        return self.witness_rule.by if isinstance(self.witness_rule, ConformalRule) else None

    def for_witnesses_by(self, method: str) -> "OperatingPoint":
        """Return the operating point for shares by a method: with the default rule if its own is for another method.

        >>> point = OperatingPoint(witness_rule=ConformalRule(0.3, epsilon=0.1, by="attention"))
        >>> point.for_witnesses_by("alone").witness_rule
        StatedRule(factor=1.5)
        """
        if self.witnesses_by in (None, method):
            return self
        measured = {name: value for name, value in self.measured.items() if name != "witnesses"}
        return replace(self, witness_rule=StatedRule(), measured=measured)

    def probability(self, logit: ArrayLike) -> Floats:
        """Return the calibrated probabilities of logits ``(B,)``."""
        return self.scaling.probability(logit)

    def verdict(self, probability: ArrayLike) -> NDArray[np.bool_]:
        """Return ``(B,)`` bool: true if the calibrated probability is at least the threshold."""
        return np.asarray(np.asarray(probability) >= self.threshold)

    def rejected(self, probability: ArrayLike) -> NDArray[np.bool_]:
        """Return ``(B,)`` bool: true if the decision is no."""
        lower = self.threshold if self.lower_threshold is None else self.lower_threshold
        return np.asarray(np.asarray(probability) < lower)

    def decide(self, probability: ArrayLike) -> NDArray[np.str_]:
        """Return ``(B,)`` decisions: ``yes``, ``no`` or ``unsure``."""
        return decisions_of(self.verdict(probability), self.rejected(probability))

    def witnesses(self, probability: ArrayLike, attention: ArrayLike, ptr: ArrayLike) -> NDArray[np.bool_]:
        """Return ``(T,)`` bool: which instances of the bags with borders ``ptr`` ``(B + 1,)`` are witnesses.

        A conformal threshold may be out of reach in a small bag; an accepted one then has its best instance.
        """
        shares, borders = np.asarray(attention), np.asarray(ptr)
        marked = self.witness_rule.witnesses(probability, ~self.rejected(probability), shares, borders)
        if isinstance(self.witness_rule, ConformalRule):
            best = np.lexsort((-shares, csr.owners(borders)))[borders[:-1]]
            marked[best] |= self.verdict(probability) & ~csr.bag_any(marked, borders)
        return marked

    def warnings(self, bag: int, references: int = 1) -> tuple[str, ...]:
        """Why the probability and the rates may not hold for a bag of this size and so many references.

        >>> OperatingPoint(goal="equal error rate", measured={"data": {"bag_sizes": [3, 9]}}).warnings(bag=20)
        ('Calibrated on bags of 3 to 9, this one has 20: its error rates may not hold here.',)
        """
        if self.is_default:
            return ("Not calibrated: how often the answer is wrong is unknown. `miv calibrate` measures it.",)
        data = self.measured.get("data")
        spans = [_span(data.get(key)) if isinstance(data, dict) else None for key in ("bag_sizes", "references")]
        sizes, counts = (None if span is None else _between(*span) for span in spans)
        texts = []
        if spans[0] is not None and (bag * _FAR < spans[0][0] or bag > _FAR * spans[0][1]):
            texts.append(f"Calibrated on bags of {sizes}, this one has {bag:,}: its error rates may not hold here.")
        if spans[1] is not None and not spans[1][0] <= references <= spans[1][1]:
            things = "reference" if counts == "1" else "references"
            texts.append(
                f"Calibrated on {counts} {things}, this query has {references:,}: its error rates may not hold here."
            )
        return tuple(texts)

    def chance_of_error(self, decision: Decision) -> str:
        """How often such an answer is wrong, in a sentence; "" if it was not measured.

        >>> measured = {"false_reject_rate": {"value": 0.41, "low": 0.3, "high": 0.52}}
        >>> OperatingPoint(measured=measured).chance_of_error("no")
        'On the calibration data, 4 in 10 true matches are missed.'
        """
        name, what = {
            "yes": ("false_accept_rate", "bags without a match are accepted"),
            "no": ("false_reject_rate", "true matches are missed"),
        }.get(decision, ("", ""))
        rate = self.measured.get(name)
        keys = ("value", "low", "high", "at_most")
        value, low, high, bound = (rate.get(key) for key in keys) if isinstance(rate, dict) else (None,) * 4
        if not (isinstance(value, float) and isinstance(low, float) and isinstance(high, float)):
            return ""
        if not 0 <= low <= value <= high <= 1:
            return ""
        if high - low > _VAGUE:
            # A goal may promise a bound even with few data.
            if not isinstance(bound, float) or not 0 < bound <= _VAGUE:
                return f"The calibration data are too few to say how many {what}."
            return f"With this threshold, at most {in_ten(bound)} {what}."
        return f"On the calibration data, {in_ten(value)} {what}."

    def document(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        document = {
            "format": _FORMAT,
            "format_version": 1 if self.lower_threshold is None else 2,
            "goal": self.goal,
            "threshold": self.threshold,
            "scaling": self.scaling.document(),
            "witness_rule": self.witness_rule.document(),
            "measured": self.measured,
        }
        return document if self.lower_threshold is None else document | {_LOWER: self.lower_threshold}

    def save(self, folder: Path | str) -> None:
        """Write the file to the folder of a verifier, atomically."""
        write_json(Path(folder) / OPERATING_POINT_NAME, self.document())

    @classmethod
    def load(cls, folder: Path | str) -> "OperatingPoint":
        """Read the file in a verifier's folder, or return the default if there is none; a damaged file is an error."""
        path = Path(folder) / OPERATING_POINT_NAME
        if not os.path.lexists(path):  # a link to nothing is damage, not the default
            return cls()
        document = read_json_object(path, _REMEDY)
        version = document.get("format_version")
        if document.get("format") != _FORMAT or version not in (1, 2):
            raise MIVError(f'{path} has no "format": "{_FORMAT}" of version 1 or 2. {_REMEDY}')
        keys = _KEYS if version == 1 else {*_KEYS, _LOWER}  # which older versions would ignore
        if set(document) != keys:
            raise MIVError(f"{path} has the keys {sorted(document)}. Expected {sorted(keys)}. {_REMEDY}")
        try:
            return cls(
                from_document(document["scaling"], SCALINGS, "scaling"),
                document["threshold"],
                document["goal"],
                from_document(document["witness_rule"], RULES, "witness rule"),
                document["measured"],
                document.get(_LOWER),
            )
        except MIVError as error:
            raise MIVError(f"{path} is damaged: {error} {_REMEDY}") from error
