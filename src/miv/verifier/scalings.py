"""From logits to probabilities: scalings that preserve the order of exemplars."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

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


SCALINGS: dict[str, type[Scaling]] = {kind.name: kind for kind in (Identity, Temperature, Platt)}


def _sigmoid(logit: Floats) -> Floats:
    from scipy.special import expit  # not at the top: the import takes a quarter of a second

    return np.asarray(expit(logit))
