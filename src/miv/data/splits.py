"""Divide classes or whole clusters of exemplars among train, validation and test."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miv.data import csr
from miv.data.exemplars import ExemplarSet
from miv.errors import MIVError, number_of, unknown_name, warn
from miv.files.arrays import Integers

SPLITS = ("train", "validation", "test")

SPLIT_DRAW = len(SPLITS)
"""Index of the random generator that assigns the splits, after those of the splits themselves."""

Unit = Literal["classes", "parents"]
_FEW_CLASSES = 5  # fewer in validation or test print a warning


@dataclass(frozen=True)
class Shares:
    """The shares of validation and test; train gets the rest.

    Args:
        validation: share for validation; 0 for no validation split.
        test: share for test; 0 for no test split.
    """

    validation: float = 0.2
    test: float = 0.2

    def __post_init__(self) -> None:
        if not (self.validation >= 0 and self.test >= 0 and self.validation + self.test < 1):
            raise MIVError(f"The shares {self.validation:g} and {self.test:g} must leave something for train.")

    def by_split(self) -> dict[str, float]:
        """The wanted splits with their shares."""
        shares = dict(zip(SPLITS, (1 - self.validation - self.test, self.validation, self.test), strict=True))
        return {split: share for split, share in shares.items() if share > 0}


def one_split(sets: dict[str, ExemplarSet], split: str) -> ExemplarSet:
    """One of the sets; an unknown split is an error."""
    if split not in sets:
        raise unknown_name("split", split, sets)
    return sets[split]


def split_names(
    names: Sequence[str], shares: Shares, rng: np.random.Generator, what: Unit = "classes"
) -> dict[str, list[str]]:
    """Assign classes to the splits, at least two to each, or whole parents, at least one to each."""
    least = 1 if what == "parents" else 2
    wanted = shares.by_split()
    if len(names) < least * len(wanted):
        fewer = ", or drop a split (--validation 0, --test 0)" if len(wanted) > 1 else ""
        given = number_of(len(names), "class" if what == "classes" else "parent", what)
        need = f"each split needs at least {'two' if least == 2 else 'one'}. Add {what}{fewer}."
        raise MIVError(f"{given} cannot be split into {', '.join(wanted)}: {need}")
    counts = {split: max(least, round(share * len(names))) for split, share in wanted.items() if split != "train"}
    while len(names) - sum(counts.values()) < least:
        counts[max(counts, key=lambda split: counts[split])] -= 1
    shuffled = [names[i] for i in rng.permutation(len(names))]
    dealt: dict[str, list[str]] = {}
    for split in wanted:
        count = counts.get(split, len(names) - sum(counts.values()))
        dealt[split], shuffled = sorted(shuffled[:count]), shuffled[count:]
    return dealt


def warn_of_few_classes(classes: dict[str, set[str]]) -> None:
    """Warn if validation or test has so few classes that its metrics depend on which ones they are."""
    few = {split: len(own) for split, own in classes.items() if split != "train" and len(own) < _FEW_CLASSES}
    if few:
        counts = " and ".join(f"{split} has only {count}" for split, count in few.items())
        more = "Add classes, or raise their shares, such as --validation 0.34."
        warn(f"Of {len(set().union(*classes.values()))} classes, {counts}. Metrics of so few are not reliable. {more}")


def split_clusters(
    cluster: NDArray[np.int64], shares: Shares, rng: np.random.Generator
) -> dict[str, NDArray[np.int64]]:
    """The increasing numbers of the exemplars of each split, with each cluster ``(E,)`` in a single split.

    Large clusters go first, each to the split that lacks most, to match the shares as well as possible; a split may be
    empty if there are too few clusters.
    """
    names, numbers, sizes = np.unique(cluster, return_inverse=True, return_counts=True)
    shuffled = rng.permutation(len(names))
    order = shuffled[np.argsort(-sizes[shuffled], kind="stable")]
    lacking = {split: share * len(cluster) for split, share in shares.by_split().items()}  # exemplars
    split_of = {}
    for number in order.tolist():
        split_of[number] = max(lacking, key=lambda split: lacking[split])
        lacking[split_of[number]] -= sizes[number]
    assigned = np.array([split_of[number] for number in range(len(names))])[numbers]
    return {split: np.flatnonzero(assigned == split) for split in lacking}


# Find exemplars that must stay together when a set is divided.


def query_groups(exemplars: ExemplarSet) -> Integers:
    """``(E,)`` the unit, from 0, that no division of a set for training divides: the first of the possible ones."""
    return possible_query_groups(exemplars)[0]


def possible_query_groups(exemplars: ExemplarSet) -> list[Integers]:
    """Units ``(E,)`` by the class of the query and by query id, if known, and by query.

    Exemplars that share a reference, directly or through others, have the same query.
    """
    keys: list[ArrayLike] = []
    if exemplars.pool.classes is not None:
        keys.append(exemplars.pool.classes[exemplars.query].astype(str))
    if exemplars.query_id is not None:
        keys.append(exemplars.query_id.astype(str))
    linked = connected(*exemplars.all_references, len(exemplars.pool)) if exemplars.has_references else exemplars.query
    return [np.unique(key, return_inverse=True)[1] for key in (*keys, linked)]


def connected(ptr: Integers, node: Integers, nodes: int) -> Integers:
    """``(E,)`` the connected part of each exemplar in a graph: ``e`` connects the nodes ``node[ptr[e]:ptr[e + 1]]``.

    The number of a part is its smallest node, whatever the order of the links.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    first = node[ptr[:-1]]  # first node of each link; the others connect to it
    graph = csr_array((np.ones(len(node), bool), (csr.to_rows(first, ptr), node)), shape=(nodes, nodes))
    _, part = connected_components(graph, directed=False)
    _, smallest = np.unique(part, return_index=True)  # the parts are numbered from 0
    return np.asarray(smallest[part[first]], np.int64)


