"""What the queries and every chunk of a bag have to be."""

import numpy as np

from miv.errors import MIVError
from miv.inference.given_instances import is_finite
from miv.kept.similarity_of_query import Rows


def check_queries(features: Rows, channels: int) -> None:
    """Raise an error unless the features of queries are finite numbers ``(R, channels)``."""
    if features.ndim != 2 or not len(features) or features.shape[1] != channels:
        raise MIVError(f"The queries are {features.shape}. Expected one or more rows of {channels} features.")
    if not is_finite(features):
        row = int((~np.isfinite(features)).any(axis=1).argmax())
        raise MIVError(f"Query {row} contains NaN or infinity. Expected finite numbers.")


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
