"""Which bags an index selects: whole numbers or one bool per bag, in a list, a tensor or a NumPy array."""

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv.bags.bag_checks import describe
from miv.errors import MIVError

Selection = slice | Sequence[int] | Sequence[bool] | Tensor | NDArray[Any]


def selects_several(which: object) -> bool:
    """Whether an index selects bags, not one bag; a tensor or array without dimensions is a number."""
    return isinstance(which, slice | Sequence) or (isinstance(which, Tensor | np.ndarray) and which.ndim > 0)


def bag_number(which: Any, count: int) -> int:
    """The number, from 0 to ``count - 1``, of one bag; ``-1`` is the last."""
    try:
        number = operator.index(which)
    except TypeError:
        raise _wrong(describe(which), count) from None
    if not -count <= number < count:
        raise IndexError(f"There is no bag {number}. Expected 0 to {count - 1}.")  # ends a loop, as in a list
    return number % count


def bag_numbers(which: Selection, count: int) -> Tensor:
    """``(b,)`` the numbers of the selected bags, at least one."""
    everything = np.arange(count)
    if isinstance(which, slice):
        chosen = everything[which]
    else:
        index = _as_array(which, count)
        if index.dtype == np.bool_:
            if len(index) != count:
                raise MIVError(f"The index has {len(index)} bools. Expected {count}, one per bag.")
        elif len(index) and not -count <= int(index.min()) <= int(index.max()) < count:
            raise IndexError(f"The index goes from {index.min()} to {index.max()}. Expected 0 to {count - 1}.")
        chosen = everything[index]
    if not len(chosen):
        raise MIVError(f"The index selects no bag. Expected at least one of {count} bags.")
    return torch.from_numpy(np.ascontiguousarray(chosen))


def _as_array(which: Any, count: int) -> NDArray[Any]:
    try:
        found: NDArray[Any] = np.asarray(which.cpu() if isinstance(which, Tensor) else which)
    except (TypeError, ValueError):
        raise _wrong(describe(which), count) from None
    if not found.size:
        found = found.astype(np.int64)  # NumPy takes an empty list for floats
    if found.ndim != 1 or found.dtype.kind not in "bui":
        raise _wrong(f"{found.dtype} {found.shape}", count)
    return found


def _wrong(given: str, count: int) -> MIVError:
    return MIVError(
        f"The index of the bags is {given}. Expected a whole number, a slice, a list of whole numbers, or {count} "
        "bools, one per bag."
    )
