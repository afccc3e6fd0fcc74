"""The report on a folder: open, measure and audit its sets, and show a table or JSON."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.data import csr
from miv.data.exemplars import ExemplarSet
from miv.data.folder import is_set, load_splits
from miv.data.manifest import Manifest
from miv.data.splits import SPLITS, twin_names
from miv.errors import MIVError
from miv.runtime import aligned_table

# Statistics of one set: sizes, bags, witnesses, labels, duplicates.


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


# The leakage audit: find what would let a model score well or badly for the wrong reason.

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


ONE_SET = "set"  # the name of a single set without splits


@dataclass(frozen=True)
class Inspection:
    """The findings about a folder.

    Args:
        folder: the folder.
        sets: its sets by split.
        manifests: the manifest of each set.
        statistics: the statistics of each set.
        findings: the findings of the leakage audit.
    """

    folder: Path
    sets: dict[str, ExemplarSet]
    manifests: dict[str, Manifest]
    statistics: dict[str, SetStatistics]
    findings: list[Finding]

    def document(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        described = {}
        for name, manifest in self.manifests.items():
            origin = {"builder": manifest.builder, "options": manifest.options, "seed": manifest.seed}
            described[name] = {**origin, **asdict(self.statistics[name])}
        return {
            "folder": str(self.folder),
            "sets": described,
            "findings": [asdict(finding) for finding in self.findings],
        }

    def text(self) -> str:
        """Everything as a text table with one column per set."""
        columns = [_rows(self.manifests[name], self.statistics[name]) for name in self.sets]
        rows = [[cells[0][0], *(value for _, value in cells)] for cells in zip(*columns, strict=True)]
        lines = [str(self.folder), "", aligned_table(["", *self.sets], rows), ""]
        if not self.findings:
            return "\n".join([*lines, "Leakage audit: nothing found."])
        lines.append(f"Leakage audit: {len(self.findings)} findings.")
        for finding in self.findings:
            lines.append(f"- {finding.check} ({finding.where}), {finding.count:,} times: {finding.meaning}.")
            more = "; …" if finding.count > len(finding.examples) else ""
            lines.append(f"  {'; '.join(finding.examples)}{more}")
        return "\n".join(lines)


def open_sets(folder: Path, *, verify: bool = False) -> dict[str, ExemplarSet]:
    """Open one set or a folder of splits."""
    if is_set(folder):
        return {ONE_SET: ExemplarSet.load(folder, verify=verify)}
    if not folder.is_dir():
        raise MIVError(f"There is no folder {folder}. Expected a folder written by `miv data`.")
    if not any((folder / split).is_dir() for split in SPLITS):
        raise MIVError(
            f"{folder} holds neither a set (manifest.json) nor splits ({', '.join(SPLITS)}). "
            "Expected a folder written by `miv data`."
        )
    return load_splits(folder, verify=verify)


def inspect_folder(folder: Path) -> Inspection:
    """Open a set or a folder of splits, check every hash, and measure and audit it."""
    sets = open_sets(folder, verify=True)
    first = {name: exemplars.pool.first_identical() for name, exemplars in sets.items()}
    return Inspection(
        folder=folder,
        sets=sets,
        manifests={name: Manifest.read(folder if name == ONE_SET else folder / name) for name in sets},
        statistics={name: set_statistics(exemplars, first[name]) for name, exemplars in sets.items()},
        findings=audit(sets, first),
    )


def _rows(manifest: Manifest, statistics: SetStatistics) -> list[tuple[str, str]]:
    shape = "×".join(map(str, statistics.shape))
    return [
        ("builder", manifest.builder),
        ("seed", _number(manifest.seed)),
        ("exemplars", _number(statistics.exemplars)),
        ("  positive", f"{statistics.positives:,} ({statistics.positive_share:.1%})"),
        ("  duplicate", _number(statistics.duplicate_exemplars)),
        ("  groups", _number(None if statistics.groups is None else len(statistics.groups))),
        ("instances", _number(statistics.instances)),
        ("  kind", f"{statistics.kind} {shape}".strip()),
        ("  unused", _number(statistics.unused_instances)),
        ("  duplicate", _number(statistics.duplicate_instances)),
        ("  classes", _number(statistics.classes)),
        ("bag entries", _number(statistics.bag_entries)),
        *_spread("in a bag", statistics.bag_size),
        ("witnesses", _number(statistics.witnesses)),
        *_spread("in a positive bag", statistics.witnesses_per_positive),
        *_spread("share of a positive bag", statistics.witness_rate),
    ]


def _number(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"


def _spread(label: str, spread: Distribution | None) -> list[tuple[str, str]]:
    middle, ends = f"  {label}: mean (variance)", f"  {label}: min, median, max"
    if spread is None:
        return [(middle, "-"), (ends, "-")]
    return [
        (middle, f"{spread.mean:.3g} ({spread.variance:.3g})"),
        (ends, f"{spread.minimum:.3g}, {spread.median:.3g}, {spread.maximum:.3g}"),
    ]
