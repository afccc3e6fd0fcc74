"""The leakage audit: find what would let a model score well or badly for the wrong reason."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.data import ExemplarSet, csr
from miv.data.twin_names import twin_names
from miv.inspection.statistics import same_exemplar, witnesses_in_bags

EXAMPLES = 3


@dataclass(frozen=True)
class Finding:
    """A problem in the data.

    Args:
        check: the name of the check.
        where: the set or pair of sets with the problem.
        meaning: the problem, and why it matters.
        count: number of occurrences.
        examples: the first few.
    """

    check: str
    where: str
    meaning: str
    count: int
    examples: list[str]


def audit(sets: dict[str, ExemplarSet], first_identical: dict[str, NDArray[np.int64]] | None = None) -> list[Finding]:
    """Look for leaks within each set and between sets; an empty list means that none were found.

    Args:
        sets: the sets by name, such as the splits.
        first_identical: ``first_identical`` of each set's pool, if already known.
    """
    first = first_identical or {name: exemplars.pool.first_identical() for name, exemplars in sets.items()}
    findings: list[Finding] = []
    for name, exemplars in sets.items():
        findings += _queries_in_bags(name, exemplars, first[name])
        findings += _labels_against_witnesses(name, exemplars)
        findings += _one_exemplar_two_labels(name, exemplars, first[name])
    for one, other in combinations(sets, 2):
        findings += _shared_classes(one, sets[one], other, sets[other])
    findings += _parted_twins(sets)
    findings += _shared_instances(sets)
    return findings


def _queries_in_bags(where: str, exemplars: ExemplarSet, first_identical: NDArray[np.int64]) -> Iterator[Finding]:
    number = csr.owners(exemplars.all_references[0])  # of the exemplar of each reference
    exemplars = exemplars.by_reference()  # so that every reference is compared with every member
    query = exemplars.query[exemplars.owner]  # (T,) the query of each member's exemplar
    member = exemplars.bag_index
    same = query == member
    copies = (first_identical[query] == first_identical[member]) & ~same
    yield from _finding(
        "query_in_bag",
        where,
        "the query is a member of its own bag, so it can be found without comparing classes",
        np.flatnonzero(same),
        lambda t: f"exemplar {number[exemplars.owner[t]]}: instance {query[t]}",
    )
    yield from _finding(
        "query_copy_in_bag",
        where,
        "a bag member has exactly the content of the query",
        np.flatnonzero(copies),
        lambda t: f"exemplar {number[exemplars.owner[t]]}: query {query[t]} and member {member[t]}",
    )


def _labels_against_witnesses(where: str, exemplars: ExemplarSet) -> Iterator[Finding]:
    if exemplars.witness is None:
        return
    has_witness = witnesses_in_bags(exemplars) > 0
    yield from _finding(
        "positive_without_witness",
        where,
        "the label is 1, but no bag member is a witness",
        np.flatnonzero((exemplars.label == 1) & ~has_witness),
        lambda e: f"exemplar {e}",
    )
    yield from _finding(
        "negative_with_witness",
        where,
        "the label is 0, but a bag member is a witness",
        np.flatnonzero((exemplars.label == 0) & has_witness),
        lambda e: f"exemplar {e}",
    )


def _one_exemplar_two_labels(
    where: str, exemplars: ExemplarSet, first_identical: NDArray[np.int64]
) -> Iterator[Finding]:
    first = same_exemplar(exemplars, first_identical)
    yield from _finding(
        "one_exemplar_two_labels",
        where,
        "two exemplars have the same query and bag, but different labels",
        np.flatnonzero(exemplars.label != exemplars.label[first]),
        lambda e: f"exemplars {first[e]} and {e}",
    )


def _shared_classes(one: str, first: ExemplarSet, other: str, second: ExemplarSet) -> Iterator[Finding]:
    if first.pool.classes is None or second.pool.classes is None:
        return
    shared = set(first.pool.classes[first.used]) & set(second.pool.classes[second.used])
    yield from _finding(
        "class_in_two_sets",
        f"{one}, {other}",
        "a class is in both sets, so neither tests unseen classes",
        sorted(shared),
        lambda name: f"class {name!r}",
    )


def _parted_twins(sets: dict[str, ExemplarSet]) -> Iterator[Finding]:
    sets_of: dict[str, set[str]] = {}
    for name, exemplars in sets.items():
        if exemplars.pool.classes is not None:
            for one in np.unique(exemplars.pool.classes[exemplars.used]):
                sets_of.setdefault(str(one), set()).add(name)
    parted = [(a, b) for a, b in twin_names(sets_of) if sets_of[a] != sets_of[b]]
    yield from _finding(
        "twins_in_two_sets",
        ", ".join(name for name in sets if any(name in sets_of[a] | sets_of[b] for a, b in parted)),
        "two classes differ only by a suffix, so they may be one person or thing, and they are in different sets",
        parted,
        lambda pair: " and ".join(f"{one!r} ({', '.join(sorted(sets_of[one]))})" for one in pair),
    )


def _shared_instances(sets: dict[str, ExemplarSet]) -> Iterator[Finding]:
    if len(sets) < 2:
        return
    places = {name: _places_of_content(exemplars) for name, exemplars in sets.items()}
    for one, other in combinations(sets, 2):
        shared = sorted((places[one][key], places[other][key]) for key in places[one].keys() & places[other])
        yield from _finding(
            "instance_in_two_sets",
            f"{one}, {other}",
            "an instance of exactly the same content is used in both sets",
            shared,
            lambda pair: f"instances {pair[0]} and {pair[1]}",
        )


def _places_of_content(exemplars: ExemplarSet) -> dict[bytes, int]:
    places: dict[bytes, int] = {}
    for row, digest in zip(exemplars.used.tolist(), exemplars.pool.digests(exemplars.used), strict=True):
        places.setdefault(digest, row)
    return places


def _finding(
    check: str, where: str, meaning: str, found: Sequence[Any] | NDArray[Any], say: Callable[[Any], str]
) -> Iterator[Finding]:
    if len(found):
        yield Finding(check, where, meaning, len(found), [say(case) for case in found[:EXAMPLES]])
