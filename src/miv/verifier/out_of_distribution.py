"""Which instances are out of distribution for a verifier, or have no content to judge."""

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
from miv.data.kinds import KINDS
from miv.errors import MIVError
from miv.files.arrays import Floats, Mask
from miv.files.atomic import make_ordinary, whole_file
from miv.files.json import finite_number

LIMIT_NAME = "unlike.safetensors"
_FORMAT = "miv-unlike"
_REMEDY = "Copy the verifier's folder again from where it was saved, or run `miv calibrate` again."
_SHAPES = {"mean": 1, "directions": 2, "variance": 1}
_OF_STATISTICS = "statistics."
_MOST_BYTES = 64 << 20
_VECTORS = KINDS["features"]

Flags = NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class OutOfDistributionLimit:
    r"""A limit for the distance of an instance's features, and of its plain statistics, from the train instances.

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
        measured: what was measured when it was fitted, as plain values.
        statistics: the same for ``Kind.statistics``, which show what a network is blind to. Those of vectors are of the
            features.
        is_mean: whether features are tokens of ``C`` channels each, of which the mean has the distance.
        allows_empty: whether vectors of zeros are ordinary, because train has them.

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
    statistics: "OutOfDistributionLimit | None" = None
    is_mean: bool = False
    allows_empty: bool = False

    def __post_init__(self) -> None:
        count, channels = self.directions.shape
        if not channels or self.mean.shape != (channels,) or self.variance.shape != (count,):
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
        if not isinstance(self.measured, dict) or {type(self.is_mean), type(self.allows_empty)} != {bool}:
            raise MIVError("What was measured is not an object, or a setting is neither true nor false.")

    def distance(self, features: NDArray[np.float32]) -> Floats:
        """Return the squared distances ``(N,)`` of features ``(N, C)``; more channels are those of tokens."""
        vectors = vectors_of(features, len(self.mean), is_mean=self.is_mean)
        centred = vectors.astype(np.float64) - self.mean
        along = centred @ self.directions.T.astype(np.float64)  # (N, K)
        squared = along**2
        rest = np.maximum(np.einsum("nc,nc->n", centred, centred) - squared.sum(axis=1), 0)
        return np.asarray((squared / self.variance).sum(axis=1) + rest / self.rest)

    def is_beyond(self, features: NDArray[np.float32]) -> Mask:
        """Return ``(N,)`` bool: which features ``(N, C)`` are beyond the limit."""
        return np.asarray(self.distance(features) > self.limit)

    def is_foreign(self, kind: str, values: NDArray[Any]) -> Mask:
        """Return ``(P,)`` bool: which instances ``(P, ...)`` have statistics beyond the limit."""
        if self.statistics is None:
            return np.zeros(len(values), bool)
        statistics = KINDS[kind].statistics(values)
        if statistics.shape[1] != len(self.statistics.mean):
            raise MIVError(f"The out-of-distribution check of the verifier is not for instances of {kind}. {_REMEDY}")
        return self.statistics.is_beyond(statistics)

    def document(self) -> dict[str, Any]:
        """Return plain values without the covariance, for JSON."""
        return {"limit": self.limit, "rate": self.rate, "measured": self.measured}

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything, equal for equal limits."""
        digest = hashlib.sha256(json.dumps(self._about, sort_keys=True).encode())
        for name, values in sorted(self._parts.items()):
            digest.update(f"{name} {values.dtype} {values.shape}".encode())
            digest.update(np.ascontiguousarray(values).data)
        return digest.hexdigest()

    @property
    def _about(self) -> dict[str, Any]:
        of_statistics = None if self.statistics is None else self.statistics.rest
        settings = {"statistics": of_statistics, "is_mean": self.is_mean, "allows_empty": self.allows_empty}
        return {**self.document(), "rest": self.rest, **settings}

    @property
    def _parts(self) -> dict[str, NDArray[Any]]:
        parts = {name: getattr(self, name) for name in _SHAPES}
        return parts if self.statistics is None else parts | _prefixed(self.statistics._parts)

    def save(self, folder: Path | str) -> None:
        """Write the file to the folder of a verifier, atomically."""
        parts = {name: np.ascontiguousarray(values) for name, values in self._parts.items()}
        # The only entry: several would be written in another order by each process.
        metadata = {"about": json.dumps({"format": _FORMAT, **self._about})}
        with whole_file(Path(folder) / LIMIT_NAME) as temporary:
            save_file(parts, temporary, metadata=metadata)
            make_ordinary(temporary)

    @classmethod
    def load(cls, folder: Path | str, channels: int, fingerprint: str | None = None) -> "OutOfDistributionLimit | None":
        """Read the file in a verifier's folder, if there is one; a damaged one is an error.

        With a ``fingerprint``, the file must exist and have it; older verifiers did not record one.
        """
        path = Path(folder) / LIMIT_NAME
        if not os.path.lexists(path):
            if fingerprint is None:
                return None
            raise MIVError(f"{path} is missing: the verifier was saved with an out-of-distribution check. {_REMEDY}")
        try:
            limit = cls._read(path)
        except (
            SafetensorError,
            OSError,
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
            RecursionError,
            MIVError,
        ) as error:
            raise MIVError(f"{path} is damaged: {error}. {_REMEDY}") from error
        length = len(limit.mean)
        if channels % length if limit.is_mean else length > channels:
            raise MIVError(f"{path} is for {length} channels, the verifier has {channels}. {_REMEDY}")
        if fingerprint not in (None, limit.fingerprint):
            raise MIVError(f"{path} is not the file that the verifier was saved with. {_REMEDY}")
        return limit

    @classmethod
    def _read(cls, path: Path) -> "OutOfDistributionLimit":
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError("it is too large")
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            about = dict(json.loads(metadata["about"]))
            if metadata.get("format", about.get("format")) != _FORMAT:  # older files have it as an entry of its own
                raise ValueError(f"its format is not {_FORMAT}")
            of_statistics = about.get("statistics")  # older files have none
            names = [*_SHAPES, *(_prefixed(_SHAPES) if of_statistics is not None else ())]
            parts = {name: file.get_tensor(name) for name in names}
        for name, values in parts.items():
            if values.ndim != _SHAPES[name.removeprefix(_OF_STATISTICS)] or values.dtype.kind != "f":
                raise ValueError(f"{name} is {values.dtype} {values.shape}")
        limit, rate, statistics = about["limit"], about["rate"], None
        if of_statistics is not None:
            arrays = {name: parts[_OF_STATISTICS + name] for name in _SHAPES}
            statistics = cls(**arrays, rest=of_statistics, limit=limit, rate=rate)
        settings = {name: about.get(name, False) for name in ("is_mean", "allows_empty")}
        settings |= {name: about[name] for name in ("rest", "limit", "rate", "measured")}
        return cls(**{name: parts[name] for name in _SHAPES}, **settings, statistics=statistics)


