"""Which instances are out of distribution for a verifier, by their features."""

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from miv.data import csr
from miv.errors import MIVError
from miv.files.arrays import Floats, Mask
from miv.files.atomic import whole_file
from miv.files.json import finite_number

LIMIT_NAME = "unlike.safetensors"
_FORMAT = "miv-unlike"
_REMEDY = "Delete the file, then run `miv calibrate` again, or use the verifier without it."
_SHAPES = {"mean": 1, "directions": 2, "variance": 1}
_MOST_BYTES = 64 << 20


@dataclass(frozen=True, eq=False)
class OutOfDistributionLimit:
    r"""A limit for the distance of a feature from those of the train instances.

    .. math:: d^2(x) = \sum_k \frac{(v_k^\top (x - \mu))^2}{\lambda_k} + \frac{\|r\|^2}{\lambda_0}

    is the Mahalanobis distance with ``K`` principal directions :math:`v_k`; the rest :math:`r` of a feature outside
    them has one variance :math:`\lambda_0`.

    Args:
        mean: ``(C,)``, of the train features.
        directions: ``(K, C)``, orthonormal.
        variance: ``(K,)``, along each direction.
        rest: the variance along every other direction.
        limit: the largest squared distance that is not out of distribution.
        rate: the share of instances like the training data that are beyond the limit by chance.
        measured: what calibration measured, as plain values.

    >>> mean, directions = np.zeros(3, np.float32), np.eye(1, 3, dtype=np.float32)
    >>> limit = OutOfDistributionLimit(mean, directions, np.ones(1), 0.25, 9.0, 0.01)
    >>> limit.distance(np.array([[2.0, 0.0, 0.0], [2.0, 1.0, 1.0]], np.float32)).tolist()
    [4.0, 12.0]
    """

    mean: NDArray[np.float32]
    directions: NDArray[np.float32]
    variance: Floats
    rest: float
    limit: float
    rate: float
    measured: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count, channels = self.directions.shape
        if self.mean.shape != (channels,) or self.variance.shape != (count,):
            raise MIVError(
                f"The mean is {self.mean.shape}, the directions {self.directions.shape}, the variance "
                f"{self.variance.shape}. Expected (C,), (K, C) and (K,)."
            )
        if not all(np.isfinite(part).all() for part in (self.mean, self.directions, self.variance)):
            raise MIVError("The mean, the directions or the variance contain NaN or infinity.")
        if not (self.variance > 0).all():
            raise MIVError("A variance is not positive.")
        finite_number("variance of the rest", self.rest, above=0.0)
        finite_number("limit", self.limit, low=0.0)
        finite_number("false-alarm rate", self.rate, above=0.0, high=1.0)

    @property
    def channels(self) -> int:
        """The length of a feature."""
        return len(self.mean)

    def distance(self, features: NDArray[np.float32]) -> Floats:
        """Return the squared distances ``(N,)`` of features ``(N, C)``."""
        centred = np.asarray(features, np.float64) - self.mean
        along = centred @ self.directions.T.astype(np.float64)  # (N, K)
        squared = along**2
        rest = np.maximum(np.einsum("nc,nc->n", centred, centred) - squared.sum(axis=1), 0)
        return np.asarray((squared / self.variance).sum(axis=1) + rest / self.rest)

    def is_beyond(self, features: NDArray[np.float32]) -> Mask:
        """Return ``(N,)`` bool: which features ``(N, C)`` are beyond the limit."""
        return np.asarray(self.distance(features) > self.limit)

    @property
    def fingerprint(self) -> str:
        """Equal if equal features have equal distances; the limit itself does not count."""
        digest = hashlib.sha256(repr(float(self.rest)).encode())
        for name in _SHAPES:
            digest.update(np.ascontiguousarray(getattr(self, name)).tobytes())
        return digest.hexdigest()

    def document(self) -> dict[str, Any]:
        """Return plain values without the covariance, for JSON."""
        return {"limit": self.limit, "rate": self.rate, "measured": self.measured}

    def save(self, folder: Path | str) -> None:
        """Write the file to the folder of a verifier, atomically."""
        about = {**self.document(), "rest": self.rest}
        parts = {name: np.ascontiguousarray(getattr(self, name)) for name in _SHAPES}
        with whole_file(Path(folder) / LIMIT_NAME) as temporary:
            save_file(parts, temporary, metadata={"format": _FORMAT, "about": json.dumps(about)})

    @classmethod
    def load(cls, folder: Path | str, channels: int) -> "OutOfDistributionLimit | None":
        """Read the file in a verifier's folder, if there is one; a damaged file is an error."""
        path = Path(folder) / LIMIT_NAME
        if not os.path.lexists(path):
            return None
        try:
            limit = cls._read(path)
        except (SafetensorError, OSError, ValueError, TypeError, KeyError, RecursionError, MIVError) as error:
            raise MIVError(f"{path} is damaged: {error}. {_REMEDY}") from error
        if limit.channels != channels:
            raise MIVError(f"{path} is for {limit.channels} channels, the verifier has {channels}. {_REMEDY}")
        return limit

    @classmethod
    def _read(cls, path: Path) -> "OutOfDistributionLimit":
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError("it is too large")
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != _FORMAT:
                raise ValueError(f"its format is not {_FORMAT}")
            about = json.loads(metadata["about"])
            parts = {name: file.get_tensor(name) for name in _SHAPES}
        for name, dimensions in _SHAPES.items():
            if parts[name].ndim != dimensions or parts[name].dtype.kind != "f":
                raise ValueError(f"{name} is {parts[name].dtype} {parts[name].shape}")
        if not isinstance(about, dict) or not isinstance(about["measured"], dict):
            raise TypeError("its description is not an object")
        numbers = (about["rest"], about["limit"], about["rate"])
        return cls(parts["mean"], parts["directions"], parts["variance"], *numbers, about["measured"])


