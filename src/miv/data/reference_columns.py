"""References: a query of several instances, stored like bags as borders and members."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.data import csr
from miv.data.array_checks import as_integers, check_range, list_of
from miv.errors import MIVError

_NONE: dict[str, Any] = {"reference_ptr": None, "reference_index": None}


def checked_references(
    query: NDArray[np.int64], reference_ptr: object, reference_index: object, instances: int
) -> dict[str, Any]:
    """Return both arrays as int64, or twice ``None`` if every exemplar has one reference: its query.

    So a set of single queries is the same set, with the same fingerprint, however it was made.
    """
    if reference_ptr is None and reference_index is None:
        return _NONE
    if reference_ptr is None or reference_index is None:
        raise MIVError("Only one of reference_ptr and reference_index was given. Expected both or neither.")
    index = as_integers("reference_index", reference_index)
    ptr = as_integers("reference_ptr", reference_ptr, len(query) + 1)
    _check_borders(ptr, len(index))
    check_range("reference_index", index, instances, "the pool")
    other = index[ptr[:-1]] != query
    if other.any():
        first = int(other.argmax())
        raise MIVError(
            f"The query of exemplar {first} is instance {int(query[first])}, but its first reference is instance "
            f"{int(index[ptr[first]])}. Expected the query as the first reference."
        )
    if len(index) == len(query):
        return _NONE
    return {"reference_ptr": ptr, "reference_index": index}


def joined_references(
    queries: Sequence[int] | NDArray[Any] | None, references: Sequence[Sequence[int] | NDArray[Any]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Join the query and the references of each exemplar, each instance once; return borders and members.

    >>> [array.tolist() for array in joined_references([4, 7], [[5, 4, 6], []])]
    [[0, 3, 4], [4, 5, 6, 7]]
    >>> [array.tolist() for array in joined_references(None, [[5, 4], [7]])]
    [[0, 2, 3], [5, 4, 7]]
    """
    if queries is not None and len(queries) != len(references):
        raise MIVError(f"Got {len(queries)} queries and references of {len(references)}. Expected one list per query.")
    found = []
    for number, given in enumerate(references):
        own = list_of(f"references of exemplar {number}", given, "iu").tolist()
        together = dict.fromkeys(own if queries is None else [int(queries[number]), *own])
        if not together:
            raise MIVError(f"Exemplar {number} has no references. Expected at least one; remove the exemplar.")
        found.append(list(together))
    members = np.array([one for together in found for one in together], np.int64)
    return csr.borders([len(together) for together in found]), members


def _check_borders(ptr: NDArray[np.int64], members: int) -> None:
    if int(ptr[0]) != 0 or int(ptr[-1]) != members:
        raise MIVError(
            f"reference_ptr runs from {int(ptr[0])} to {int(ptr[-1])}. "
            f"Expected 0 to {members}, the number of entries of reference_index."
        )
    counts = np.diff(ptr)
    if counts.min() < 1:
        raise MIVError(f"Exemplar {int((counts < 1).argmax())} has no reference. Expected at least one, its query.")
