"""Claims from JSON lines with sentences for each: is the claim supported, or is its evidence among them?"""

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from miv.data import SPLITS, ExemplarSet, InstancePool, csr
from miv.data.splits import connected
from miv.errors import MIVError
from miv.files.tables import bad_line, checked_text, read_json_lines, text_field
from miv.runtime import Progress
from miv.tasks.base import check_whole, register_task


class ClaimSentence(NamedTuple):
    """A sentence of a bag; a tuple, because a build creates millions."""

    key: Hashable  # identifies the same sentence in several bags, which is stored once
    text: str
    page: str
    is_evidence: bool  # annotators marked it as evidence for the claim


@dataclass(frozen=True)
class ClaimBag:
    """A claim, its sentences, and whether they support it."""

    claim: str
    page: str  # empty if unknown
    supported: bool
    sentences: list[ClaimSentence]
    group: str = ""
    topic: str = ""  # the same for claims that share evidence; it becomes the ``query_id``


def claim_exemplars(bags: Iterable[ClaimBag]) -> ExemplarSet:
    """Turn claims into exemplars: the claim is the query, a witness is an evidence sentence that supports it.

    Evidence that refutes a claim is not a witness: nothing in that bag is of the query's class. The class of a
    sentence and of a claim is its page, if known.
    """
    instances: dict[Hashable, tuple[int, str, str]] = {}  # index, text and page

    def index_of(key: Hashable, text: str, page: str) -> int:
        return instances.setdefault(key, (len(instances), text, page))[0]

    queries, labels, groups, topics = [], [], [], []
    members: list[list[int]] = []
    witnesses: list[list[bool]] = []
    for bag in bags:
        queries.append(index_of(("claim", bag.claim, bag.page), bag.claim, bag.page))
        members.append([index_of(("sentence", key), text, page) for key, text, page, _ in bag.sentences])
        witnesses.append([bag.supported and sentence.is_evidence for sentence in bag.sentences])
        labels.append(int(bag.supported))
        groups.append(bag.group)
        topics.append(bag.topic)
    texts, pages = (np.array([row[column] for row in instances.values()], dtype=object) for column in (1, 2))
    pool = InstancePool("text", texts, pages if any(pages) else None)
    group, query_ids = (values if any(values) else None for values in (groups, topics))
    return ExemplarSet.from_lists(pool, queries, members, labels, witnesses, group, query_ids=query_ids)


_VALIDATION = 1  # index of the split with the random numbers that divide the pages

logger = logging.getLogger(__name__)


