"""Exemplars drawn from classes of instances: for every query a bag with its class and a bag without."""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from miv.data import ExemplarSet, InstancePool, csr
from miv.data.sources.nearness import nearest_classes
from miv.errors import MIVError
from miv.runtime.progress import Progress

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Drawing:
    """How exemplars are drawn.

    Every query gives two exemplars, so that a query says nothing of its label: a positive one, whose bag
    holds witnesses (other instances of the query's class) among distractors (instances of other classes),
    and a negative one with distractors only. A query is never in its own bag, and no instance is twice in
    a bag.

    Args:
        exemplars: how many in all; the splits get shares in proportion to their classes.
        bag_mean: mean size of a bag.
        bag_min: smallest size of a bag; where it is not said, half the mean.
        bag_max: largest size of a bag; where it is not said, twice the mean.
        witness_rate: share of a positive bag that is witnesses; there is always at least one.
        witnesses: exactly so many witnesses in every positive bag, instead of a rate.
        hard_negatives: share of the distractors that comes from the classes most like the query's, in
            positive and negative bags alike.
        hard_classes: how many classes count as most like the query's.
    """

    exemplars: int = 1000
    bag_mean: float = 10.0
    bag_min: int | None = None
    bag_max: int | None = None
    witness_rate: float = 0.2
    witnesses: int | None = None
    hard_negatives: float = 0.0
    hard_classes: int = 5

    def __post_init__(self) -> None:
        if self.exemplars < 2:
            raise MIVError(f"{self.exemplars} exemplars cannot be drawn; ask for at least 2.")
        if not 1 <= self.bag_mean <= 1_000_000:
            raise MIVError(f"The mean bag size is {self.bag_mean:g}. Expected at least 1.")
        smallest, largest = self.bag_range
        if not 1 <= smallest <= self.bag_mean <= largest:
            raise MIVError(
                "Bag sizes must satisfy 1 ≤ min ≤ mean ≤ max; "
                f"these are: min {smallest}, mean {self.bag_mean:g}, max {largest}."
            )
        if not 0 < self.witness_rate <= 1:
            raise MIVError(f"The witness rate must be above 0 and at most 1, not {self.witness_rate:g}.")
        if self.witnesses is not None and not 1 <= self.witnesses <= smallest:
            raise MIVError(
                f"Every positive bag cannot hold {self.witnesses} witnesses: give a number from 1 to the "
                f"smallest bag size, {smallest}, or raise that size."
            )
        if not 0 <= self.hard_negatives <= 1:
            raise MIVError(f"The share of hard negatives must be from 0 to 1, not {self.hard_negatives:g}.")
        if self.hard_classes < 1:
            raise MIVError(f"At least 1 class must count as most like the query's, not {self.hard_classes}.")

    @property
    def bag_range(self) -> tuple[int, int]:
        """The smallest and the largest size of a bag."""
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
        """Draw ``exemplars`` exemplars over the classes of one split.

        Args:
            pool: the instances.
            members: for each class of the split the indices of its instances in the pool.
            exemplars: how many.
            rng: where chance comes from.
            progress: told of every exemplar.
            split: the name of the split, for messages.
        """
        if not members:
            raise MIVError(f"The split {split} has no instances left. Give more, or another seed.")
        classes = _Classes(pool, members, self)
        self._check_enough(classes, split)
        queries: list[int] = []
        bags: list[NDArray[np.int64]] = []
        witness: list[NDArray[np.bool_]] = []
        too_few = 0
        with progress.step(f"Drawing {split} exemplars", total=exemplars) as advance:
            while len(queries) < exemplars:
                for place in rng.permutation(classes.query_places)[: (exemplars - len(queries) + 1) // 2]:
                    for positive in (True, False)[: exemplars - len(queries)]:
                        size = self._bag_size(rng)
                        wanted = self._witness_count(size, rng) if positive else 0
                        shown = classes.witnesses(place, wanted, rng)
                        bag = np.concatenate([shown, classes.distractors(place, size - len(shown), rng)])
                        order = rng.permutation(len(bag))  # a witness's position must tell nothing
                        queries.append(int(classes.flat[place]))
                        bags.append(bag[order])
                        witness.append(order < len(shown))
                        too_few += len(shown) < wanted
                        advance(1)
        if too_few:
            logger.warning(
                "%s: %d of %d positive bags hold fewer witnesses than asked, because their class has too few "
                "instances; distractors fill the bag.",
                split,
                too_few,
                (len(queries) + 1) // 2,
            )
        return ExemplarSet(
            pool=pool,
            query=np.array(queries, dtype=np.int64),
            bag_ptr=csr.borders([len(bag) for bag in bags]),
            bag_index=np.concatenate(bags),
            label=np.array([1, 0] * len(queries), dtype=np.int8)[: len(queries)],
            witness=np.concatenate(witness),
        )

    def _bag_size(self, rng: np.random.Generator) -> int:
        """A size with exactly the wanted mean that never leaves the range: min plus a binomial draw."""
        smallest, largest = self.bag_range
        span = largest - smallest
        share = (self.bag_mean - smallest) / span if span else 0.0
        return smallest + int(rng.binomial(span, share))

    def _witness_count(self, size: int, rng: np.random.Generator) -> int:
        if self.witnesses is not None:
            return self.witnesses
        return max(1, _round_at_random(self.witness_rate * size, rng))

    def _check_enough(self, classes: "_Classes", split: str) -> None:
        if not len(classes.query_places):
            raise MIVError(
                f"The split {split} has no class with two different instances, so no query could have a "
                "witness. Give more instances a class, or another seed."
            )
        others = len(classes.flat) - classes.largest
        largest_bag = self.bag_range[1]
        if others < largest_bag:
            raise MIVError(
                f"The split {split} has {classes.count} classes with {len(classes.flat)} instances; beside "
                f"its largest class {others} are left, too few for a bag of {largest_bag}. Lower --bag-max, "
                "give more instances, or give this split a larger share of the classes."
            )


class _Classes:
    """The instances of a split, class after class: all other classes are then two stretches of one array."""

    def __init__(self, pool: InstancePool, members: Mapping[str, NDArray[np.int64]], drawing: Drawing) -> None:
        groups: Sequence[NDArray[np.int64]] = list(members.values())
        ptr = csr.borders([len(group) for group in groups])
        sizes = np.diff(ptr)
        self.count = len(groups)
        self.largest = int(sizes.max())
        self.flat = np.concatenate(groups)  # (n,) pool indices
        self._borders = list(pairwise(ptr.tolist()))
        self._class_of = csr.owners(ptr)  # (n,)
        self.query_places = np.flatnonzero(sizes[self._class_of] >= 2)
        self._hard_share = drawing.hard_negatives
        self._near: list[NDArray[np.int64]] = []  # for each class the pool indices of the classes like it
        if drawing.hard_negatives:
            for others in nearest_classes(pool, groups, drawing.hard_classes):
                self._near.append(np.concatenate([groups[other] for other in others]))

    def witnesses(self, place: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """At most ``count`` other instances of the class of the query at ``place``."""
        start, stop = self._borders[self._class_of[place]]
        chosen: NDArray[np.int64] = start + rng.choice(stop - start - 1, min(count, stop - start - 1), replace=False)
        shown: NDArray[np.int64] = self.flat[chosen + (chosen >= place)]
        return shown

    def distractors(self, place: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Exactly ``count`` instances of other classes, the wanted share of them from the nearest classes."""
        hard = self._hard(place, _round_at_random(self._hard_share * count, rng), rng)
        start, stop = self._borders[self._class_of[place]]
        others = len(self.flat) - (stop - start)
        chosen = rng.choice(others, count, replace=False)
        easy = self.flat[chosen + (stop - start) * (chosen >= start)]
        if not len(hard):
            return easy
        taken = set(hard.tolist())
        filling = [index for index in easy.tolist() if index not in taken]
        return np.append(hard, np.array(filling[: count - len(hard)], dtype=np.int64))

    def _hard(self, place: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        if not count:
            return self.flat[:0]
        candidates = self._near[self._class_of[place]]
        return candidates[rng.choice(len(candidates), min(count, len(candidates)), replace=False)]


def _round_at_random(value: float, rng: np.random.Generator) -> int:
    """Round up or down so that the mean of many draws is ``value`` itself."""
    return int(np.floor(value + rng.random()))
