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
from miv.data.columns import (
    add_strings,
    as_column,
    as_integers,
    as_labels,
    as_strings,
    as_weights,
    check_borders,
    check_length,
    check_range,
    checked_references,
    describe,
    joined_references,
    list_of,
)
from miv.data.pool import InstancePool, pool_of
from miv.errors import MIVError, number_of


class Exemplar(NamedTuple):
    """One exemplar with its values.

    Args:
        query: the query's value: an image ``(H, W)`` or ``(H, W, 3)``, a text, or a vector ``(C,)``. If the set has
            references, ``(R, ...)``: one row per reference.
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
        query: ``(E,)`` int64, the query instance; of several references, the first.
        bag_ptr: ``(E + 1,)`` int64, increasing from 0 to ``T``; bag ``e`` is
            ``bag_index[bag_ptr[e]:bag_ptr[e + 1]]``.
        bag_index: ``(T,)`` int64, the members of all bags.
        label: ``(E,)`` int8, 1 if the bag contains something of the query's class, else 0.
        witness: ``(T,)`` bool, which members show it, if known. Never shown to a model.
        group: ``(E,)`` strings to group results by, such as the digit.
        weight: ``(E,)`` weight of each exemplar in training; only the ratios matter. ``None``: all equal.
        query_id: ``(E,)`` strings; equivalent queries share an id, such as signatures of one signer.
        reference_ptr: ``(E + 1,)`` int64; the references of exemplar ``e`` are
            ``reference_index[reference_ptr[e]:reference_ptr[e + 1]]``. ``None`` if every query is one instance.
        reference_index: ``(R,)`` int64, the references of all exemplars; each begins with its query.

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
    query_id: NDArray[Any] | None = None
    reference_ptr: NDArray[np.int64] | None = None
    reference_index: NDArray[np.int64] | None = None

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
        checked: dict[str, Any] = {"query": query, "bag_ptr": bag_ptr, "bag_index": bag_index}
        checked |= checked_references(query, self.reference_ptr, self.reference_index, len(self.pool))
        checked["label"] = as_labels(self.label, len(query))
        if self.witness is not None:
            as_column("witness", self.witness, "b", "bool, one per bag member,", len(bag_index))
        for name, check in (("group", as_strings), ("weight", as_weights), ("query_id", as_strings)):
            if (column := getattr(self, name)) is not None:
                checked[name] = check(name, column, len(query))
        for name, array in checked.items():
            object.__setattr__(self, name, array)

    @classmethod
    def from_lists(
        cls,
        pool: InstancePool,
        queries: Sequence[int] | NDArray[Any] | None,
        bags: Sequence[Sequence[int] | NDArray[Any]],
        labels: Sequence[int] | NDArray[Any],
        witnesses: Sequence[Sequence[bool] | NDArray[Any]] | None = None,
        groups: Sequence[str] | NDArray[Any] | None = None,
        *,
        references: Sequence[Sequence[int] | NDArray[Any]] | None = None,
        query_ids: Sequence[str] | NDArray[Any] | None = None,
    ) -> "ExemplarSet":
        """Create a set from Python lists with one entry per exemplar; ``bags`` and ``witnesses`` are lists of lists.

        With ``references``, also a list of lists, an exemplar asks with its query and these instances, each once;
        ``queries`` may then be ``None``.
        """
        members = [list_of(f"bag {number}", bag, "iu") for number, bag in enumerate(bags)]
        columns: dict[str, Any] = {
            "bag_ptr": csr.borders([len(bag) for bag in members]),
            "bag_index": np.concatenate([np.zeros(0, np.int64), *members]).astype(np.int64),
            "label": list_of("labels", labels, "iub"),
            "query": None if queries is None else list_of("queries", queries, "iu").astype(np.int64),
        }
        if references is not None:
            columns["reference_ptr"], columns["reference_index"] = joined_references(columns["query"], references)
            columns["query"] = columns["reference_index"][columns["reference_ptr"][:-1]]
        if columns["query"] is None:
            raise MIVError("There are neither queries nor references. Expected one of them.")
        if witnesses is not None:
            if len(witnesses) != len(members):
                raise MIVError(f"Got witnesses for {len(witnesses)} bags. Expected {len(members)}.")
            flags = [list_of(f"witnesses of bag {number}", row, "b") for number, row in enumerate(witnesses)]
            for number, (row, bag) in enumerate(zip(flags, members, strict=True)):
                check_length(f"witnesses of bag {number}", row, len(bag))
            columns["witness"] = np.concatenate([np.zeros(0, bool), *flags]).astype(bool)
        for name, texts in (("group", groups), ("query_id", query_ids)):
            if texts is not None:
                columns[name] = np.array(texts, dtype=object)
        return cls(pool, **columns)

    @classmethod
    def from_arrays(
        cls,
        queries: Any,
        bags: Sequence[Any],
        labels: Sequence[int],
        witnesses: Sequence[Sequence[bool]] | None = None,
        groups: Sequence[str] | None = None,
        *,
        references: Sequence[Any] | None = None,
        query_ids: Sequence[str] | None = None,
    ) -> "ExemplarSet":
        """Create a set of ``E`` exemplars from arrays; equal instances are stored once.

        Args:
            queries: features ``(E, C)``, images ``(E, H, W)`` or ``(E, H, W, 3)`` uint8, or ``E`` texts. ``None`` if
                there are references.
            bags: ``E`` bags of the same kind: each features ``(N, C)``, ``N`` images of the same shape, or
                ``N`` texts.
            labels: ``E`` labels, 0 or 1.
            witnesses: for each bag, ``N`` values True or False, if known.
            groups: ``E`` strings to group results by.
            references: for each exemplar a list of instances of the same kind, any number of them: what is known of
                the class to look for. They are added to the query, if there is one; equal ones count once.
            query_ids: ``E`` strings; equivalent queries share an id.

        >>> exemplars = ExemplarSet.from_arrays(
        ...     queries=[[1.0, 0.0], [0.0, 1.0]],
        ...     bags=[[[0.9, 0.1], [0.0, 1.0]], [[0.9, 0.1]]],
        ...     labels=[1, 0],
        ...     witnesses=[[True, False], [False]],
        ... )
        >>> len(exemplars), len(exemplars.pool), exemplars.bag(0).tolist()
        (2, 3, [1, 2])
        """
        pool, reference_rows, bag_rows = pool_of(queries, bags, references)
        return cls.from_lists(
            pool, None, bag_rows, labels, witnesses, groups, references=reference_rows, query_ids=query_ids
        )

    @classmethod
    def load(cls, folder: Path | str, *, verify: bool = False) -> "ExemplarSet":
        """Open a saved set; see ``miv.data.folder.load_set``."""
        from miv.data.folder import load_set

        return load_set(cls, Path(folder), verify=verify)

    def save(
        self,
        folder: Path | str,
        *,
        builder: str = "ExemplarSet.save",
        options: dict[str, Any] | None = None,
        seed: int | None = None,
        overwrite: bool = False,
    ) -> None:
        """Save the set as a folder, atomically; the manifest records what built it, its options and seed.

        The folder must be new or empty, or contain a set, which ``overwrite`` replaces once the new one is complete.
        """
        from miv.data.folder import save_set

        save_set(self, Path(folder), overwrite=overwrite, builder=builder, options=options or {}, seed=seed)

    def __len__(self) -> int:
        return len(self.query)

    def __repr__(self) -> str:
        sizes = sorted({int(self.bag_sizes.min()), int(self.bag_sizes.max())})
        parts = [
            number_of(len(self), "exemplar"),
            f"{int(self.label.sum())} positive",
            f"bags of {' to '.join(map(str, sizes))}",
            "" if self.reference_index is None else f"{len(self.reference_index)} references",
            "witnesses known" * (self.witness is not None),
            self.pool.summary,
        ]
        return f"ExemplarSet({', '.join(filter(None, parts))})"

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
        query = self.references(which) if self.has_references else self.query[which]
        return Exemplar(values[query], values[self.bag(which)], int(self.label[which]))

    def __iter__(self) -> Iterator[Exemplar]:
        return (self[exemplar] for exemplar in range(len(self)))

    def bag(self, exemplar: int) -> NDArray[np.int64]:
        """``(N,)`` the instances in the bag of an exemplar."""
        return self.bag_index[self._members(exemplar)]

    def references(self, exemplar: int) -> NDArray[np.int64]:
        """``(R,)`` the references of an exemplar, its query first; often the query alone."""
        ptr, index = self.all_references
        exemplar = self._number(exemplar)
        return index[int(ptr[exemplar]) : int(ptr[exemplar + 1])]

    @property
    def has_references(self) -> bool:
        """Whether the query of some exemplar is several instances."""
        return self.reference_index is not None

    @cached_property
    def all_references(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Borders ``(E + 1,)`` and references ``(R,)`` of all exemplars, also if every query is one instance."""
        if self.reference_ptr is None or self.reference_index is None:
            return np.arange(len(self) + 1), self.query
        return self.reference_ptr, self.reference_index

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
        """The instances that are a reference or in a bag, in increasing order."""
        seen = np.zeros(len(self.pool), bool)
        seen[self.all_references[1]] = True
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
        columns: dict[str, Any] = {}
        columns["bag_ptr"], members = csr.take_bags(self.bag_ptr, chosen)
        rows = dict.fromkeys(("query", "label", "group", "weight", "query_id"), chosen)
        rows |= {"bag_index": members, "witness": members}
        if self.reference_ptr is not None:
            columns["reference_ptr"], rows["reference_index"] = csr.take_bags(self.reference_ptr, chosen)
        for name, places in rows.items():
            columns[name] = None if getattr(self, name) is None else getattr(self, name)[places]
        return ExemplarSet(self.pool, **columns)

    def with_first_reference(self) -> "ExemplarSet":
        """Return the same exemplars, each with its first reference, ``query``, as the only one."""
        return replace(self, reference_ptr=None, reference_index=None)

    def by_reference(self) -> "ExemplarSet":
        """Return one exemplar per reference: the references of one query share its bag, and its weight equally."""
        if not self.has_references:
            return self
        ptr, index = self.all_references
        chosen = csr.owners(ptr)
        weight = (np.ones(len(self)) if self.weight is None else self.weight) / np.diff(ptr)
        return replace(self.with_first_reference().subset(chosen), query=index, weight=weight[chosen])

    def compact(self) -> "ExemplarSet":
        """Return the same exemplars with a pool of only the instances they use, in the same order."""
        if len(self.used) == len(self.pool):
            return self
        place = np.full(len(self.pool), -1, np.int64)
        place[self.used] = np.arange(len(self.used))
        pool = self.pool.take(self.used)
        query, bag_index = place[self.query], place[self.bag_index]
        reference_index = None if self.reference_index is None else place[self.reference_index]
        return replace(self, pool=pool, query=query, bag_index=bag_index, reference_index=reference_index)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over everything but names: equal for equal sets, whether created, saved or loaded."""
        digest = hashlib.sha256(self.pool.fingerprint.encode())
        for array in (self.query, self.bag_ptr, self.bag_index, self.label, self.witness):
            digest.update(b"-" if array is None else np.ascontiguousarray(array).data)
        for strings in (self.group, self.pool.classes):
            if strings is not None:
                add_strings(digest, strings)
            digest.update(b"-" if strings is None else b"+")
        if self.weight is not None:
            digest.update(self.weight.tobytes())
        if self.query_id is not None:
            digest.update(b"query_id")
            add_strings(digest, self.query_id)
        if self.reference_ptr is not None and self.reference_index is not None:
            digest.update(b"references" + self.reference_ptr.tobytes() + self.reference_index.tobytes())
        return digest.hexdigest()

    def _members(self, exemplar: int) -> slice:
        exemplar = self._number(exemplar)
        return slice(int(self.bag_ptr[exemplar]), int(self.bag_ptr[exemplar + 1]))

    def _number(self, exemplar: int) -> int:
        if not -len(self) <= exemplar < len(self):
            raise MIVError(f"There is no exemplar {exemplar}. Expected 0 to {len(self) - 1}.")
        return exemplar % len(self)
