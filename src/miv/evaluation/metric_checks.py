"""Checks of metric inputs; each error says what was given and what was expected."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miv.data.array_checks import check_length, describe
from miv.errors import MIVError
from miv.io.checked_values import Floats


def as_scores(name: str, given: ArrayLike, length: int | None = None) -> Floats:
    """Return finite numbers as float64, in which every float32 keeps its exact value."""
    array = _one_dimensional(name, given, "iubf", "numbers", length)
    bad = ~np.isfinite(array)
    if bad.any():
        first = int(bad.argmax())
        raise MIVError(f"{name}[{first}] is {array[first]}. Expected finite numbers; did the model diverge?")
    return array.astype(np.float64, copy=False)


def as_labels(given: ArrayLike, length: int | None = None) -> NDArray[np.int8]:
    """Return labels 0 and 1, of any kind of number, as int8."""
    array = _one_dimensional("label", given, "iubf", "labels 0 and 1", length)
    bad = (array != 0) & (array != 1)
    if bad.any():
        first = int(bad.argmax())
        raise MIVError(f"The label of exemplar {first} is {array[first]}. Expected 0 or 1.")
    return array.astype(np.int8, copy=False)


def as_witnesses(given: ArrayLike, length: int) -> NDArray[np.bool_]:
    """Return one bool per bag member."""
    return _one_dimensional("witness", given, "b", "True and False", length)


def as_borders(given: ArrayLike, exemplars: int | None = None) -> NDArray[np.int64]:
    """Return borders ``(E + 1,)`` that start at 0 and increase, so that no bag is empty."""
    length = None if exemplars is None else exemplars + 1
    ptr = _one_dimensional("ptr", given, "iu", "whole numbers", length).astype(np.int64, copy=False)
    if len(ptr) == 0 or ptr[0] != 0:
        raise MIVError(f"ptr starts with {ptr[:1].tolist()}. Expected [0], the border before the first bag.")
    sizes = np.diff(ptr)
    if (sizes < 1).any():
        first = int((sizes < 1).argmax())
        raise MIVError(f"ptr gives exemplar {first} a bag of {sizes[first]}. Expected increasing borders.")
    return ptr


def _one_dimensional(name: str, given: ArrayLike, kinds: str, expected: str, length: int | None) -> NDArray[Any]:
    array = np.asarray(given)
    if array.ndim == 1 and array.size == 0:
        array = array.astype(bool if kinds == "b" else np.int64)  # an empty list fits every kind
    if array.ndim != 1 or array.dtype.kind not in kinds:
        shape = "(N,)" if length is None else f"({length},)"
        raise MIVError(f"{name} is {describe(array)}. Expected {expected} of shape {shape}.")
    check_length(name, array, length)
    return array
