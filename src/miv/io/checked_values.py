"""Validated numbers, and small dataclasses as JSON objects with their name."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from miv.errors import MIVError, unknown_name

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Labels = NDArray[np.int8]
Mask = NDArray[np.bool_]


def finite_number(
    what: str, given: object, *, low: float = -math.inf, high: float = math.inf, above: float = -math.inf
) -> float:
    """Return a number from ``low`` to ``high``, and above ``above``, as a float; anything else is an error.

    >>> finite_number("threshold", 1, low=0.0, high=1.0)
    1.0
    >>> finite_number("threshold", 50, low=0.0, high=1.0)
    Traceback (most recent call last):
    miv.errors.MIVError: The threshold is 50. Expected a finite number from 0 to 1.
    """
    shown = repr(given)[:80]
    number = math.nan
    if isinstance(given, int | float) and not isinstance(given, bool):
        try:
            number = float(given)
        except OverflowError:  # JSON allows integers of any length
            shown = "a number with more than 308 digits"
    if math.isfinite(number) and low <= number <= high and number > above:
        return number
    bounds = [f" from {low:g}"] if low > -math.inf else [f" above {above:g}"] if above > -math.inf else []
    bounds += [f" to {high:g}"] if high < math.inf else []
    raise MIVError(f"The {what} is {shown}. Expected a finite number{''.join(bounds)}.")


class Tagged:
    """A dataclass with a name that identifies its type in JSON."""

    name: ClassVar[str]

    def document(self) -> dict[str, Any]:
        """Return the name and parameters as plain values, for JSON."""
        return {"name": self.name, **asdict(self)}  # type: ignore[call-overload]  # every subclass is a dataclass


TaggedType = TypeVar("TaggedType", bound=Tagged)


def from_document(document: object, kinds: Mapping[str, type[TaggedType]], what: str) -> TaggedType:
    """Return the object of one of ``kinds`` described by ``Tagged.document``; anything else is an error."""
    if not isinstance(document, dict) or not isinstance(document.get("name"), str):
        raise MIVError(f"The {what} is {str(document)[:80]!r}. Expected an object with a name.")
    parameters = dict(document)
    name = parameters.pop("name")
    if name not in kinds:
        raise unknown_name(what, name, kinds)
    try:
        return kinds[name](**parameters)
    except TypeError as error:  # a missing, extra or wrongly typed parameter
        raise MIVError(f"Invalid parameters for the {what} {name!r}: {error}.") from error