_MOST_PLACES = 10  # places in a sentence


def reason_of(query: bool, bag: bool) -> str | None:
    """Why an exemplar gets no answer: the query, or the whole bag, is out of distribution."""
    if query:
        return "the query is out of distribution"
    return "every instance of the bag is out of distribution" if bag else None


@dataclass(frozen=True, eq=False)
class OutOfDistribution:
    """Instances beyond the limit of a verifier, for ``E`` exemplars with ``T`` targets.

    Args:
        query: ``(E,)`` bool; a query of several references is out of distribution if all of them are.
        bag: ``(T,)`` bool.
        ptr: ``(E + 1,)``, the borders between the bags.
    """

    query: Mask
    bag: Mask
    ptr: Any

    @property
    def withheld(self) -> Mask:
        """``(E,)`` bool: no yes or no is given, because the query or every target is out of distribution."""
        return np.asarray(self.query | ~csr.bag_any(~self.bag, self.ptr))

    def of(self, exemplar: int) -> "OutOfDistribution":
        """Those of one exemplar."""
        first, last = int(self.ptr[exemplar]), int(self.ptr[exemplar + 1])
        return OutOfDistribution(
            self.query[exemplar : exemplar + 1], self.bag[first:last], self.ptr[exemplar : exemplar + 2] - first
        )

    @property
    def places(self) -> list[int]:
        """Places of the targets."""
        return [int(place) for place in np.flatnonzero(self.bag)]

    @property
    def reason(self) -> str | None:
        """Why one exemplar gets no answer, or ``None``."""
        return reason_of(bool(self.query[0]), bool(self.bag.all()))

    @property
    def note(self) -> str:
        """A sentence about targets in a bag that also holds others; else ""."""
        places = self.places
        if not places or (self.bag.all() and not self.query[0]):
            return ""
        listed = ", ".join(map(str, places[:_MOST_PLACES])) + ", …" * (len(places) > _MOST_PLACES)
        verb, s = ("are", "s") if len(places) > 1 else ("is", "")
        return f"{len(places)} instance{s} {verb} out of distribution: place{s} {listed}."

    def document(self) -> dict[str, Any]:
        """Return plain values of one exemplar, for JSON."""
        return {"query": bool(self.query[0]), "places": self.places}
