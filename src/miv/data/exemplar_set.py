"""The table: the query, bag and label of each exemplar, as indices into a pool."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miv.data import csr
from miv.data.array_checks import (
    as_integers,
    as_labels,
    as_strings,
    as_weights,
    check_borders,
    check_length,
    check_range,
    check_witness,
    describe,
    list_of,
)
from miv.data.instance_pool import InstancePool
from miv.data.set_folder import load_set, save_set
from miv.errors import MIVError


class Exemplar(NamedTuple):
    """One exemplar with its values.

    Args:
        query: the query's value: an image ``(H, W)`` or ``(H, W, 3)``, a text, or a vector ``(C,)``.
        bag: ``(N, ...)`` the values of the targets, one row per instance.
        label: 1 if the bag contains something of the query's class, else 0.
    """

    query: Any
    bag: NDArray[Any]
    label: int


@dataclass(frozen=True, eq=False)
class ExemplarSet:
    """``E`` exemplars: the query, bag and label of each, as indices into ``pool``.

    Args:
        pool: the ``P`` instances.
        query: ``(E,)`` int64, the query instance.
        bag_ptr: ``(E + 1,)`` int64, increasing from 0 to ``T``; bag ``e`` is
            ``bag_index[bag_ptr[e]:bag_ptr[e + 1]]``.
        bag_index: ``(T,)`` int64, the members of all bags.
        label: ``(E,)`` int8, 1 if the bag contains something of the query's class, else 0.
        witness: ``(T,)`` bool, which members show it, if known. Never shown to a model.
        group: ``(E,)`` strings to group results by, such as the digit.
        weight: ``(E,)`` weight of each exemplar in training; only the ratios matter. ``None``: all equal.

    >>> pool = InstancePool("text", np.array(["sky?", "The sky is blue.", "Grass is green."], dtype=object))
    >>> exemplars = ExemplarSet.from_lists(pool, [0], [[1, 2]], labels=[1], witnesses=[[True, False]])
    >>> exemplars.bag(0).tolist(), exemplars.bag_sizes.tolist()
    ([1, 2], [2])
    >>> exemplars
    ExemplarSet(1 exemplar, 1 positive, bags of 2, witnesses known, 3 texts)

    It works as a ``torch.utils.data.Dataset``: ``exemplars[0]`` is an ``Exemplar`` with its values, and a
    ``DataLoader`` makes batches of them with ``collate_fn=miv.collate_exemplars``.
    """

    pool: InstancePool
    query: NDArray[np.int64]
    bag_ptr: NDArray[np.int64]
    bag_index: NDArray[np.int64]
    label: NDArray[np.int8]
    witness: NDArray[np.bool_] | None = None
    group: NDArray[Any] | None = None
    weight: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.pool, InstancePool):
            raise MIVError(f"pool is {describe(self.pool)}. Expected an InstancePool.")
        query = as_integers("query", self.query)
        if len(query) == 0:
            raise MIVError("The set is empty. Expected at least one exemplar.")
        bag_index = as_integers("bag_index", self.bag_index)
        bag_ptr = as_integers("bag_ptr", self.bag_ptr, len(query) + 1)
        check_borders(bag_ptr, len(bag_index))
        check_range("query", query, len(self.pool), "the pool")
        check_range("bag_index", bag_index, len(self.pool), "the pool")
        checked: dict[str, NDArray[Any]] = {"query": query, "bag_ptr": bag_ptr, "bag_index": bag_index}
        checked["label"] = as_labels(self.label, len(query))
        if self.witness is not None:
            check_witness(self.witness, len(bag_index))
        if self.group is not None:
            checked["group"] = as_strings("group", self.group, len(query))
        if self.weight is not None:
            checked["weight"] = as_weights(self.weight, len(query))
        for name, array in checked.items():
            object.__setattr__(self, name, array)

    @classmethod
    def from_lists(
        cls,
        pool: InstancePool,
        queries: Sequence[int] | NDArray[Any],
        bags: Sequence[Sequence[int] | NDArray[Any]],
        labels: Sequence[int] | NDArray[Any],
        witnesses: Sequence[Sequence[bool] | NDArray[Any]] | None = None,
        groups: Sequence[str] | NDArray[Any] | None = None,
    ) -> "ExemplarSet":
        """Create a set from Python lists with one entry per exemplar; ``bags`` and ``witnesses`` are lists of lists."""
        members = [list_of(f"bag {number}", bag, "iu") for number, bag in enumerate(bags)]
        bag_ptr = csr.borders([len(bag) for bag in members])
        witness = None
        if witnesses is not None:
            shown = [list_of(f"witnesses of bag {number}", row, "b") for number, row in enumerate(witnesses)]
            if len(shown) != len(members):
                raise MIVError(f"Got witnesses for {len(shown)} bags. Expected {len(members)}.")
            for number, (row, bag) in enumerate(zip(shown, members, strict=True)):
                check_length(f"witnesses of bag {number}", row, len(bag))
            witness = np.concatenate(shown).astype(bool) if shown else np.zeros(0, bool)
        return cls(
            pool,
            list_of("queries", queries, "iu").astype(np.int64),
            bag_ptr,
            np.concatenate(members).astype(np.int64) if members else np.zeros(0, np.int64),
            list_of("labels", labels, "iub"),
            witness,
            None if groups is None else np.array(groups, dtype=object),
        )

    @classmethod
    def from_arrays(
        cls,
        queries: Any,
        bags: Sequence[Any],
        labels: Sequence[int],
        witnesses: Sequence[Sequence[bool]] | None = None,
        groups: Sequence[str] | None = None,
    ) -> "ExemplarSet":
        """Create a set from arrays of instances; see ``miv.data.sources.from_arrays``."""
        from miv.data.sources.exemplars_from_arrays import from_arrays

        return from_arrays(queries, bags, labels, witnesses, groups)

    @classmethod
    def from_folder(cls, root: Path | str, *, split: str | None = None, **options: Any) -> "ExemplarSet":
        """Draw a set, or its ``split``, from one folder per class; options: ``miv.data.sources.folder_source``."""
        from miv.data.sources.own_data import set_from_folder

        return set_from_folder(root, split, **options)

    @classmethod
    def from_table(cls, table: Path | str, *, split: str | None = None, **options: Any) -> "ExemplarSet":
        """Read all rows of a table, or those of a ``split``; options: ``miv.data.sources.table_source``."""
        from miv.data.sources.own_data import set_from_table

        return set_from_table(table, split, **options)

    @classmethod
    def from_dataset(cls, dataset: Any, **columns: str) -> "ExemplarSet":
        """Read a ``datasets.Dataset`` or any rows; see ``miv.data.sources.hf_datasets.from_dataset``."""
        from miv.data.sources.hf_datasets import from_dataset

        return from_dataset(dataset, **columns)

    def to_dataset(self) -> Any:
        """Return a ``datasets.Dataset``; see ``miv.data.sources.hf_datasets.to_dataset``."""
        from miv.data.sources.hf_datasets import to_dataset

        return to_dataset(self)

    @classmethod
    def load(cls, folder: Path | str, *, verify: bool = False) -> "ExemplarSet":
        """Open a saved set; see ``miv.data.set_folder.load_set``."""
        return load_set(cls, Path(folder), verify=verify)

    def save(
        self,
        folder: Path | str,
        *,
        builder: str,
        options: dict[str, Any],
        seed: int | None,
        overwrite: bool = False,
    ) -> None:
        """Save the set as a folder, atomically; see ``miv.data.set_folder.save_set``."""
        save_set(self, Path(folder), builder=builder, options=options, seed=seed, overwrite=overwrite)

    def __len__(self) -> int:
        return len(self.query)

    def __repr__(self) -> str:
        sizes = sorted({int(self.bag_sizes.min()), int(self.bag_sizes.max())})
        parts = [
            f"{len(self)} exemplar{'s' * (len(self) != 1)}",
            f"{int(self.label.sum())} positive",
            f"bags of {' to '.join(map(str, sizes))}",
            *(["witnesses known"] if self.witness is not None else []),
            self.pool.summary,
        ]
        return f"ExemplarSet({', '.join(parts)})"

    @overload
    def __getitem__(self, which: int) -> Exemplar: ...
    @overload
    def __getitem__(self, which: slice) -> "ExemplarSet": ...
    def __getitem__(self, which: int | slice) -> "Exemplar | ExemplarSet":
        """Return one exemplar with its values, or the exemplars of a slice as a set."""
        if isinstance(which, slice):
            return self.subset(np.arange(len(self))[which])
        if not -len(self) <= which < len(self):
            raise IndexError(f"There is no exemplar {which}. Expected 0 to {len(self) - 1}.")
        values = self.pool.values
        return Exemplar(values[self.query[which]], values[self.bag(which)], int(self.label[which]))

    def __iter__(self) -> Iterator[Exemplar]:
        return (self[exemplar] for exemplar in range(len(self)))

    def bag(self, exemplar: int) -> NDArray[np.int64]:
        """``(N,)`` the instances in the bag of an exemplar."""
        return self.bag_index[self._members(exemplar)]

    def bag_witness(self, exemplar: int) -> NDArray[np.bool_] | None:
        """``(N,)`` which members of the exemplar's bag are witnesses, if known."""
        return None if self.witness is None else self.witness[self._members(exemplar)]

    @cached_property
    def bag_sizes(self) -> NDArray[np.int64]:
        """``(E,)`` the number of instances in each bag."""
        return np.diff(self.bag_ptr)

    @cached_property
    def owner(self) -> NDArray[np.int64]:
        """``(T,)`` the exemplar that each bag member belongs to."""
        return csr.owners(self.bag_ptr)

    @cached_property
    def used(self) -> NDArray[np.int64]:
        """The instances that are a query or in a bag, in increasing order."""
        seen = np.zeros(len(self.pool), bool)
        seen[self.query] = True
        seen[self.bag_index] = True
        return np.flatnonzero(seen)

    def subset(self, exemplars: ArrayLike) -> "ExemplarSet":
        """Return the exemplars at these indices, in that order, or where a bool mask is true, with the same pool."""
        chosen = np.asarray(exemplars)
        if chosen.dtype == bool:
            check_length("the mask", chosen, len(self))
            chosen = np.flatnonzero(chosen)
        chosen = as_integers("exemplars", chosen)
        check_range("exemplars", chosen, len(self), "the set")
        bag_ptr, members = csr.take_bags(self.bag_ptr, chosen)
        return ExemplarSet(
            self.pool,
            self.query[chosen],
            bag_ptr,
            self.bag_index[members],
            self.label[chosen],
            None if self.witness is None else self.witness[members],
            None if self.group is None else self.group[chosen],
            None if self.weight is None else self.weight[chosen],
        )

    def compact(self) -> "ExemplarSet":
        """Return the same exemplars with a pool of only the instances they use, in the same order."""
        if len(self.used) == len(self.pool):
            return self
        place = np.full(len(self.pool), -1, np.int64)
        place[self.used] = np.arange(len(self.used))
        pool = self.pool.take(self.used)
        query, bag_index = place[self.query], place[self.bag_index]
        return replace(self, pool=pool, query=query, bag_index=bag_index)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over everything: equal for equal sets, whether created, saved or loaded."""
        digest = hashlib.sha256(self.pool.fingerprint.encode())
        for array in (self.query, self.bag_ptr, self.bag_index, self.label, self.witness):
            digest.update(b"-" if array is None else np.ascontiguousarray(array).data)
        for strings in (self.group, self.pool.classes):
            for text in () if strings is None else strings:
                encoded = text.encode("utf-8", "surrogatepass")
                digest.update(len(encoded).to_bytes(8, "little") + encoded)
            digest.update(b"-" if strings is None else b"+")
        if self.weight is not None:  # sets without weights keep the fingerprint of older versions
            digest.update(self.weight.tobytes())
        return digest.hexdigest()

    def _members(self, exemplar: int) -> slice:
        if not -len(self) <= exemplar < len(self):
            raise MIVError(f"There is no exemplar {exemplar}. Expected 0 to {len(self) - 1}.")
        exemplar %= len(self)
        return slice(int(self.bag_ptr[exemplar]), int(self.bag_ptr[exemplar + 1]))
