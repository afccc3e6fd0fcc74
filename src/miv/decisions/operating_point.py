"""The operating point of a verifier: the scaling of logits, the threshold, and the rule for witnesses."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miv.decisions.scalings import Identity, Scaling, scaling_from
from miv.decisions.witness_rules import StatedRule, WitnessRule, rule_from
from miv.errors import MIVError
from miv.io.checked_values import Floats, finite_number
from miv.io.json_files import read_json_object, write_json

OPERATING_POINT_NAME = "operating_point.json"
_FORMAT, _FORMAT_VERSION = "miv-operating-point", 1
_KEYS = {"format", "format_version", "goal", "threshold", "scaling", "witness_rule", "measured"}
_NEARLY_WHOLE = 0.8  # witness sets that hold more than this share of a bag say little
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

    >>> point = OperatingPoint.default()
    >>> probability = point.probability([2.0, -1.0])
    >>> point.verdict(probability).tolist()
    [True, False]
    >>> point.witnesses(probability, attention=[0.9, 0.1, 0.5, 0.5], ptr=[0, 2, 4]).tolist()
    [True, False, False, False]
    """

    scaling: Scaling = field(default_factory=Identity)
    threshold: float = 0.5
    goal: str = "default"
    witness_rule: WitnessRule = field(default_factory=StatedRule)
    measured: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", finite_number("threshold", self.threshold, low=0.0, high=_ALWAYS_NO))
        if not isinstance(self.goal, str) or not isinstance(self.measured, dict):
            raise MIVError("The goal is not a text, or what was measured is not an object.")

    @classmethod
    def default(cls) -> "OperatingPoint":
        """Return the operating point of an uncalibrated verifier."""
        return cls()

    @property
    def is_default(self) -> bool:
        """Whether the verifier is uncalibrated."""
        return self == OperatingPoint.default()

    @property
    def nearly_whole_sets(self) -> float | None:
        """The share of a bag that calibrated witness sets hold, if it is too large to be informative.

        It was measured on positive exemplars of the validation data. It is ``None`` if the sets hold 80 % of a bag or
        less, if as much of a bag is truly witnesses, or if it is unknown.
        """
        witnesses = self.measured.get("witnesses")
        shares = witnesses.get("shares_of_bags") if isinstance(witnesses, dict) else None
        marked, true = (shares.get("marked"), shares.get("true")) if isinstance(shares, dict) else (None, None)
        if not isinstance(marked, float) or not isinstance(true, float):
            return None
        return marked if true <= _NEARLY_WHOLE < marked else None

    def probability(self, logit: ArrayLike) -> Floats:
        """Return the calibrated probabilities of logits ``(B,)``."""
        return self.scaling.probability(logit)

    def verdict(self, probability: ArrayLike) -> NDArray[np.bool_]:
        """Return ``(B,)`` bool: true if the calibrated probability is at least the threshold."""
        return np.asarray(np.asarray(probability) >= self.threshold)

    def witnesses(self, probability: ArrayLike, attention: ArrayLike, ptr: ArrayLike) -> NDArray[np.bool_]:
        """Return ``(T,)`` bool: which instances of the bags with borders ``ptr`` ``(B + 1,)`` are witnesses."""
        return self.witness_rule.witnesses(probability, self.verdict(probability), attention, ptr)

    def document(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        return {
            "format": _FORMAT,
            "format_version": _FORMAT_VERSION,
            "goal": self.goal,
            "threshold": self.threshold,
            "scaling": self.scaling.document(),
            "witness_rule": self.witness_rule.document(),
            "measured": self.measured,
        }

    def save(self, folder: Path | str) -> None:
        """Write the file to the folder of a verifier, atomically."""
        write_json(Path(folder) / OPERATING_POINT_NAME, self.document())

    @classmethod
    def load(cls, folder: Path | str) -> "OperatingPoint":
        """Read the file in a verifier's folder, or return the default if there is none; a damaged file is an error."""
        path = Path(folder) / OPERATING_POINT_NAME
        if not os.path.lexists(path):  # a link to nothing is damage, not the default
            return cls.default()
        document = read_json_object(path, _REMEDY)
        if document.get("format") != _FORMAT or document.get("format_version") != _FORMAT_VERSION:
            raise MIVError(f'{path} has no "format": "{_FORMAT}" of version {_FORMAT_VERSION}. {_REMEDY}')
        if set(document) != _KEYS:
            raise MIVError(f"{path} has the keys {sorted(document)}. Expected {sorted(_KEYS)}. {_REMEDY}")
        try:
            return cls(
                scaling_from(document["scaling"]),
                document["threshold"],
                document["goal"],
                rule_from(document["witness_rule"]),
                document["measured"],
            )
        except MIVError as error:
            raise MIVError(f"{path} is damaged: {error} {_REMEDY}") from error
