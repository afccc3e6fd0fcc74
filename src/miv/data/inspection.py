"""The report on a folder: open, measure and audit its sets, and show a table or JSON."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.data import csr
from miv.data.exemplars import ExemplarSet
from miv.data.folder import is_set, load_splits, read_manifest
from miv.runtime import aligned_table

# Statistics of one set: sizes, bags, witnesses, labels, duplicates.


def distribution(numbers: NDArray[Any]) -> dict[str, float] | None:
    """Measure ``(N,)`` numbers, with the population variance (divided by N); ``None`` if there are none."""
    if not len(numbers):
        return None
    values = (numbers.mean(), numbers.var(), numbers.min(), np.median(numbers), numbers.max())
    return dict(zip(("mean", "variance", "minimum", "median", "maximum"), map(float, values), strict=True))


def set_statistics(exemplars: ExemplarSet) -> dict[str, Any]:
    """Measure a set."""
    pool, positive, witnesses, groups = exemplars.pool, exemplars.label == 1, None, None
    if exemplars.witness is not None:
        witnesses = csr.bag_sums(exemplars.witness, exemplars.bag_ptr)[positive]
    if exemplars.group is not None:
        groups = dict(sorted(Counter(map(str, exemplars.group)).items()))
    return {
        "kind": pool.kind,
        "instances": len(pool),
        "shape": list(pool.values.shape[1:]),
        "unused_instances": len(pool) - len(exemplars.used),
        "duplicate_instances": int((pool.first_identical != np.arange(len(pool))).sum()),
        "classes": None if pool.classes is None else len(set(pool.classes.tolist())),
        "exemplars": len(exemplars),
        "duplicate_exemplars": int((same_exemplar(exemplars) != np.arange(len(exemplars))).sum()),
        "positives": int(positive.sum()),
        "positive_share": float(exemplars.label.mean()),
        "bag_entries": len(exemplars.bag_index),
        "bag_size": distribution(exemplars.bag_sizes),
        "witnesses": None if exemplars.witness is None else int(exemplars.witness.sum()),
        "witnesses_per_positive": None if witnesses is None else distribution(witnesses),
        "witness_rate": None if witnesses is None else distribution(witnesses / exemplars.bag_sizes[positive]),
        "groups": groups,
    }


def same_exemplar(exemplars: ExemplarSet) -> NDArray[np.int64]:
    """``(E,)`` for each exemplar the first one with the same query or references and bag by content, in any order."""

    def contents(ptr: NDArray[np.int64], index: NDArray[np.int64]) -> list[bytes]:
        members = exemplars.pool.first_identical[index]
        members = members[np.lexsort((members, csr.owners(ptr)))]  # each bag in rising order
        return [part.tobytes() for part in np.split(members, ptr[1:-1])]

    keys = zip(contents(*exemplars.all_references), contents(exemplars.bag_ptr, exemplars.bag_index), strict=True)
    seen: dict[tuple[bytes, bytes], int] = {}
    return np.array([seen.setdefault(key, number) for number, key in enumerate(keys)], np.int64)


# The leakage audit: find what would let a model score well or badly for the wrong reason.

_EXAMPLES = 3
_MEANINGS = {
    "query_in_bag": "the query is a member of its own bag, so it can be found without comparing classes",
    "query_copy_in_bag": "a bag member has exactly the content of the query",
    "positive_without_witness": "the label is 1, but no bag member is a witness",
    "negative_with_witness": "the label is 0, but a bag member is a witness",
    "one_exemplar_two_labels": "two exemplars have the same query and bag, but different labels",
    "class_in_two_sets": "a class is in both sets, so neither tests unseen classes",
    "instance_in_two_sets": "an instance of exactly the same content is used in both sets",
}
Leak = tuple[str, str, str, list[tuple[Any, ...]]]  # check, set or sets, how a case is shown, and the cases


@dataclass(frozen=True)
class Finding:
    """A problem in the data: which check found it, in which set or sets, how often, and the first few cases."""

    check: str
    where: str
    meaning: str
    count: int
    examples: list[str]


def audit(sets: dict[str, ExemplarSet]) -> list[Finding]:
    """Look for leaks within each set and between sets; an empty list means that there are none."""
    leaks = [leak for name, exemplars in sets.items() for leak in _leaks_within(name, exemplars)]
    return [
        Finding(check, where, _MEANINGS[check], len(cases), [example.format(*case) for case in cases[:_EXAMPLES]])
        for check, where, example, cases in (*leaks, *_leaks_between(sets))
        if cases
    ]


def _leaks_within(where: str, exemplars: ExemplarSet) -> Iterator[Leak]:
    first_identical = exemplars.pool.first_identical
    by_reference = exemplars.by_reference()  # so that every reference is compared with every member
    exemplar = csr.owners(exemplars.all_references[0])[by_reference.owner]  # (T,) the exemplar of each member
    query, member = by_reference.query[by_reference.owner], by_reference.bag_index  # (T,)
    same = query == member
    copies = _cases((first_identical[query] == first_identical[member]) & ~same, exemplar, query, member)
    yield "query_in_bag", where, "exemplar {}: instance {}", _cases(same, exemplar, query)
    yield "query_copy_in_bag", where, "exemplar {}: query {} and member {}", copies
    number = np.arange(len(exemplars))
    if exemplars.witness is not None:
        has_witness = csr.bag_any(exemplars.witness, exemplars.bag_ptr)
        yield "positive_without_witness", where, "exemplar {}", _cases((exemplars.label == 1) & ~has_witness, number)
        yield "negative_with_witness", where, "exemplar {}", _cases((exemplars.label == 0) & has_witness, number)
    earlier = same_exemplar(exemplars)
    differs = exemplars.label != exemplars.label[earlier]
    yield "one_exemplar_two_labels", where, "exemplars {} and {}", _cases(differs, earlier, number)


def _cases(mask: NDArray[np.bool_], *columns: NDArray[np.int64]) -> list[tuple[Any, ...]]:
    return list(zip(*(column[mask].tolist() for column in columns), strict=True))


def _leaks_between(sets: dict[str, ExemplarSet]) -> Iterator[Leak]:
    classes = {
        name: set(map(str, exemplars.pool.classes[exemplars.used]))
        for name, exemplars in sets.items()
        if exemplars.pool.classes is not None
    }
    for one, other in combinations(classes, 2):
        shared = sorted(classes[one] & classes[other])
        yield "class_in_two_sets", f"{one}, {other}", "class {!r}", [(label,) for label in shared]
    places = {  # the first instance of each content
        name: dict(zip(exemplars.pool.digests(used := exemplars.used[::-1]), used.tolist(), strict=True))
        for name, exemplars in sets.items()
        if len(sets) > 1
    }
    for one, other in combinations(places, 2):
        both = sorted((places[one][key], places[other][key]) for key in places[one].keys() & places[other])
        yield "instance_in_two_sets", f"{one}, {other}", "instances {} and {}", both


ONE_SET = "set"  # the name of a single set without splits


@dataclass(frozen=True)
class Inspection:
    """The findings about a folder: the sets, manifests and statistics by split, and those of the leakage audit."""

    folder: Path
    sets: dict[str, ExemplarSet]
    manifests: dict[str, dict[str, Any]]
    statistics: dict[str, dict[str, Any]]
    findings: list[Finding]

    def document(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        described = {
            name: {key: manifest.get(key) for key in ("builder", "options", "seed")} | self.statistics[name]
            for name, manifest in self.manifests.items()
        }
        findings = [asdict(finding) for finding in self.findings]
        return {"folder": str(self.folder), "sets": described, "findings": findings}

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


def inspect_folder(folder: Path) -> Inspection:
    """Open a set or a folder of splits, check every hash, and measure and audit it."""
    sets = {ONE_SET: ExemplarSet.load(folder, verify=True)} if is_set(folder) else load_splits(folder, verify=True)
    return Inspection(
        folder=folder,
        sets=sets,
        manifests={name: read_manifest(folder if name == ONE_SET else folder / name) for name in sets},
        statistics={name: set_statistics(exemplars) for name, exemplars in sets.items()},
        findings=audit(sets),
    )


def _rows(manifest: dict[str, Any], statistics: dict[str, Any]) -> list[tuple[str, str]]:
    def number(count: int | None) -> str:
        return "-" if count is None else f"{count:,}"

    def spread(label: str, name: str) -> list[tuple[str, str]]:
        middle, ends = f"  {label}: mean (variance)", f"  {label}: min, median, max"
        if statistics[name] is None:
            return [(middle, "-"), (ends, "-")]
        mean, variance, *rest = (f"{value:.3g}" for value in statistics[name].values())
        return [(middle, f"{mean} ({variance})"), (ends, ", ".join(rest))]

    groups, shape = statistics["groups"], "×".join(map(str, statistics["shape"]))
    return [
        ("builder", manifest["builder"]),
        ("seed", number(manifest.get("seed"))),
        ("exemplars", number(statistics["exemplars"])),
        ("  positive", f"{statistics['positives']:,} ({statistics['positive_share']:.1%})"),
        ("  duplicate", number(statistics["duplicate_exemplars"])),
        ("  groups", number(None if groups is None else len(groups))),
        ("instances", number(statistics["instances"])),
        ("  kind", f"{statistics['kind']} {shape}".strip()),
        ("  unused", number(statistics["unused_instances"])),
        ("  duplicate", number(statistics["duplicate_instances"])),
        ("  classes", number(statistics["classes"])),
        ("bag entries", number(statistics["bag_entries"])),
        *spread("in a bag", "bag_size"),
        ("witnesses", number(statistics["witnesses"])),
        *spread("in a positive bag", "witnesses_per_positive"),
        *spread("share of a positive bag", "witness_rate"),
    ]
