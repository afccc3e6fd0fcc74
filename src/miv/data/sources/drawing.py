"""Draw exemplars from classes of instances: for every query, one bag with its class and one without."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from miv.data import csr
from miv.data.exemplars import ExemplarSet
from miv.data.pool import InstancePool
from miv.errors import MIVError, number_of, warn
from miv.runtime import Progress

_MOST_BYTES = 8 << 30
_MOST_REFERENCES = 1000
_BYTES_PER_EXEMPLAR = 300  # beside the members of its bag, while it is drawn


@dataclass(frozen=True)
class Drawing:
    """How exemplars are drawn.

    Every query gives two exemplars, so that a query does not reveal its label: a positive one, with a bag that
    contains witnesses (other instances of the query's class) among distractors (instances of other classes),
    and a negative one with distractors only. A query is never in its own bag, and no instance appears twice in
    a bag.

    Args:
        exemplars: total number of exemplars over all splits, which get shares in proportion to their classes.
        bag_mean: mean bag size.
        bag_min: minimum bag size.
        bag_max: maximum bag size.
        witness_rate: share of witnesses in a positive bag; there is always at least one.
        references_per_query: number of reference instances of the query's class, the query among them; fewer in a
            small class, because one instance is left as a witness.
    """

    exemplars: int = 1000
    bag_mean: float = 10.0
    bag_min: int | None = field(default=None, metadata={"shown": "half the mean"})
    bag_max: int | None = field(default=None, metadata={"shown": "twice the mean"})
    witness_rate: float = 0.2
    references_per_query: int = field(default=1, metadata={"least": 1})

    def __post_init__(self) -> None:
        _check_range("mean bag size", self.bag_mean, 1, 1_000_000)
        smallest, largest = self.bag_range
        if not 1 <= smallest <= self.bag_mean <= largest:
            sizes = f"min {smallest}, mean {self.bag_mean:g}, max {largest}"
            raise MIVError(f"The bag sizes are {sizes}. Expected 1 ≤ min ≤ mean ≤ max.")
        _check_range("number of exemplars", self.exemplars, 2)
        if not 0 < self.witness_rate <= 1:
            raise MIVError(f"The witness rate is {self.witness_rate:g}. Expected a number above 0 and at most 1.")
        _check_range("number of references per query", self.references_per_query, 1, _MOST_REFERENCES)
        needed = self.exemplars * (8 * self.bag_mean + _BYTES_PER_EXEMPLAR)
        if needed > _MOST_BYTES:
            raise MIVError(
                f"{self.exemplars:,} exemplars with bags of {self.bag_mean:g} need {needed / 2**30:,.0f} GiB. Expected "
                f"at most {_MOST_BYTES >> 30}; draw fewer exemplars or smaller bags."
            )

    @property
    def bag_range(self) -> tuple[int, int]:
        """The minimum and maximum bag size."""
        smallest = max(1, int(self.bag_mean / 2)) if self.bag_min is None else self.bag_min
        return smallest, math.ceil(2 * self.bag_mean) if self.bag_max is None else self.bag_max

    def draw(
        self,
        pool: InstancePool,
        members: Mapping[str, NDArray[np.int64]],
        exemplars: int,
        rng: np.random.Generator,
        progress: Progress,
        split: str,
    ) -> ExemplarSet:
        """Draw exemplars from the classes of one split, given the pool indices of each class."""
        if not members:
            raise MIVError(f"The split {split} has no instances left. Add instances, or use another seed.")
        classes = _Classes(members)
        self._check_enough(classes, split)
        references: list[NDArray[np.int64]] = []
        bags: list[NDArray[np.int64]] = []
        witness: list[NDArray[np.bool_]] = []
        too_few = 0
        with progress.step(f"Drawing {split} exemplars", total=exemplars) as advance:
            while len(bags) < exemplars:
                for place in rng.permutation(classes.query_places)[: (exemplars - len(bags) + 1) // 2]:
                    more = classes.more_references(place, self.references_per_query - 1, rng)
                    for positive in (True, False)[: exemplars - len(bags)]:
                        size = self._bag_size(rng)
                        wanted = self._witness_count(size, rng) if positive else 0
                        own = classes.witnesses(place, wanted, rng, more)
                        bag = np.concatenate([own, classes.distractors(place, size - len(own), rng)])
                        order = rng.permutation(len(bag))  # the position of a witness must not reveal it
                        references.append(classes.flat[[place, *more]])
                        bags.append(bag[order])
                        witness.append(order < len(own))
                        too_few += len(own) < wanted
                        advance(1)
        if too_few:
            warn(f"{split}: {too_few} of {(len(bags) + 1) // 2} positive bags contain fewer witnesses than requested.")
        labels = ([1, 0] * len(bags))[: len(bags)]
        return ExemplarSet.from_lists(pool, None, bags, labels, witness, references=references)

    def _bag_size(self, rng: np.random.Generator) -> int:
        """A size within the range and with exactly the wanted mean: min plus a binomial draw."""
        smallest, largest = self.bag_range
        span = largest - smallest
        share = (self.bag_mean - smallest) / span if span else 0.0
        return smallest + int(rng.binomial(span, share))

    def _witness_count(self, size: int, rng: np.random.Generator) -> int:
        return max(1, int(self.witness_rate * size + rng.random()))  # the mean is that of the rate

    def _check_enough(self, classes: "_Classes", split: str) -> None:
        if not len(classes.query_places):
            raise MIVError(f"The split {split} has no class with two different instances. Add instances per class.")
        others = len(classes.flat) - classes.largest
        largest_bag = self.bag_range[1]
        if others < largest_bag:
            raise MIVError(
                f"The split {split} has {number_of(classes.count, 'class', 'classes')} and {len(classes.flat)} "
                f"instances; outside its largest class there are {others}, too few for a bag of {largest_bag}. Lower "
                "--bag-max, add instances, or give this split a larger share of the classes."
            )


class _Classes:
    """The instances of a split, sorted by class: all other classes are then two slices of one array."""

    def __init__(self, members: Mapping[str, NDArray[np.int64]]) -> None:
        groups = list(members.values())
        ptr = csr.borders([len(group) for group in groups])
        sizes = np.diff(ptr)
        self.count = len(groups)
        self.largest = int(sizes.max())
        self.flat = np.concatenate(groups)  # (n,) pool indices
        self._borders = list(pairwise(ptr.tolist()))
        self._class_of = csr.owners(ptr)  # (n,)
        self.query_places = np.flatnonzero((sizes >= 2)[self._class_of])

    def more_references(self, place: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """The places of at most ``count`` other instances of the class; at least one is left as a witness."""
        others = self._others(place)
        count = min(count, len(others) - 1)
        return others[rng.choice(len(others), count, replace=False)] if count > 0 else others[:0]

    def witnesses(
        self, place: int, count: int, rng: np.random.Generator, references: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """At most ``count`` other instances of the class of the query at ``place``, none of them a reference."""
        others = np.setdiff1d(self._others(place), references)
        return self.flat[others[rng.choice(len(others), min(count, len(others)), replace=False)]]

    def distractors(self, place: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Exactly ``count`` instances of other classes."""
        rng.random()  # so that the same seed gives the same sets as before
        start, stop = self._borders[self._class_of[place]]
        chosen = rng.choice(len(self.flat) - (stop - start), count, replace=False)
        return self.flat[chosen + (stop - start) * (chosen >= start)]

    def _others(self, place: int) -> NDArray[np.int64]:
        """The places of the other instances of the class."""
        start, stop = self._borders[self._class_of[place]]
        return np.delete(np.arange(start, stop), place - start)


def _check_range(what: str, value: float, least: float, most: float = math.inf) -> None:
    if not least <= value <= most:
        raise MIVError(f"The {what} is {value:g}. Expected a number from {least:g} to {most:g}.")
