"""Checks shared by the pool and the table; each error says what was given and what was expected."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.data import csr
from miv.errors import MIVError, number_of


def describe(thing: object) -> str:
    """Describe a value, for an error message."""
    if isinstance(thing, np.ndarray):
        return f"{thing.dtype} {thing.shape}"
    return "nothing" if thing is None else f"a {type(thing).__name__}"


def as_column(name: str, value: object, kinds: str, expected: str, length: int | None = None) -> NDArray[Any]:
    """Return a 1-d array of one of the dtype ``kinds``; anything else is an error."""
    if not isinstance(value, np.ndarray) or value.ndim != 1 or value.dtype.kind not in kinds:
        raise MIVError(f"{name} is {describe(value)}. Expected {expected} of shape ({length or 'N'},).")
    check_length(name, value, length)
    return value


def as_integers(name: str, value: object, length: int | None = None) -> NDArray[np.int64]:
    """Return a 1-d array of whole numbers as int64; anything else is an error."""
    column = as_column(name, value, "iu", "int64", length)
    if column.dtype == np.uint64 and len(column) and column.max() > np.iinfo(np.int64).max:
        raise MIVError(f"{name} has the value {column.max()}, too large for int64.")
    return column.astype(np.int64, copy=False)


def as_strings(name: str, value: object, length: int | None = None) -> NDArray[Any]:
    """Return a 1-d array of strings as an object array, because a long string makes a fixed-width array huge."""
    column = as_column(name, value, "UTO", "an array of strings", length).astype(object, copy=False)
    types = set(map(type, column.tolist()))
    if types <= {str}:
        return column
    for row, text in enumerate(column):
        if not isinstance(text, str):
            raise MIVError(f"{name}[{row}] is {describe(text)}. Expected a string.")
    plain = np.empty(len(column), object)  # NumPy strings become ordinary ones
    plain[:] = [str(text) for text in column]
    return plain


def add_strings(digest: Any, strings: NDArray[Any]) -> None:
    """Add the length and bytes of each string to a hash."""
    for text in strings:
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little") + encoded)


def check_length(name: str, value: NDArray[Any], length: int | None) -> None:
    """Check the length of an array."""
    if length is not None and len(value) != length:
        raise MIVError(f"{name} has {number_of(len(value), 'entry', 'entries')}. Expected {length}.")


def check_range(name: str, indices: NDArray[np.int64], size: int, of: str) -> None:
    """Check that all indices are in ``0 … size - 1``."""
    if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < size:
        first = int(np.flatnonzero((indices < 0) | (indices >= size))[0])
        raise MIVError(f"{name}[{first}] is {int(indices[first])}. Expected an index from 0 to {size - 1}, as of {of}.")


def list_of(name: str, value: object, kinds: str) -> NDArray[Any]:
    """Turn a list into a 1-d array of one of the dtype ``kinds``; an empty list fits every kind."""
    try:
        array = np.asarray(value)
    except ValueError:  # numpy raises this for lists of different lengths
        array = np.empty(0, object)
    if array.size == 0 and array.ndim == 1 and array.dtype.kind == "f":
        return array.astype(np.int64)
    if array.ndim != 1 or array.dtype.kind not in kinds:
        wanted = "True and False" if kinds == "b" else "whole numbers"
        raise MIVError(f"{name} is {str(value)[:60]!r}. Expected a list of {wanted}.")
    return array


def check_borders(ptr: NDArray[np.int64], members: int, name: str = "bag") -> None:
    """Check that the borders of bags or references rise from 0 to ``members`` and leave no exemplar without one."""
    if int(ptr[0]) != 0 or int(ptr[-1]) != members:
        raise MIVError(f"{name}_ptr runs from {int(ptr[0])} to {int(ptr[-1])}. Expected 0 to {members}.")
    sizes = np.diff(ptr)
    first, lack = int(sizes.argmin()) if len(sizes) else 0, "an empty bag" if name == "bag" else "no reference"
    if sizes.min(initial=1) < 0:
        raise MIVError(f"{name}_ptr decreases at exemplar {first}. Expected increasing borders.")
    if sizes.min(initial=1) == 0:
        raise MIVError(f"Exemplar {first} has {lack}. Expected at least one instance; remove the exemplar.")


def as_labels(label: object, length: int | None = None) -> NDArray[np.int8]:
    """Return labels 0 and 1 as int8; anything else is an error."""
    column = as_column("label", label, "iubf", "labels 0 and 1", length)
    _check_all((column == 0) | (column == 1), "label", column, "0 or 1")
    return column.astype(np.int8, copy=False)


def as_weights(name: str, weight: object, length: int) -> NDArray[np.float64]:
    """Return weights above 0 as float64; anything else is an error."""
    column = as_column(name, weight, "fiu", "float64", length)
    _check_all(np.isfinite(column) & (column > 0), name, column, "a finite number above 0")
    return column.astype(np.float64)


def _check_all(fits: NDArray[np.bool_], name: str, column: NDArray[Any], expected: str) -> None:
    if not fits.all():
        first = int(fits.argmin())
        raise MIVError(f"The {name} of exemplar {first} is {column[first]}. Expected {expected}.")


# References: a query of several instances, stored like bags as borders and members.


def checked_references(
    query: NDArray[np.int64], reference_ptr: object, reference_index: object, instances: int
) -> dict[str, Any]:
    """Return both arrays as int64, or nothing of them if every exemplar has one reference: its query."""
    if reference_ptr is None and reference_index is None:
        return {}
    if reference_ptr is None or reference_index is None:
        raise MIVError("Only one of reference_ptr and reference_index was given. Expected both or neither.")
    index = as_integers("reference_index", reference_index)
    ptr = as_integers("reference_ptr", reference_ptr, len(query) + 1)
    check_borders(ptr, len(index), "reference")
    check_range("reference_index", index, instances, "the pool")
    other = np.flatnonzero(index[ptr[:-1]] != query)
    if len(other):
        first, asked = int(other[0]), int(index[ptr[other[0]]])
        given = f"The query of exemplar {first} is instance {int(query[first])}, but its first reference is instance"
        raise MIVError(f"{given} {asked}. Expected the query as the first reference.")
    several = len(index) > len(query)
    return {"reference_ptr": ptr if several else None, "reference_index": index if several else None}


def joined_references(
    queries: Sequence[int] | NDArray[Any] | None, references: Sequence[Sequence[int] | NDArray[Any]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Join the query and the references of each exemplar, each instance once; return borders and members."""
    if queries is not None and len(queries) != len(references):
        raise MIVError(f"Got {len(queries)} queries and references of {len(references)}. Expected one list per query.")
    joined = []
    for number, listed in enumerate(references):
        members = list_of(f"references of exemplar {number}", listed, "iu").tolist()
        joined.append(list(dict.fromkeys(members if queries is None else [int(queries[number]), *members])))
        if not joined[-1]:
            raise MIVError(f"Exemplar {number} has no references. Expected at least one; remove the exemplar.")
    return csr.borders([len(members) for members in joined]), np.array(list(chain.from_iterable(joined)), np.int64)
