"""Where a verifier says yes: how logits become probabilities, the threshold, and the rule for witnesses."""

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
_ALWAYS_NO = float(np.nextafter(1.0, 2.0))  # the least threshold that no probability reaches
_REMEDY = "Calibrate again with `miv calibrate`, or remove the file to go without."


@dataclass(frozen=True)
class OperatingPoint:
    """What turns the logits and the attention of a verifier into decisions.

    Args:
        scaling: makes probabilities of logits.
        threshold: the verdict is yes where the probability is at least this; from 0 to the next number after 1.
        goal: what the threshold was chosen for, in words.
        witness_rule: which instances of a bag are its witnesses.
        measured: what was measured on validation data when it was chosen, as plain values.

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
        """Return the one of a verifier that was never calibrated."""
        return cls()

    @property
    def is_default(self) -> bool:
        """Whether the verifier was never calibrated."""
        return self == OperatingPoint.default()

    @property
    def nearly_whole_sets(self) -> float | None:
        """The share of a bag that calibrated witness sets hold, where that is so much that they say little.

        It was measured on positive exemplars of the validation data, and is ``None`` where the sets hold 80 % of a bag
        or less, where as much of a bag is truly witnesses, and where it is not known.
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
        """Return ``(B,)`` bool, yes where the calibrated probability is at least the threshold."""
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
        """Write the file into the folder of a verifier, whole or not at all."""
        write_json(Path(folder) / OPERATING_POINT_NAME, self.document())

    @classmethod
    def load(cls, folder: Path | str) -> "OperatingPoint":
        """Read the file of a verifier's folder, or return the default where there is none; refuse a damaged one."""
        path = Path(folder) / OPERATING_POINT_NAME
        if not path.exists():
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