def vectors_of(features: NDArray[np.float32], channels: int, *, is_mean: bool) -> NDArray[np.float32]:
    """One vector ``(N, channels)`` per instance: the first channels of its features, or the mean of its tokens."""
    if not is_mean:
        return features[:, :channels]
    tokens = features.reshape(len(features), -1, channels)  # (N, L, channels)
    return np.asarray(tokens.sum(axis=1) / np.maximum(tokens.any(axis=2).sum(axis=1), 1)[:, None])


def _prefixed(by_name: dict[str, Any]) -> dict[str, Any]:
    return {_OF_STATISTICS + name: value for name, value in by_name.items()}


# Which instances of exemplars are out of distribution, and why an exemplar gets no answer.

_MOST_PLACES = 10  # places in a sentence
_OUT, _EMPTY = 1, 2  # flags
_OF_QUERY = {_OUT: "the query is out of distribution", _EMPTY: "the query has no content that can be read"}
_OF_BAG = {
    _OUT: "every instance of the bag is out of distribution",
    _EMPTY: "no instance of the bag has content that can be read",
}


def flags_of(limit: OutOfDistributionLimit | None, features: NDArray[np.float32], kind: str) -> Flags:
    """Return ``(N,)``: 1 for features ``(N, C)`` that are out of distribution, 2 for those without content, else 0."""
    empty = _VECTORS.is_empty(features)
    if limit is None:
        return np.where(empty, _EMPTY, 0).astype(np.int8)
    beyond = limit.is_beyond(features) | (KINDS[kind].is_vector and limit.is_foreign(kind, features))
    return np.where(empty, 0 if limit.allows_empty else _EMPTY, beyond).astype(np.int8)


