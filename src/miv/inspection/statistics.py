"""Statistics of one set: sizes, bags, witnesses, labels, duplicates."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.data import ExemplarSet, csr


@dataclass(frozen=True)
class Distribution:
    """Summary of a distribution; ``variance`` is the population variance (divided by N).

    >>> Distribution.of(np.array([1, 2, 6]))
    Distribution(mean=3.0, variance=4.666666666666667, minimum=1.0, median=2.0, maximum=6.0)
    """

    mean: float
    variance: float
    minimum: float
    median: float
    maximum: float

    @classmethod
    def of(cls, numbers: NDArray[Any]) -> "Distribution | None":
        """Measure ``(N,)`` numbers; ``None`` if there are none."""
        if len(numbers) == 0:
            return None
        parts = (numbers.mean(), numbers.var(), numbers.min(), np.median(numbers), numbers.max())
        return cls(*map(float, parts))


@dataclass(frozen=True)
class SetStatistics:
    """The statistics of one set in ``miv data inspect``.

    Args:
        kind: kind of instance.
        instances: size of the pool.
        shape: shape of one instance.
        unused_instances: instances in the pool that are neither a query nor in a bag.
        duplicate_instances: instances with the same content as an earlier one in the pool.
        classes: number of classes, if known.
        exemplars: number of exemplars.
        duplicate_exemplars: exemplars with the same query and bag, by content, as an earlier one.
        positives: number of exemplars with label 1.
        positive_share: their share.
        bag_entries: total number of bag members.
        bag_size: instances in a bag.
        witnesses: number of witnesses, if known.
        witnesses_per_positive: witnesses in a positive bag.
        witness_rate: witnesses divided by bag size, over positive bags.
        groups: exemplars in each group, if there are groups.
    """

    kind: str
    instances: int
    shape: list[int]
    unused_instances: int
    duplicate_instances: int
    classes: int | None
    exemplars: int
    duplicate_exemplars: int
    positives: int
    positive_share: float
    bag_entries: int
    bag_size: Distribution | None
    witnesses: int | None
    witnesses_per_positive: Distribution | None
    witness_rate: Distribution | None
    groups: dict[str, int] | None


def set_statistics(exemplars: ExemplarSet, first_identical: NDArray[np.int64] | None = None) -> SetStatistics:
    """Measure a set; ``first_identical`` is that of its pool, if already known."""
    pool = exemplars.pool
    first = pool.first_identical() if first_identical is None else first_identical
    counts = rates = None
    if exemplars.witness is not None:
        positive = exemplars.label == 1
        counts = witnesses_in_bags(exemplars)[positive]
        rates = counts / exemplars.bag_sizes[positive]
    groups = None
    if exemplars.group is not None:
        names, sizes = np.unique(exemplars.group, return_counts=True)
        groups = {str(name): int(size) for name, size in zip(names, sizes, strict=True)}
    return SetStatistics(
        kind=pool.kind,
        instances=len(pool),
        shape=list(pool.values.shape[1:]),
        unused_instances=len(pool) - len(exemplars.used),
        duplicate_instances=int((first != np.arange(len(pool))).sum()),
        classes=None if pool.classes is None else len(set(pool.classes.tolist())),
        exemplars=len(exemplars),
        duplicate_exemplars=int((same_exemplar(exemplars, first) != np.arange(len(exemplars))).sum()),
        positives=int(exemplars.label.sum()),
        positive_share=float(exemplars.label.mean()),
        bag_entries=len(exemplars.bag_index),
        bag_size=Distribution.of(exemplars.bag_sizes),
        witnesses=None if exemplars.witness is None else int(exemplars.witness.sum()),
        witnesses_per_positive=None if counts is None else Distribution.of(counts),
        witness_rate=None if rates is None else Distribution.of(rates),
        groups=groups,
    )


def witnesses_in_bags(exemplars: ExemplarSet) -> NDArray[np.int64]:
    """``(E,)`` the number of witnesses in each bag."""
    assert exemplars.witness is not None  # noqa: S101 - the caller asks only where they are known
    return csr.bag_sums(exemplars.witness, exemplars.bag_ptr)


def same_exemplar(exemplars: ExemplarSet, first_identical: NDArray[np.int64]) -> NDArray[np.int64]:
    """``(E,)`` for each exemplar the first one with the same query or references and bag by content, in any order."""
    members = first_identical[exemplars.bag_index]
    members = members[np.lexsort((members, exemplars.owner))]  # each bag in rising order
    asked_ptr, references = exemplars.all_references
    references = first_identical[references]
    references = references[np.lexsort((references, csr.owners(asked_ptr)))]
    borders, asked = exemplars.bag_ptr.tolist(), asked_ptr.tolist()
    seen: dict[tuple[bytes, bytes], int] = {}
    found = np.empty(len(exemplars), np.int64)
    for number in range(len(exemplars)):
        query = references[asked[number] : asked[number + 1]]
        key = query.tobytes(), members[borders[number] : borders[number + 1]].tobytes()
        found[number] = seen.setdefault(key, number)
    return found