# Choose exemplars to hold out, so that epochs and thresholds are chosen on data not used for training.

_DRAWS = 100


def hold_out(exemplars: ExemplarSet, fraction: float, seed: int) -> dict[str, ExemplarSet]:
    """Divide one set into ``train`` and ``validation``, with both labels on both sides, in about the same shares.

    All queries of one class stay together if classes are known, otherwise all exemplars of one query id if there are
    ids, otherwise all exemplars of one query. They are divided only if both sides cannot have both labels otherwise.
    Both sides are the whole set if nothing is held out, or one label has a single exemplar.
    """
    if not 0 <= fraction < 1:
        raise MIVError(f"validation_fraction is {fraction}. Expected at least 0 and less than 1.")
    both = {"train": exemplars, "validation": exemplars}
    if fraction == 0 or np.bincount(exemplars.label, minlength=2).min() < 2:
        return both
    random, wanted = np.random.default_rng(seed), max(2, round(fraction * len(exemplars)))
    for unit in (*possible_query_groups(exemplars), np.arange(len(exemplars))):
        drawn = [_drawn(unit, wanted, random) for _ in range(_DRAWS)]
        # The share of each label that is held out; it must be neither none nor all of them.
        shares = [[float(held_out[exemplars.label == label].mean()) for label in (0, 1)] for held_out in drawn]
        fitting = [number for number, of_labels in enumerate(shares) if all(0 < share < 1 for share in of_labels)]
        if fitting:
            target = wanted / len(exemplars)
            chosen = drawn[min(fitting, key=lambda number: sum(abs(share - target) for share in shares[number]))]
            return {"train": exemplars.subset(~chosen), "validation": exemplars.subset(chosen)}
    return both


def _drawn(unit: NDArray[np.int64], wanted: int, random: np.random.Generator) -> NDArray[np.bool_]:
    """Draw whole units of exemplars at random until there are about as many exemplars as wanted."""
    sizes = np.bincount(unit)
    order = random.permutation(len(sizes))
    before = np.cumsum(sizes[order]) - sizes[order] / 2
    chosen = np.zeros(len(sizes), bool)
    chosen[order[before <= wanted]] = True
    return chosen[unit]