def reason_of(query: int, bag: int) -> str | None:
    """Why an exemplar gets no answer, from the least flags of its references and of its targets."""
    return _OF_QUERY.get(query) or _OF_BAG.get(bag)


@dataclass(frozen=True, eq=False)
class OutOfDistribution:
    """Flags of instances, for ``E`` exemplars with ``T`` targets: 1 is out of distribution, 2 without content, else 0.

    Args:
        query: ``(E,)``; of several references the least.
        bag: ``(T,)``.
        ptr: ``(E + 1,)``, the borders between the bags.
    """

    query: Flags
    bag: Flags
    ptr: Any

    @property
    def withheld(self) -> Mask:
        """``(E,)`` bool: no yes or no is given, because the query or every target is flagged."""
        return np.asarray((self.query > 0) | ~csr.bag_any(self.bag == 0, self.ptr))

    def of(self, exemplar: int) -> "OutOfDistribution":
        """Those of one exemplar."""
        first, last = int(self.ptr[exemplar]), int(self.ptr[exemplar + 1])
        return OutOfDistribution(
            self.query[exemplar : exemplar + 1], self.bag[first:last], self.ptr[exemplar : exemplar + 2] - first
        )

    @property
    def places(self) -> list[int]:
        """Places of the flagged targets."""
        return [int(place) for place in np.flatnonzero(self.bag)]

    @property
    def reason(self) -> str | None:
        """Why one exemplar gets no answer, or ``None``."""
        return reason_of(int(self.query[0]), int(self.bag.min()))

    @property
    def query_is_empty(self) -> bool:
        """Whether the query of one exemplar has no content."""
        return bool(self.query[0] == _EMPTY)

    @property
    def note(self) -> str:
        """A sentence about flagged targets in a bag that also holds others; else ""."""
        places = self.places
        if not places or self.bag.all():
            return ""
        listed = ", ".join(map(str, places[:_MOST_PLACES])) + ", …" * (len(places) > _MOST_PLACES)
        verb, s = ("are", "s") if len(places) > 1 else ("is", "")
        what = "without content" if (self.bag[places] == _EMPTY).all() else "out of distribution"
        return f"{len(places)} instance{s} {verb} {what}: place{s} {listed}."

    def document(self) -> dict[str, Any]:
        """Return plain values of one exemplar, for JSON; what has no content is among the flagged, too."""
        empty = np.flatnonzero(self.bag == _EMPTY).tolist()
        flagged = {"query": bool(self.query[0]), "places": self.places}
        return flagged | {"empty_query": self.query_is_empty, "empty_places": empty}

    @classmethod
    def of_document(cls, document: dict[str, Any], size: int) -> "OutOfDistribution":
        """Read what ``document`` returned, for a bag of this size."""
        bag = np.zeros(size, np.int8)
        bag[document["places"]], bag[document["empty_places"]] = _OUT, _EMPTY
        return cls(np.array([document["query"] + document["empty_query"]], np.int8), bag, np.array([0, size]))

    def words(self, place: int) -> str:
        """What is wrong with a target; "" if nothing."""
        return ("", "out of distribution", "without content")[self.bag[place]]
