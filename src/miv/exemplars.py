"""Exemplars as a table of indices over a pool of instances that are stored once."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from miv.errors import MivError

Kind = Literal["image", "text", "features"]


@dataclass(frozen=True, eq=False)
class InstancePool:
    """The distinct instances of a set.

    Args:
        kind: what an instance is.
        values: images ``(P, H, W)`` or ``(P, H, W, 3)`` uint8, features ``(P, C)`` float32, or texts, an
            object array of ``P`` strings.
        classes: ``(P,)`` the class of each instance (writer, page, ...) as strings, where it is known. Never
            shown to a model; it serves audits and splits.
    """

    kind: Kind
    values: NDArray[Any]
    classes: NDArray[np.str_] | None = None

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, eq=False)
class ExemplarSet:
    """``E`` exemplars: for each a query, a bag and a label, as indices into ``pool``.

    Args:
        pool: the instances, ``P`` of them.
        query: ``(E,)`` int64, the instance that is asked about.
        bag_ptr: ``(E + 1,)`` int64, rising from 0 to ``T``; bag ``e`` is
            ``bag_index[bag_ptr[e]:bag_ptr[e + 1]]``.
        bag_index: ``(T,)`` int64, the members of all bags.
        label: ``(E,)`` int8, 1 where the bag holds something of the query's class, else 0.
        witness: ``(T,)`` bool, which members show it, where that is known. Never shown to a model.
        group: ``(E,)`` strings to break results down by, such as the digit.
    """

    pool: InstancePool
    query: NDArray[np.int64]
    bag_ptr: NDArray[np.int64]
    bag_index: NDArray[np.int64]
    label: NDArray[np.int8]
    witness: NDArray[np.bool_] | None = None
    group: NDArray[np.str_] | None = None

    def __post_init__(self) -> None:
        sizes = np.diff(self.bag_ptr)
        if len(self.bag_ptr) != len(self.query) + 1 or self.bag_ptr[-1] != len(self.bag_index):
            raise MivError("bag_ptr does not fit query and bag_index.")
        if len(sizes) and sizes.min() < 1:
            raise MivError(f"Exemplar {int(sizes.argmin())} has an empty bag.")

    def __len__(self) -> int:
        return len(self.query)
