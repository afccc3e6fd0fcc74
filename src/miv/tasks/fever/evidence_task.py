"""Is a claim's evidence among these sentences? Every second bag has lost it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from miv.data import SPLITS, ExemplarSet
from miv.runtime.progress import Progress
from miv.tasks.fever.claims_task import Claims, topics_of
from miv.tasks.fever.sentence_bags import ClaimBag, ClaimSentence, claim_exemplars
from miv.tasks.options import check_whole
from miv.tasks.task_base import register_task


@register_task("evidence", help="Claims with and without their evidence among sentences on the same topic.")
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
        return Claims(
            self.raw,
            self.train_file,
            self.validation_file,
            self.test_file,
            page_field=self.page_field,
            missing_gold=self.missing_gold,
            round=self.round,
            seed=self.seed,
        )

    def build(self, progress: Progress) -> dict[str, ExemplarSet]:
        """Read the files and build the sets ``train``, ``validation`` and ``test``."""
        read = self._claims().read(progress)
        return {split: claim_exemplars(self._bags(read[split], number)) for number, split in enumerate(SPLITS)}

    def _bags(self, claims: Sequence[ClaimBag], number: int) -> list[ClaimBag]:
        random = np.random.default_rng([self.seed, self.round, number])
        topics = topics_of(list(claims), by_evidence=True)
        on_topic: dict[int, dict[str, ClaimSentence]] = {}
        for claim, topic in zip(claims, topics, strict=True):
            known = on_topic.setdefault(topic, {})
            for sentence in claim.sentences:
                if sentence.is_evidence or claim.page:
                    known.setdefault(sentence.text, sentence)
        everything = list({one.text: one for claim in claims for one in claim.sentences}.values())
        bags: list[ClaimBag] = []
        for claim, topic in zip(claims, topics, strict=True):
            gold = [one for one in claim.sentences if one.is_evidence]
            others = self._others(claim, on_topic[topic], everything, random)
            if len(others) <= len(gold):  # too few would be left of a bag with evidence
                continue
            has_evidence = bool(len(bags) % 2)
            kept = [*gold, *others[len(gold) :]] if has_evidence else others
            sentences = [kept[place] for place in random.permutation(len(kept))]
            bags.append(replace(claim, supported=has_evidence, sentences=sentences, topic=f"topic {topic}"))
        return bags

    def _others(
        self,
        claim: ClaimBag,
        on_topic: dict[str, ClaimSentence],
        everything: list[ClaimSentence],
        random: np.random.Generator,
    ) -> list[ClaimSentence]:
        """As many sentences without evidence as the claim has, in random order: first those on its topic."""
        not_wanted = {one.text for one in claim.sentences if one.is_evidence} | {claim.claim}
        given = [one for one in claim.sentences if not one.is_evidence]
        candidates = [one for text, one in on_topic.items() if text not in not_wanted]
        candidates = [candidates[place] for place in random.permutation(len(candidates))]
        candidates += [one for one in given if one.text not in on_topic]
        found = {one.text: replace_evidence(one) for one in candidates[: len(given)]}
        wanted = self._least(random)
        while len(found) < min(wanted, len(everything) - len(not_wanted)):
            one = everything[int(random.integers(len(everything)))]
            if one.text not in not_wanted:
                found.setdefault(one.text, replace_evidence(one))
        others = list(found.values())
        return [others[place] for place in random.permutation(len(others))]

    def _least(self, random: np.random.Generator) -> int:
        if not self.max_size:
            return self.min_size
        low, high = np.log(max(1, self.min_size)), np.log(self.max_size)
        return int(np.exp(random.uniform(low, high)))


def replace_evidence(sentence: ClaimSentence) -> ClaimSentence:
    """The same sentence, which is no evidence for another claim."""
    return sentence._replace(is_evidence=False)
