"""From logits to probabilities: scalings that preserve the order of exemplars."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from miv.errors import MIVError
from miv.files.arrays import Floats
from miv.files.json import Tagged, finite_number


class Scaling(Tagged, ABC):
    """An increasing function from logits to probabilities."""

    @abstractmethod
    def probability(self, logit: ArrayLike) -> Floats:
        """Return the probabilities of logits, in the same shape."""


@dataclass(frozen=True)
class Identity(Scaling):
    """The sigmoid of the logit, without scaling.

    >>> Identity().probability([0.0, 2.0]).round(2).tolist()
    [0.5, 0.88]
    """

    name: ClassVar[str] = "none"

    def probability(self, logit: ArrayLike) -> Floats:
        return _sigmoid(np.asarray(logit, np.float64))


@dataclass(frozen=True)
class Temperature(Scaling):
    r"""The sigmoid of :math:`z / T` (Guo et al. 2017): a temperature above 1 makes all answers less confident.

    >>> Temperature(2.0).probability([0.0, 2.0]).round(2).tolist()
    [0.5, 0.73]
    """

    temperature: float
    name: ClassVar[str] = "temperature"

    def __post_init__(self) -> None:
        object.__setattr__(self, "temperature", finite_number("temperature", self.temperature, above=0.0))

    def probability(self, logit: ArrayLike) -> Floats:
        return _sigmoid(np.asarray(logit, np.float64) / self.temperature)


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
        object.__setattr__(self, "slope", finite_number("slope", self.slope, above=0.0))
        object.__setattr__(self, "offset", finite_number("offset", self.offset))

    def probability(self, logit: ArrayLike) -> Floats:
        return _sigmoid(self.slope * np.asarray(logit, np.float64) + self.offset)


@dataclass(frozen=True)
class Isotonic(Scaling):
    """Linear interpolation between increasing points, constant before the first and after the last.

    Args:
        logits: ``(K,)``, increasing.
        probabilities: ``(K,)``, increasing, from 0 to 1.

    >>> Isotonic(logits=(-1.0, 1.0), probabilities=(0.2, 0.8)).probability([-9.0, 0.0, 9.0]).tolist()
    [0.2, 0.5, 0.8]
    """

    logits: tuple[float, ...]
    probabilities: tuple[float, ...]
    name: ClassVar[str] = "isotonic"

    def __post_init__(self) -> None:
        for field in ("logits", "probabilities"):
            points = tuple(finite_number(f"point among the {field}", point) for point in getattr(self, field))
            if len(points) < 1 or not all(np.diff(points) > 0):
                raise MIVError(f"The {field} of an isotonic scaling do not increase: {str(points)[:80]}.")
            object.__setattr__(self, field, points)  # JSON gives lists
        if len(self.logits) != len(self.probabilities):
            raise MIVError(f"There are {len(self.logits)} logits and {len(self.probabilities)} probabilities.")
        if not 0 <= self.probabilities[0] <= self.probabilities[-1] <= 1:
            raise MIVError(f"The probabilities go from {self.probabilities[0]} to {self.probabilities[-1]}.")

    def probability(self, logit: ArrayLike) -> Floats:
        z = np.asarray(logit, np.float64)
        next_point = np.minimum(np.searchsorted(self.logits, z, side="right"), len(self.logits) - 1)
        # Rounding may lift a line above its end point, and so swap the order of two logits.
        return np.minimum(np.interp(z, self.logits, self.probabilities), np.asarray(self.probabilities)[next_point])


SCALINGS: dict[str, type[Scaling]] = {kind.name: kind for kind in (Identity, Temperature, Platt, Isotonic)}


def _sigmoid(logit: Floats) -> Floats:
    from scipy.special import expit  # not at the top: the import takes a quarter of a second

    return np.asarray(expit(logit))
