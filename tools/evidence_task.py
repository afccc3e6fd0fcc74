"""Claims with and without their evidence, to train ``miv/evidence`` on and to test it."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from miv.data import SPLITS, ExemplarSet
from miv.runtime import Progress
from miv.tasks.base import check_whole
from miv.tasks.claims import ClaimBag, Claims, ClaimSentence, claim_exemplars, topics_of


def evidence_keys(bag: ClaimBag) -> set[tuple[str, str]]:
    """What claims on one topic share: their page, or else a sentence of evidence."""
    evidence = {("text", sentence.text) for sentence in bag.sentences if sentence.is_evidence}
    return {("page", bag.page)} if bag.page else evidence


@dataclass(frozen=True)
class Evidence:
    """Claims with their evidence, and claims whose evidence was left out, from JSON lines as for ``claims``.

    The label is 1 if the bag holds the evidence, whether it supports or refutes the claim. Other sentences are on the
    same topic as far as possible: of the same page, or evidence of claims that share a sentence. A bag with evidence
    has as many sentences as one without, so its size says nothing. The query id is the topic, so that calibration
    counts topics, not claims, as independent.

    Args:
        raw: folder of the files.
        train_file: file with train claims.
        validation_file: file with validation claims; empty to use a share of the train pages.
        test_file: file with test claims.
        page_field: field with the page of a claim; empty if the files have none.
        missing_gold: how to treat a claim without a gold sentence in its evidence: 'drop' it, or
            'add' its gold sentences to the bag.
        min_size: minimum size of a bag; sentences of other claims fill it. 0 keeps the given size.
        max_size: maximum of that minimum: with it, each bag's minimum is drawn between both, evenly on a
            logarithmic scale. 0 uses min_size for every bag.
        round: index of the random draw.
        seed: random seed.
    """

    raw: Path = Path("data/fever-dev")
    train_file: str = "train.jsonl"
    validation_file: str = "validation.jsonl"
    test_file: str = "test.jsonl"
    page_field: str = ""
    missing_gold: Literal["drop", "add"] = "drop"
    min_size: int = 0
    max_size: int = 0
    round: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole(0, min_size=self.min_size, max_size=self.max_size)
        check_whole(self.min_size if self.max_size else 0, max_size=self.max_size)
        self._claims()

    def _claims(self) -> Claims:
        options = {name: value for name, value in vars(self).items() if not name.endswith("_size")}
        return Claims(**options)

    def build(self, progress: Progress) -> dict[str, ExemplarSet]:
        """Read the files and build the sets ``train``, ``validation`` and ``test``."""
        claims = self._claims().read()
        return {split: claim_exemplars(self._bags(claims[split], number)) for number, split in enumerate(SPLITS)}

    def _bags(self, claims: list[ClaimBag], number: int) -> list[ClaimBag]:
        random = np.random.default_rng([self.seed, self.round, number])
        topics = topics_of(claims, evidence_keys)
        on_topic: dict[int, dict[str, ClaimSentence]] = {}
        for claim, topic in zip(claims, topics, strict=True):
            sentences = on_topic.setdefault(topic, {})
            for sentence in claim.sentences:
                if sentence.is_evidence or claim.page:
                    sentences.setdefault(sentence.text, sentence)
        everything = list({sentence.text: sentence for claim in claims for sentence in claim.sentences}.values())
        bags: list[ClaimBag] = []
        for claim, topic in zip(claims, topics, strict=True):
            gold = [sentence for sentence in claim.sentences if sentence.is_evidence]
            others = self._others(claim, on_topic[topic], everything, random)
            if len(others) <= len(gold):  # too few would be left of a bag with evidence
                continue
            has_evidence = bool(len(bags) % 2)
            bag = _shuffled([*gold, *others[len(gold) :]] if has_evidence else others, random)
            bags.append(replace(claim, supported=has_evidence, sentences=bag, topic=f"topic {topic}"))
        return bags

    def _others(
        self,
        claim: ClaimBag,
        on_topic: dict[str, ClaimSentence],
        everything: list[ClaimSentence],
        random: np.random.Generator,
    ) -> list[ClaimSentence]:
        """As many sentences without evidence as the claim has, in random order: first those on its topic."""
        excluded = {sentence.text for sentence in claim.sentences if sentence.is_evidence} | {claim.claim}
        plain = [sentence for sentence in claim.sentences if not sentence.is_evidence]
        candidates = _shuffled([sentence for text, sentence in on_topic.items() if text not in excluded], random)
        candidates += [sentence for sentence in plain if sentence.text not in on_topic]
        others = {sentence.text: sentence for sentence in candidates[: len(plain)]}
        least = self.min_size
        if self.max_size:
            least = int(np.exp(random.uniform(np.log(max(1, self.min_size)), np.log(self.max_size))))
        while len(others) < min(least, len(everything) - len(excluded)):
            sentence = everything[int(random.integers(len(everything)))]
            if sentence.text not in excluded:
                others.setdefault(sentence.text, sentence)
        return _shuffled([sentence._replace(is_evidence=False) for sentence in others.values()], random)


def _shuffled(sentences: list[ClaimSentence], random: np.random.Generator) -> list[ClaimSentence]:
    return [sentences[position] for position in random.permutation(len(sentences))]
