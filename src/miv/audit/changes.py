"""Change exemplars so that the right answer is known: remove or add members, or swap the query."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from miv.data import ExemplarSet, csr

Random = np.random.Generator


class Changed(NamedTuple):
    """Changed exemplars, and the places ``(E',)`` of the originals in the given set."""

    exemplars: ExemplarSet
    places: NDArray[np.int64]


def keep_members(exemplars: ExemplarSet, kept: NDArray[np.bool_]) -> ExemplarSet:
    """Keep the bag members where ``kept`` ``(T,)`` is true, at least one per bag; the labels are unchanged."""
    return replace(
        exemplars,
        bag_ptr=csr.borders(csr.bag_sums(kept, exemplars.bag_ptr)),
        bag_index=exemplars.bag_index[kept],
        witness=None if exemplars.witness is None else exemplars.witness[kept],
    )


def add_members(exemplars: ExemplarSet, added: Sequence[NDArray[np.int64]]) -> ExemplarSet:
    """Append instances that are not witnesses to each bag."""
    ptr = csr.borders([len(instances) for instances in added])
    owner = np.concatenate([exemplars.owner, csr.owners(ptr)])
    order = np.argsort(owner, kind="stable")
    witness = exemplars.witness
    return replace(
        exemplars,
        bag_ptr=exemplars.bag_ptr + ptr,
        bag_index=np.concatenate([exemplars.bag_index, *added])[order],
        witness=None if witness is None else np.concatenate([witness, np.zeros(ptr[-1], bool)])[order],
    )


def repeat_members(exemplars: ExemplarSet, times: int) -> ExemplarSet:
    """Repeat every bag member: a larger bag with the same content."""
    place = np.concatenate([np.tile(np.arange(*span), times) for span in _spans(exemplars)])
    return replace(
        exemplars,
        bag_ptr=exemplars.bag_ptr * times,
        bag_index=exemplars.bag_index[place],
        witness=None if exemplars.witness is None else exemplars.witness[place],
    )


def delete_as_many_others(exemplars: ExemplarSet, witness: NDArray[np.bool_], random: Random) -> ExemplarSet:
    """Remove random non-witnesses, as many as there are witnesses, or all of them."""
    kept = np.ones(len(witness), bool)
    for start, end in _spans(exemplars):
        others = start + np.flatnonzero(~witness[start:end])
        witnesses = end - start - len(others)
        kept[random.choice(others, min(witnesses, len(others)), replace=False)] = False
    return keep_members(exemplars, kept)


def swap_queries(exemplars: ExemplarSet, chosen: NDArray[np.int64], random: Random) -> ExemplarSet | None:
    """Give each chosen bag another query, of the same group and of a class that is not in the bag.

    If classes are unknown, use any other query of the group that is not in the bag. A query of several references is
    swapped as a whole. Exemplars without such a query are dropped; ``None`` if none is left.
    """
    group = groups_of(exemplars)
    queries = {one: _first_of_each_query(exemplars, group == one) for one in np.unique(group[chosen])}
    classes = exemplars.pool.classes
    kept, donors = [], []
    for exemplar in chosen:
        candidates, bag = queries[group[exemplar]], exemplars.bag(exemplar)
        if classes is None:
            own = exemplars.references(exemplar)
            allowed = np.array([not np.isin(exemplars.references(one), [*bag, *own]).any() for one in candidates], bool)
        else:
            taken = {*classes[bag], classes[exemplars.query[exemplar]]}
            allowed = np.array([taken.isdisjoint(classes[exemplars.references(one)]) for one in candidates], bool)
        if allowed.any():
            kept.append(exemplar)
            donors.append(random.choice(candidates[allowed]))
    if not kept:
        return None
    asking, bags = exemplars.subset(np.array(donors)), exemplars.subset(np.array(kept))
    return replace(
        asking,
        bag_ptr=bags.bag_ptr,
        bag_index=bags.bag_index,
        label=np.zeros(len(kept), np.int8),
        witness=None,
        group=bags.group,
    )


def _first_of_each_query(exemplars: ExemplarSet, among: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The first exemplar of each query, of those where the mask is true, in the order of the queries' instances."""
    places = np.flatnonzero(among)
    return places[np.unique(exemplars.query[places], return_index=True)[1]]


def add_distractors(exemplars: ExemplarSet, times: int, other_groups: bool, random: Random) -> Changed | None:
    """Enlarge each bag by a factor with members of negative bags, of its own group or of the others.

    They are never of the query's class, if classes are known, and never already in the bag. Exemplars without
    candidates are dropped; ``None`` if none is left.
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
        allowed = ~np.isin(candidates, [*exemplars.bag(exemplar), *exemplars.references(exemplar)])
        if classes is not None:
            allowed &= classes[candidates] != classes[query]
        fitting = candidates[allowed]
        wanted = int(exemplars.bag_sizes[exemplar]) * (times - 1)
        if len(fitting):
            kept.append(exemplar)
            added.append(random.choice(fitting, wanted, replace=wanted > len(fitting)))
    return Changed(add_members(exemplars.subset(np.array(kept)), added), np.array(kept)) if kept else None


def groups_of(exemplars: ExemplarSet) -> NDArray[np.object_]:
    """The group ``(E,)`` of each exemplar; a single group if the set has none."""
    return np.full(len(exemplars), "", object) if exemplars.group is None else exemplars.group


def _spans(exemplars: ExemplarSet) -> list[tuple[int, int]]:
    ptr = exemplars.bag_ptr.tolist()
    return list(pairwise(ptr))
