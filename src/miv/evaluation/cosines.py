"""Cosine of each target and its query, over ragged bags."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from miv.data import ExemplarSet, csr
from miv.files.json import Floats

_NUMBERS = 1 << 22  # processed together: 16 MB of float32


@dataclass(frozen=True, eq=False)
class Cosines:
    """The cosines of ``E`` exemplars with ``T`` targets in total; the cosine with a zero vector is 0.

    Args:
        each: ``(T,)`` of each target with its query.
        nearest: ``(E,)`` the largest of each bag.
        mean: ``(E,)`` the mean of each bag.
        place: ``(E,)`` index of the nearest among the ``T`` targets; the first on ties.
    """

    each: Floats
    nearest: Floats
    mean: Floats
    place: NDArray[np.int64]


def unit_rows(
    features: NDArray[np.float32], rows: NDArray[np.int64], centre: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """``(R, C)`` the features at ``rows`` with length 1, also after the centre ``(C,)`` is subtracted, if given.

    Zeros stay zeros, and what lies at the centre up to rounding stays near zero.
    """
    chosen: NDArray[np.float32] = np.array(features[rows], np.float32)
    largest = np.abs(chosen).max(axis=1, keepdims=True)  # first, so that no square overflows or vanishes
    np.divide(chosen, largest, out=chosen, where=largest > 0)
    length = np.linalg.norm(chosen, axis=1, keepdims=True)
    np.divide(chosen, length, out=chosen, where=length > 0)
    if centre is not None:
        chosen -= centre
        chosen /= np.maximum(np.linalg.norm(chosen, axis=1, keepdims=True), np.float32(1e-6))
    return chosen


def mean_direction(exemplars: ExemplarSet, features: NDArray[np.float32]) -> NDArray[np.float32]:
    """``(C,)`` the mean of the features that the exemplars use, each scaled to length 1."""
    together, total = max(1, _NUMBERS // features.shape[1]), np.zeros(features.shape[1])
    for first in range(0, len(exemplars.used), together):
        total += unit_rows(features, exemplars.used[first : first + together]).sum(axis=0, dtype=np.float64)
    return (total / len(exemplars.used)).astype(np.float32)


def unit_queries(
    exemplars: ExemplarSet, features: NDArray[np.float32], centre: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """``(E, C)`` the features of the queries with length 1; of several references, their mean direction."""
    ptr, references = exemplars.all_references
    rows = unit_rows(features, references, centre)
    if not exemplars.has_references:
        return rows
    return unit_rows(csr.bag_sums(rows, ptr), np.arange(len(exemplars)))


def cosines(
    exemplars: ExemplarSet, features: NDArray[np.float32], centre: NDArray[np.float32] | None = None
) -> Cosines:
    """Compare every target with its query, by the features ``(P, C)`` of the pool.

    Several references are compared as their mean direction. A centre ``(C,)`` is subtracted from features of length 1.
    """
    members = len(exemplars.bag_index)
    each = np.zeros(members)
    asked, known, of_queries = exemplars.query[exemplars.owner], features, centre  # (T,) rows of the features
    if exemplars.has_references:
        asked, known, of_queries = exemplars.owner, unit_queries(exemplars, features, centre), None
    together = max(1, _NUMBERS // features.shape[1])
    for start in range(0, members, together):
        part = slice(start, start + together)
        queries = unit_rows(known, asked[part], of_queries)
        targets = unit_rows(features, exemplars.bag_index[part], centre)
        each[part] = np.einsum("tc,tc->t", queries, targets)
    nearest = csr.bag_maxima(each, exemplars.bag_ptr)
    is_nearest = np.flatnonzero(each == nearest[exemplars.owner])  # at least one in each bag
    _, at = np.unique(exemplars.owner[is_nearest], return_index=True)  # the first of each bag
    return Cosines(each, nearest, csr.bag_sums(each, exemplars.bag_ptr) / exemplars.bag_sizes, is_nearest[at])
