"""Divide classes or whole clusters of exemplars among train, validation and test."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from miv.data import SPLITS
from miv.errors import MIVError, MIVWarning

Unit = Literal["classes", "parents", "groups of folders"]
_FEW_CLASSES = 5  # fewer in validation or test print a warning


@dataclass(frozen=True)
class Shares:
    """The shares of validation and test; train gets the rest. A split with share 0 is left out."""

    validation: float = 0.1
    test: float = 0.1

    def __post_init__(self) -> None:
        if not (self.validation >= 0 and self.test >= 0 and self.validation + self.test < 1):
            raise MIVError(
                f"The shares of validation ({self.validation:g}) and test ({self.test:g}) must not be "
                "negative and must leave something for train."
            )

    def by_split(self) -> dict[str, float]:
        """The wanted splits with their shares."""
        shares = dict(zip(SPLITS, (1 - self.validation - self.test, self.validation, self.test), strict=True))
        return {split: share for split, share in shares.items() if share > 0}


def split_classes(names: Sequence[str], shares: Shares, rng: np.random.Generator) -> dict[str, list[str]]:
    """Assign classes to the splits; each gets at least two, because a bag needs more than the query's class."""
    return split_names(names, shares, rng, "classes")


def split_names(names: Sequence[str], shares: Shares, rng: np.random.Generator, what: Unit) -> dict[str, list[str]]:
    """Assign classes to the splits, at least two to each, or whole parents, at least one to each."""
    least = 1 if what == "parents" else 2
    wanted = shares.by_split()
    if len(names) < least * len(wanted):
        fewer = ", or drop a split (--validation 0, --test 0)" if len(wanted) > 1 else ""
        raise MIVError(
            f"{len(names)} {what} cannot be split into {', '.join(wanted)}: each split needs at least "
            f"{'two' if least == 2 else 'one'}. Add {what}{fewer}."
        )
    counts = {split: max(least, round(share * len(names))) for split, share in wanted.items() if split != "train"}
    while len(names) - sum(counts.values()) < least:
        counts[max(counts, key=lambda split: counts[split])] -= 1
    shuffled = [names[i] for i in rng.permutation(len(names))]
    dealt: dict[str, list[str]] = {}
    for split in wanted:
        count = counts.get(split, len(names) - sum(counts.values()))
        dealt[split], shuffled = sorted(shuffled[:count]), shuffled[count:]
    return dealt


def warn_of_few_classes(classes: dict[str, set[str]], shares: Shares, drawn: set[str]) -> None:
    """Warn if validation or test has so few classes that its metrics depend on which ones they are.

    Larger shares are suggested only if train would keep at least half of the classes.

    Args:
        classes: names of the classes by split; some may be in several splits.
        shares: the shares that were asked for.
        drawn: the splits that were drawn by these shares; the others were given.
    """
    few = {split: len(own) for split, own in classes.items() if split != "train" and len(own) < _FEW_CLASSES}
    if not few:
        return
    counts = " and ".join(f"{split} has only {count}" for split, count in few.items())
    total = len(set().union(*classes.values()))
    raised = [split for split in few if split in drawn]
    kept = len(classes.get("train", ())) - sum(_FEW_CLASSES - few[split] for split in raised)
    larger = " and ".join(f"--{split} (now {getattr(shares, split):g})" for split in raised if 2 * kept >= total)
    warnings.warn(
        f"Of {total} classes, {counts}. Metrics of so few classes depend on which ones they are. "
        f"Add classes until each has {_FEW_CLASSES}{f', or raise {larger}' if larger else ''}.",
        MIVWarning,
        stacklevel=3,
    )


def split_clusters(
    cluster: NDArray[np.int64], shares: Shares, rng: np.random.Generator
) -> dict[str, NDArray[np.int64]]:
    """Assign exemplars to the splits, with each cluster in a single split.

    Large clusters go first, each to the split that lacks most, to match the shares as well as possible.

    Args:
        cluster: ``(E,)`` the cluster of each exemplar.
        shares: the wanted shares.
        rng: breaks ties between clusters of equal size.

    Returns:
        For each split, the increasing numbers of its exemplars; a split may be empty if there are too few clusters.
    """
    names, numbers, sizes = np.unique(cluster, return_inverse=True, return_counts=True)
    shuffled = rng.permutation(len(names))
    order = shuffled[np.argsort(-sizes[shuffled], kind="stable")]
    wanted = shares.by_split()
    lacking = np.array(list(wanted.values())) * len(cluster)  # exemplars each split still lacks
    split_of = np.empty(len(names), dtype=np.int64)
    for number in order:
        split_of[number] = lacking.argmax()
        lacking[split_of[number]] -= sizes[number]
    return {split: np.flatnonzero(split_of[numbers] == place) for place, split in enumerate(wanted)}
