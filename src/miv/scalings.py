"""From logits to probabilities: scalings that never change the order of two exemplars."""

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miv.errors import MivError, unknown_name

Floats = NDArray[np.float64]


class Scaling(ABC):
    """A rising function from logits to probabilities."""

    name: ClassVar[str]

    @abstractmethod
    def probability(self, logit: ArrayLike) -> Floats:
        """Return the probabilities of logits, in the shape of these."""

    def document(self) -> dict[str, Any]:
        """Return the name and the parameters as plain values, for JSON."""
        return {"name": self.name, **asdict(self)}  # type: ignore[call-overload]  # every scaling is a dataclass


@dataclass(frozen=True)
class Identity(Scaling):
    """The sigmoid of the logit, as the verifier has it.

    >>> Identity().probability([0.0, 2.0]).round(2).tolist()
    [0.5, 0.88]
    """

    name: ClassVar[str] = "none"

    def probability(self, logit: ArrayLike) -> Floats:
        return sigmoid(logit)


@dataclass(frozen=True)
class Temperature(Scaling):
    r"""The sigmoid of :math:`z / T` (Guo et al. 2017): above 1, a temperature makes all answers less sure.

    >>> Temperature(2.0).probability([0.0, 2.0]).round(2).tolist()
    [0.5, 0.73]
    """

    temperature: float
    name: ClassVar[str] = "temperature"

    def __post_init__(self) -> None:
        _check_above_zero("temperature", self.temperature)

    def probability(self, logit: ArrayLike) -> Floats:
        return sigmoid(np.asarray(logit, np.float64) / self.temperature)


@dataclass(frozen=True)
class Platt(Scaling):
    r"""The sigmoid of :math:`a z + b` with :math:`a > 0` (Platt 1999).

    >>> Platt(slope=1.0, offset=-2.0).probability([0.0, 2.0]).round(2).tolist()
    [0.12, 0.5]
    """

    slope: float
    offset: float
    name: ClassVar[str] = "platt"

    def __post_init__(self) -> None:
        _check_above_zero("slope", self.slope)
        if not _is_finite(self.offset):
            raise MivError(f"The offset is {self.offset!r}. Expected a finite number.")

    def probability(self, logit: ArrayLike) -> Floats:
        return sigmoid(self.slope * np.asarray(logit, np.float64) + self.offset)


@dataclass(frozen=True)
class Isotonic(Scaling):
    """Straight lines between points that rise; before the first and after the last it is level.

    Args:
        logits: ``(K,)``, rising.
        probabilities: ``(K,)``, rising, from 0 to 1.

    >>> Isotonic(logits=(-1.0, 1.0), probabilities=(0.2, 0.8)).probability([-9.0, 0.0, 9.0]).tolist()
    [0.2, 0.5, 0.8]
    """

    logits: tuple[float, ...]
    probabilities: tuple[float, ...]
    name: ClassVar[str] = "isotonic"

    def __post_init__(self) -> None:
        for field in ("logits", "probabilities"):
            points = getattr(self, field)
            rises = all(_is_finite(point) for point in points) and all(np.diff(points) > 0)
            if len(points) < 1 or not rises:
                raise MivError(f"The {field} of an isotonic scaling do not rise: {str(points)[:80]}.")
            object.__setattr__(self, field, tuple(float(point) for point in points))  # JSON gives lists
        if len(self.logits) != len(self.probabilities):
            raise MivError(f"There are {len(self.logits)} logits and {len(self.probabilities)} probabilities.")
        if not 0 <= self.probabilities[0] <= self.probabilities[-1] <= 1:
            raise MivError(f"The probabilities go from {self.probabilities[0]} to {self.probabilities[-1]}.")

    def probability(self, logit: ArrayLike) -> Floats:
        return np.asarray(np.interp(np.asarray(logit, np.float64), self.logits, self.probabilities))


SCALINGS: dict[str, type[Scaling]] = {kind.name: kind for kind in (Identity, Temperature, Platt, Isotonic)}


def scaling_from(document: object) -> Scaling:
    """Return the scaling that ``Scaling.document`` described; refuse anything else."""
    if not isinstance(document, dict) or not isinstance(document.get("name"), str):
        raise MivError(f"The scaling is {str(document)[:80]!r}. Expected an object with a name.")
    parameters = dict(document)
    name = parameters.pop("name")
    if name not in SCALINGS:
        raise unknown_name("scaling", name, SCALINGS)
    try:
        return SCALINGS[name](**parameters)
    except TypeError as error:  # a parameter too few, too many, or of another type
        raise MivError(f"The parameters of the scaling {name!r} do not fit: {error}.") from error


def sigmoid(logit: ArrayLike) -> Floats:
    """Return 1 / (1 + exp(-z)) in float64 without overflow."""
    z = np.asarray(logit, np.float64)
    small = np.exp(-np.abs(z))
    return np.asarray(np.where(z >= 0, 1.0, small) / (1.0 + small))


def _is_finite(number: object) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number)


def _check_above_zero(name: str, number: object) -> None:
    if not _is_finite(number) or number <= 0:  # type: ignore[operator]
        raise MivError(f"The {name} is {number!r}. Expected a finite number above 0.")
