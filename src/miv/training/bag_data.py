"""Bags of frozen features as plain arrays, on which recipes are fitted and compared."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from miv.data import ExemplarSet, csr
from miv.data.splits import query_groups
from miv.evaluation.baselines import unit_rows
from miv.files.arrays import Floats, Integers, Labels, Mask, Vectors


@dataclass(frozen=True, eq=False)
class BagData:
    """``R`` queries (each reference counts as one) and their bags with ``T`` targets, over ``U`` distinct instances.

    Args:
        units: ``(U, C)`` features scaled to length 1.
        query: ``(R,)`` rows of the queries.
        target: ``(T,)`` rows of the targets.
        ptr: ``(R + 1,)`` the borders between the bags.
        label: ``(R,)``.
        weight: ``(R,)``, 1 on average over exemplars; the references of a query share its weight.
        group: ``(R,)`` what must not be on two sides of a fold.
        exemplar: ``(R,)`` number of the exemplar that a reference belongs to.
        match: ``(T,)`` similarity of the tokens of texts, or zeros.
        witness: ``(T,)`` whether a target is a witness, if that is known.
    """

    units: Vectors
    query: Integers
    target: Integers
    ptr: Integers
    label: Labels
    weight: Floats
    group: Integers
    exemplar: Integers
    match: Floats
    witness: Mask | None = None

    @classmethod
    def of(cls, exemplars: ExemplarSet, features: Vectors, channels: int | None = None) -> "BagData":
        """From the features ``(P, C)`` of the pool, of which the first ``channels`` are compared."""
        references = exemplars.by_reference()
        owner = csr.owners(exemplars.all_references[0])  # (R,)
        weight = np.ones(len(exemplars)) if exemplars.weight is None else exemplars.weight / exemplars.weight.mean()
        used = references.used
        return cls(
            units=unit_rows(features[:, :channels], used),
            query=np.searchsorted(used, references.query),
            target=np.searchsorted(used, references.bag_index),
            ptr=references.bag_ptr,
            label=references.label,
            weight=(weight / np.diff(exemplars.all_references[0]))[owner],
            group=query_groups(exemplars)[owner],
            exemplar=owner,
            match=np.zeros(len(references.bag_index)),
            witness=references.witness,
        )

    def __len__(self) -> int:
        return len(self.query)

    @property
    def owner(self) -> Integers:
        """``(T,)`` the number of each target's query."""
        return csr.owners(self.ptr)

    @property
    def can_learn(self) -> bool:
        """Whether there are bags of both labels."""
        return len(self) > 0 and bool(self.label.min() < self.label.max())

    def subset(self, keep: Mask) -> "BagData":
        """The references for which ``(R,)`` is true."""
        ptr, members = csr.take_bags(self.ptr, np.flatnonzero(keep))
        used, rows = np.unique(np.concatenate([self.query[keep], self.target[members]]), return_inverse=True)
        query, target = np.split(rows, [int(keep.sum())])
        rest = {name: getattr(self, name)[keep] for name in ("label", "weight", "group", "exemplar")}
        witness = None if self.witness is None else self.witness[members]
        parts = {"units": self.units[used], "match": self.match[members], "witness": witness}
        return replace(self, query=query, target=target, ptr=ptr, **parts, **rest)

    def sample(self, most: int, most_targets: int, random: np.random.Generator) -> "BagData":
        """At most so many queries and targets; all references of an exemplar or none."""
        if len(self) <= most and len(self.target) <= most_targets:
            return self
        size = np.bincount(self.exemplar, np.diff(self.ptr))  # (E,) targets, once per reference
        count = np.bincount(self.exemplar)
        order = random.permutation(len(size))
        order = order[size[order] <= most_targets]  # one giant bag must not leave out the others
        fits = (np.cumsum(size[order]) <= most_targets) & (np.cumsum(count[order]) <= most)
        return self.subset(np.isin(self.exemplar, order[fits]))

    @property
    def weight_of_exemplars(self) -> Floats:
        """``(E,)`` the weights of the exemplars that have references here."""
        return np.asarray(np.bincount(np.unique(self.exemplar, return_inverse=True)[1], self.weight), np.float64)

    def per_exemplar(self, values: Floats) -> Floats:
        """``(E,)`` the mean of ``(R,)`` over the references of each exemplar, in their order."""
        _, number = np.unique(self.exemplar, return_inverse=True)
        return np.asarray(np.bincount(number, values) / np.bincount(number))

    @property
    def first(self) -> NDArray[np.int64]:
        """``(E,)`` the first reference of each exemplar."""
        return np.unique(self.exemplar, return_index=True)[1]
