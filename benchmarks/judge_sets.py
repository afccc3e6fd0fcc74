"""Sets with a known truth for ``judge.py``: claims, their targets, and whether the targets support them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from tools.judge_data import read_claims_of, read_nli
from tools.judge_rules import (
    CONTRADICTS,
    SUPPORTS,
    NameBook,
    antonym_swap,
    negated,
    swaps,
)
from tools.judge_training import symmetric_dev

from miv.backbones.pairs import LABELS
from miv.tasks.claims import ClaimBag


@dataclass(frozen=True)
class Case:
    """A query, its targets and the truth; ``name`` pairs a case with its changed forms."""

    query: str
    targets: tuple[str, ...]
    label: int
    group: str = ""
    name: str = ""

    @property
    def supported(self) -> bool:
        """Whether the targets support the query."""
        return self.label == SUPPORTS


Cases = list[Case]


def symmetric(path: Path, data: Path) -> Cases:
    """FEVER-Symmetric dev without claims of our train and validation splits."""
    dev = symmetric_dev(path, data / "fever-dev")
    rows = zip(dev.queries, dev.targets, dev.supported, strict=True)
    return [Case(query, (target,), SUPPORTS if yes else CONTRADICTS) for query, target, yes in rows]


def wice(path: Path) -> Cases:
    """WiCE dev: supported against partially or not supported, by a web page cut into sentences."""
    cases = []
    with path.open(encoding="utf-8") as lines:
        for number, row in enumerate(map(json.loads, lines)):
            label = SUPPORTS if row["label"] == "supported" else LABELS.index("neither")
            targets = tuple(text for text in row["evidence"] if any(map(str.isalpha, text)))
            cases.append(Case(row["claim"], targets, label, row["label"], str(number)))
    return cases


def nli(path: Path, most: int, seed: int = 0) -> Cases:
    """Validation pairs of each NLI set, at most ``most`` of each."""
    pairs = read_nli(path)
    random = np.random.default_rng(seed)
    cases = []
    for name in sorted({pair.kind for pair in pairs}):
        own = [pair for pair in pairs if pair.kind == name]
        for place in random.permutation(len(own))[:most]:
            pair = own[place]
            cases.append(Case(pair.hypothesis, (pair.premise,), pair.label, name))
    return cases


def claims(data: Path, name: str, split: str, most: int, seed: int = 0) -> list[ClaimBag]:
    """Claims of fever-dev or fm2, at most ``most`` in random order."""
    bags = read_claims_of(data, name)[split]
    return [bags[place] for place in np.random.default_rng(seed).permutation(len(bags))[:most]]


def gold_of(bag: ClaimBag) -> tuple[str, ...]:
    return tuple(sentence.text for sentence in bag.sentences if sentence.is_evidence)


def gold(bags: Sequence[ClaimBag]) -> Cases:
    """Claims with their evidence alone."""
    return [
        Case(bag.claim, gold_of(bag), SUPPORTS if bag.supported else CONTRADICTS, name=str(number))
        for number, bag in enumerate(bags)
    ]


def whole(bags: Sequence[ClaimBag]) -> Cases:
    """Claims with their whole bags."""
    return [
        replace(case, targets=tuple(sentence.text for sentence in bag.sentences))
        for case, bag in zip(gold(bags), bags, strict=True)
    ]


def random_evidence(cases: Cases, seed: int = 0) -> Cases:
    """The claims with the evidence of another claim that shares none of it."""
    order = np.random.default_rng(seed).permutation(len(cases))
    other = [cases[place].targets for place in np.roll(order, 1)]
    mixed = [replace(cases[place], targets=targets) for place, targets in zip(order, other, strict=True)]
    known = {case.name: set(case.targets) for case in cases}
    return [case for case in mixed if known[case.name].isdisjoint(case.targets)]


Change = Callable[[Case, np.random.Generator], list[str]]


def changed_claims(cases: Cases, seed: int = 0) -> dict[str, Cases]:
    """False claims made from supported ones by rule, and negations with their known truth, by kind of change."""
    random = np.random.default_rng(seed)
    book = NameBook([text for case in cases for text in (case.query, *case.targets)])
    made: dict[str, Cases] = {
        name: [] for name in ("number", "name", "antonym", "negated true claim", "negated false claim")
    }
    for case in cases:
        negative = negated(case.query, random)
        if negative:
            kind = "negated true claim" if case.supported else "negated false claim"
            made[kind].append(replace(case, query=negative, label=CONTRADICTS if case.supported else SUPPORTS))
        if not case.supported:
            continue
        found = [(swap, target) for target in case.targets for swap in swaps(case.query, target, book, random)]
        for kind in ("number", "name"):
            own = [swap for swap, _ in found if (kind == "number") == is_number(swap.old)]
            if own:
                swap = own[int(random.integers(len(own)))]
                made[kind].append(replace(case, query=swap(case.query), label=swap.label))
        opposite = antonym_swap(case.query)
        if opposite:
            made["antonym"].append(replace(case, query=opposite(case.query), label=CONTRADICTS))
    return made


def is_number(value: str) -> bool:
    """Whether a swap changed a number, a month or a word for a number, and no name."""
    return value[0].isdigit() or value in MONTHS or value[0].islower()


MONTHS = {
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
}


def irrelevant_added(bags: Sequence[ClaimBag], seed: int = 0) -> Cases:
    """Whole bags with as many sentences again, of claims that share none."""
    cases, random = whole(bags), np.random.default_rng(seed)
    made = []
    for case in cases:
        extra: list[str] = []
        while len(extra) < len(case.targets):
            other = cases[int(random.integers(len(cases)))]
            if set(other.targets).isdisjoint(case.targets):
                extra += other.targets
        targets = [*case.targets, *extra[: len(case.targets)]]
        made.append(replace(case, targets=tuple(targets[place] for place in random.permutation(len(targets)))))
    return made


def in_order(bags: Sequence[ClaimBag], reverse: bool) -> Cases:
    """The evidence and two other sentences as one text, in one order or the other."""
    made = []
    for number, bag in enumerate(bags):
        others = [sentence.text for sentence in bag.sentences if not sentence.is_evidence][:2]
        texts = [*gold_of(bag)[:1], *others]
        text = " ".join(reversed(texts) if reverse else texts)
        made.append(Case(bag.claim, (text,), SUPPORTS if bag.supported else CONTRADICTS, name=str(number)))
    return made
