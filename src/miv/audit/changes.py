"""Exemplars changed in one way whose right answer is known: members taken away or added, another query."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from miv.data import ExemplarSet, csr

Random = np.random.Generator


class Changed(NamedTuple):
    """Changed exemplars, and the places ``(E',)`` of those they were made of in the set that was given."""

    exemplars: ExemplarSet
    places: NDArray[np.int64]


def keep_members(exemplars: ExemplarSet, kept: NDArray[np.bool_]) -> ExemplarSet:
    """Keep the bag members where ``kept`` ``(T,)`` is true, at least one a bag; the labels stay as they are."""
    return ExemplarSet(
        exemplars.pool,
        exemplars.query,
        csr.borders(csr.bag_sums(kept, exemplars.bag_ptr)),
        exemplars.bag_index[kept],
        exemplars.label,
        None if exemplars.witness is None else exemplars.witness[kept],
        exemplars.group,
    )


def add_members(exemplars: ExemplarSet, added: Sequence[NDArray[np.int64]]) -> ExemplarSet:
    """Put further instances, none of them a witness, at the end of each bag."""
    ptr = csr.borders([len(instances) for instances in added])
    owner = np.concatenate([exemplars.owner, csr.owners(ptr)])
    order = np.argsort(owner, kind="stable")
    witness = exemplars.witness
    return ExemplarSet(
        exemplars.pool,
        exemplars.query,
        exemplars.bag_ptr + ptr,
        np.concatenate([exemplars.bag_index, *added])[order],
        exemplars.label,
        None if witness is None else np.concatenate([witness, np.zeros(ptr[-1], bool)])[order],
        exemplars.group,
    )


def repeat_members(exemplars: ExemplarSet, times: int) -> ExemplarSet:
    """Put every bag member in so many times: a larger bag of the same content."""
    place = np.concatenate([np.tile(np.arange(*span), times) for span in _spans(exemplars)])
    return ExemplarSet(
        exemplars.pool,
        exemplars.query,
        exemplars.bag_ptr * times,
        exemplars.bag_index[place],
        exemplars.label,
        None if exemplars.witness is None else exemplars.witness[place],
        exemplars.group,
    )


def delete_as_many_others(exemplars: ExemplarSet, witness: NDArray[np.bool_], random: Random) -> ExemplarSet:
    """Take away, at random, as many members that are no witness as there are witnesses, or all there are."""
    kept = np.ones(len(witness), bool)
    for start, end in _spans(exemplars):
        others = start + np.flatnonzero(~witness[start:end])
        witnesses = end - start - len(others)
        kept[random.choice(others, min(witnesses, len(others)), replace=False)] = False
    return keep_members(exemplars, kept)


def swap_queries(exemplars: ExemplarSet, chosen: NDArray[np.int64], random: Random) -> ExemplarSet | None:
    """Ask of each chosen bag another query, of the same group and of a class that is not in the bag.

    Where classes are not known it is any other query of the group that is not in the bag. An exemplar without such a
    query is left out; ``None`` where none is left.
    """
    group = groups_of(exemplars)
    queries = {one: np.unique(exemplars.query[group == one]) for one in np.unique(group[chosen])}
    classes = exemplars.pool.classes
    kept, swapped = [], []
    for exemplar in chosen:
        candidates, bag, query = queries[group[exemplar]], exemplars.bag(exemplar), exemplars.query[exemplar]
        if classes is None:
            allowed = ~np.isin(candidates, bag) & (candidates != query)
        else:
            taken = {*classes[bag], classes[query]}
            allowed = np.array([one not in taken for one in classes[candidates]], bool)
        if allowed.any():
            kept.append(exemplar)
            swapped.append(random.choice(candidates[allowed]))
    if not kept:
        return None
    subset = exemplars.subset(np.array(kept))
    return ExemplarSet(
        subset.pool,
        np.array(swapped, np.int64),
        subset.bag_ptr,
        subset.bag_index,
        np.zeros(len(kept), np.int8),
        None,
        subset.group,
    )


def add_distractors(exemplars: ExemplarSet, times: int, other_groups: bool, random: Random) -> Changed | None:
    """Make each bag so many times as large with members of negative bags, of its own group or of the others.

    Never of the query's class, where classes are known, and never one that the bag has already. An exemplar for
    which there is none is left out; ``None`` where none is left.
    """
    group, classes = groups_of(exemplars), exemplars.pool.classes
    negative = exemplars.label[exemplars.owner] == 0
    of_group = {
        one: np.unique(exemplars.bag_index[negative & ((group[exemplars.owner] == one) != other_groups)])
        for one in np.unique(group)
    }
    kept, added = [], []
    for exemplar in range(len(exemplars)):
        candidates, query = of_group[group[exemplar]], exemplars.query[exemplar]
        allowed = ~np.isin(candidates, exemplars.bag(exemplar)) & (candidates != query)
        if classes is not None:
            allowed &= classes[candidates] != classes[query]
        fitting = candidates[allowed]
        wanted = int(exemplars.bag_sizes[exemplar]) * (times - 1)
        if len(fitting):
            kept.append(exemplar)
            added.append(random.choice(fitting, wanted, replace=wanted > len(fitting)))
    return Changed(add_members(exemplars.subset(np.array(kept)), added), np.array(kept)) if kept else None


def groups_of(exemplars: ExemplarSet) -> NDArray[np.object_]:
    """``(E,)`` the group of each exemplar; one and the same where the set has none."""
    return np.full(len(exemplars), "", object) if exemplars.group is None else exemplars.group


def _spans(exemplars: ExemplarSet) -> list[tuple[int, int]]:
    ptr = exemplars.bag_ptr.tolist()
    return list(pairwise(ptr))
