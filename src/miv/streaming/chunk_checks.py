"""What the queries and every chunk of a bag have to be."""

from numbers import Integral
from typing import Any

import numpy as np

from miv.errors import MIVError
from miv.inference.given_instances import is_finite
from miv.kept.similarity_of_query import Rows


def check_count(name: str, given: object, least: int, what: str) -> int:
    """A whole number from ``least``, also one of NumPy; anything else is an error."""
    if isinstance(given, bool) or not isinstance(given, Integral) or given < least:
        raise MIVError(f"{name} is {given!r}. Expected {what}, from {least}.")
    return int(given)


def check_top(given: object) -> int:
    """The number of targets to name."""
    return check_count("top", given, 0, "the number of targets to name")


def check_queries(given: Any, channels: int) -> Rows:
    """The features of queries ``(R, channels)``; an error unless they are finite numbers of this shape."""
    try:
        features = np.asarray(given, np.float32)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:  # the last is of tensors with a gradient
        raise MIVError(
            f"The queries cannot be read as numbers: {error}. Expected one or more rows of {channels} features."
        ) from error
    if features.ndim != 2 or not len(features) or features.shape[1] != channels:
        raise MIVError(f"The queries are {features.shape}. Expected one or more rows of {channels} features.")
    if not is_finite(features):
        row = int((~np.isfinite(features)).any(axis=1).argmax())
        raise MIVError(f"Query {row} contains NaN or infinity. Expected finite numbers.")
    return features


def check_width(features: Rows, channels: int) -> None:
    """Raise an error unless a chunk is ``(N, channels)``."""
    if features.ndim != 2 or features.shape[1] != channels:
        raise MIVError(
            f"A chunk of the bag is {features.shape}. Expected (N, {channels}): one row of features per target."
        )


def check_chunk(features: Rows, channels: int, place: int) -> None:
    """Raise an error unless a chunk is finite numbers ``(N, channels)``; ``place`` is that of its first row."""
    check_width(features, channels)
    if not is_finite(features):
        row = place + int((~np.isfinite(features)).any(axis=1).argmax())
        raise MIVError(f"Instance {row:,} of the bag contains NaN or infinity. Expected finite numbers.")