@register_task("claims")
@dataclass(frozen=True)
class Claims:
    """Claims with evidence sentences from JSON lines, such as Fool Me Twice.

    ``text`` is the claim, ``retrieved_evidence`` the bag and ``gold_evidence`` the sentences that decide the claim:
    lists of sentences, or of objects with a ``text``. A claim that shares a page or sentence with a later split is
    dropped.

    Args:
        raw: folder of the files.
        train_file: file with train claims.
        validation_file: file with validation claims; empty to use a share of the train pages.
        test_file: file with test claims.
        validation_share: share of the train pages to use for validation if there is no validation file.
        page_field: field with the page or topic of the claim and sentences; splits share no pages.
            If empty, only claims that share a sentence are kept together.
        supports: label of a supported claim.
        refutes: label of a refuted claim; claims with any other label are left out.
        missing_gold: how to treat a claim without a gold sentence in its evidence: 'drop' it, or
            'add' its gold sentences to the bag.
        round: index of the random division into train and validation.
        seed: random seed.
    """

    raw: Path = Path("data/fm2")
    train_file: str = "train.jsonl"
    validation_file: str = ""
    test_file: str = "test.jsonl"
    validation_share: float = 0.15
    page_field: str = "wikipedia_page"
    supports: str = "SUPPORTS"
    refutes: str = "REFUTES"
    missing_gold: Literal["drop", "add"] = "drop"
    round: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.validation_share < 1:
            raise MIVError(f"validation_share is {self.validation_share}. Expected a number between 0 and 1.")
        check_whole(0, round=self.round, seed=self.seed)

    def build(self, progress: Progress) -> dict[str, ExemplarSet]:
        """Read the files and build the sets ``train``, ``validation`` and ``test``."""
        return {split: claim_exemplars(bags) for split, bags in self.read().items()}

    def read(self) -> dict[str, list[ClaimBag]]:
        """Read the files and return the claims of each split, which share no page or sentence."""
        names = {"train": self.train_file, "validation": self.validation_file, "test": self.test_file}
        names = {split: name for split, name in names.items() if name}
        bags = {split: self._read(self.raw / name) for split, name in names.items()}
        if self.validation_file:
            bags["validation"] = self._apart(bags["validation"], "validation", bags["test"], "test")
            bags["train"] = self._apart(bags["train"], "train", bags["validation"], "validation")
        bags["train"] = self._apart(bags["train"], "train", bags["test"], "test")
        if not self.validation_file:
            bags["train"], bags["validation"] = self._divide(bags["train"])
        for split in SPLITS:
            if not bags[split]:
                raise MIVError(f"No claims are left for {split}. Check the files, labels and fields in {self.raw}.")
        return {split: bags[split] for split in SPLITS}

    def _read(self, path: Path) -> list[ClaimBag]:
        if not path.is_file():
            here = ", ".join(sorted(file.name for file in path.parent.glob("*.jsonl"))) or "no .jsonl file"
            raise MIVError(f"There is no file {path}. Its folder contains: {here}. Use --train-file and so on.")
        bags, left_out = [], Counter[str]()
        for line, row in read_json_lines(path):
            label = text_field(row, "label", path, line)
            if label not in (self.supports, self.refutes):
                left_out["with another label"] += 1
                continue
            bag = self._bag(row, label == self.supports, path, line)
            if any(sentence.is_evidence for sentence in bag.sentences):
                bags.append(bag)
            else:
                left_out["without a gold sentence"] += 1
        for which, count in left_out.items():
            logger.warning("%s: %d claims %s are left out.", path.name, count, which)
        return bags

    def _bag(self, row: dict[str, Any], supported: bool, path: Path, line: int) -> ClaimBag:
        evidence = self._sentences(row, "retrieved_evidence", path, line)
        gold = self._sentences(row, "gold_evidence", path, line)
        if self.missing_gold == "add":
            evidence += [sentence for sentence in gold if sentence not in evidence]
        claim = text_field(row, "text", path, line)
        page = text_field(row, self.page_field, path, line) if self.page_field else ""
        # A sentence retrieved twice is one instance and appears in the bag once.
        distinct = dict.fromkeys(evidence)
        sentences = [ClaimSentence((page, text), text, page, text in gold) for text in distinct if text != claim]
        return ClaimBag(claim, page, supported, sentences)

    def _sentences(self, row: dict[str, Any], field: str, path: Path, line: int) -> list[str]:
        sentences = row.get(field)
        if not isinstance(sentences, list):
            known = ", ".join(sorted(row)) or "none"
            raise bad_line(path, line, f"{field!r} must be a list of sentences; the fields are: {known}.")
        texts = [value.get("text") if isinstance(value, dict) else value for value in sentences]
        return [checked_text(text, f"a sentence in {field!r}", path, line) for text in texts]

    def _apart(self, bags: list[ClaimBag], name: str, held: list[ClaimBag], held_name: str) -> list[ClaimBag]:
        """The bags that share no page or sentence with the held-out ones."""
        taken = {key for bag in held for key in _keys(bag)}
        apart = [bag for bag in bags if taken.isdisjoint(_keys(bag))]
        if shared := len(bags) - len(apart):
            logger.warning("%d %s claims share a page or sentence with %s; dropped.", shared, name, held_name)
        return apart

    def _divide(self, bags: list[ClaimBag]) -> tuple[list[ClaimBag], list[ClaimBag]]:
        """Train and validation, which share no page or sentence."""
        family = topics_of(bags)
        names = np.unique(family)
        count = round(self.validation_share * len(names))
        if not 0 < count < len(names):
            raise MIVError(
                f"{self.train_file} has {len(names)} unconnected groups of pages; a --validation-share of "
                f"{self.validation_share} leaves a split empty. Give a --validation-file or another share."
            )
        rng = np.random.default_rng([self.seed, self.round, _VALIDATION])
        held = set(rng.choice(names, count, replace=False).tolist())
        train = [bag for bag, name in zip(bags, family, strict=True) if name not in held]
        return train, [bag for bag, name in zip(bags, family, strict=True) if name in held]


def _keys(bag: ClaimBag) -> set[tuple[str, str]]:
    """What claims of different splits must not share: page, text and sentences."""
    keys = {("text", bag.claim)} | {("text", sentence.text) for sentence in bag.sentences}
    return keys | {("page", bag.page)} if bag.page else keys


def topics_of(bags: list[ClaimBag], keys: Callable[[ClaimBag], set[tuple[str, str]]] = _keys) -> list[int]:
    """One number per bag, equal for bags connected by the same keys: by default by pages and sentences."""
    numbers: dict[tuple[str, str], int] = {}
    links = [[numbers.setdefault(key, len(numbers)) for key in sorted(keys(bag))] for bag in bags]
    nodes = np.array([node for link in links for node in link], np.int64)
    return connected(csr.borders([len(link) for link in links]), nodes, len(numbers)).tolist()
