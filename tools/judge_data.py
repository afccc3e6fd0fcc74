"""Training pairs of a judge: sentence pairs, claims with their evidence, and pairs made by rule, balanced over labels.

The label must not show in the hypothesis alone. A claim therefore stands beside premises of every label where rules
allow: what a swap changes in the claim, it also changes in the premise only (contradicts) and in both (supports).
"""

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import spmatrix
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from tools.judge_rules import (
    CONTRADICTS,
    NEITHER,
    SUPPORTS,
    NameBook,
    Swap,
    affirmed,
    antonym_swap,
    negated,
    opposite,
    swaps,
    without_detail,
)

from miv.backbones.pairs import LABELS
from miv.tasks.claims import ClaimBag, Claims

NLI_LABELS = {"entailment": SUPPORTS, "contradiction": CONTRADICTS, "neutral": NEITHER}
_MOST_CHARACTERS = 420  # of a premise
_PRONOUN = re.compile(r"^(?:It|He|She|They|His|Her|Its|Their|This|These)\b")
_FOLDS = 5


@dataclass(frozen=True)
class Pair:
    """A premise, a hypothesis and how the one judges the other."""

    premise: str
    hypothesis: str
    label: int
    kind: str
    origin: str  # the same for pairs made from one claim; folds keep them together


def read_nli(path: Path) -> list[Pair]:
    """Sentence pairs of the NLI sets."""
    pairs = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            row = json.loads(line)
            texts = [_plain(row[field]) for field in ("premise", "hypothesis")]
            origin = f"nli {number}" if len(texts[1]) < 8 else texts[1].lower()
            pairs.append(Pair(texts[0], texts[1], NLI_LABELS[row["label"]], row["source"], origin))
    return pairs


def _plain(text: str) -> str:
    """Text without the spaces of a tokeniser.

    >>> _plain("A man , 's hat .")
    "A man, 's hat."
    """
    text = text.replace("-LRB-", "(").replace("-RRB-", ")").replace("``", '"').replace("''", '"')
    text = re.sub(r"\s+([.,;:!?)])", r"\1", text)
    return re.sub(r"([(])\s+", r"\1", text).strip()


def read_claims_of(data: Path, name: str) -> dict[str, list[ClaimBag]]:
    """The splits of fever or fm2, which share no page or sentence."""
    if name == "fever":
        return Claims(data / "fever-dev", validation_file="validation.jsonl", page_field="").read()
    return Claims(data / "fm2", train_file="dev.jsonl", missing_gold="add").read()


class Maker:
    """Makes pairs from claims with their evidence.

    Args:
        bags: the claims.
        name: of their set.
        random: the draw of premises and rules.
    """

    def __init__(self, bags: Sequence[ClaimBag], name: str, random: np.random.Generator) -> None:
        self.bags, self.name, self.random = bags, name, random
        gold = [sentence.text for bag in bags for sentence in bag.sentences if sentence.is_evidence]
        self.book = NameBook([bag.claim for bag in bags] + gold)
        self._second: dict[str, list[ClaimBag]] = {}  # that the same sentence supports
        for bag in bags:
            if bag.supported:
                self._second.setdefault(_best_gold(bag), []).append(bag)

    def pairs(self) -> Iterator[Pair]:
        """All pairs of all claims."""
        for number, bag in enumerate(self.bags):
            origin = f"{self.name} {number}"
            gold = _best_gold(bag)
            label = SUPPORTS if bag.supported else CONTRADICTS
            made = [*self._plain_pairs(bag, gold, label), *self._negations(bag, gold, label)]
            made += self._swapped(bag, gold, label)
            made += self._statements(bag)
            if bag.supported:
                made += [*self._antonyms(bag, gold), *self._joint(bag, gold, number)]
            made += self._sentences(bag, gold)
            for premise, hypothesis, judged, kind in made:
                yield Pair(premise, hypothesis, judged, f"{self.name} {kind}", origin)

    def _premise(self, bag: ClaimBag, sentences: Sequence[str]) -> str:
        """Sentences with up to two others around them, after the page where the first begins with a pronoun."""
        others = self._irrelevant(bag, sentences)
        count = int(self.random.choice(3, p=[0.4, 0.35, 0.25]))
        parts = list(sentences)
        for other in others[:count]:
            parts.insert(int(self.random.integers(len(parts) + 1)), other)
        while len(parts) > len(sentences) and sum(map(len, parts)) > _MOST_CHARACTERS:
            parts.remove(next(part for part in parts if part not in sentences))
        text = " ".join(parts)
        page = re.sub(r" \(.*\)$", "", bag.page)
        return f"{page}. {text}" if page and (_PRONOUN.match(text) or self.random.random() < 0.5) else text

    def _irrelevant(self, bag: ClaimBag, sentences: Sequence[str] = ()) -> list[str]:
        """Sentences of the bag that are no evidence and do not repeat the claim, in random order."""
        words = _content(bag.claim)
        taken = {*sentences, *(sentence.text for sentence in bag.sentences if sentence.is_evidence)}
        texts = [sentence.text for sentence in bag.sentences if sentence.text not in taken]
        texts = [text for text in texts if len(words & _content(text)) < 0.75 * len(words) and len(text) > 20]
        return [texts[place] for place in self.random.permutation(len(texts))]

    def _neither(self, bag: ClaimBag) -> str | None:
        texts = self._irrelevant(bag)
        if self.random.random() < 0.15:  # another claim's evidence
            other = self.bags[int(self.random.integers(len(self.bags)))]
            gold = _best_gold(other)
            return None if len(_content(gold) & _content(bag.claim)) > 1 else gold
        return self._premise(bag, texts[:1]) if texts else None

    def _and_neither(self, bag: ClaimBag, hypothesis: str, kind: str) -> list[tuple[str, str, int, str]]:
        premise = self._neither(bag)
        return [(premise, hypothesis, NEITHER, kind)] if premise else []

    def _plain_pairs(self, bag: ClaimBag, gold: str, label: int) -> Iterator[tuple[str, str, int, str]]:
        more = [sentence.text for sentence in bag.sentences if sentence.is_evidence and sentence.text != gold]
        sentences = [gold, more[0]] if more and self.random.random() < 0.4 else [gold]
        yield self._premise(bag, sentences), bag.claim, label, "evidence"
        yield from self._and_neither(bag, bag.claim, "distractor")

    def _negations(self, bag: ClaimBag, gold: str, label: int) -> Iterator[tuple[str, str, int, str]]:
        is_long = len(bag.claim.split()) > (14 if bag.supported else 10)  # which part of it is denied?
        other = None if is_long else negated(bag.claim, self.random) or affirmed(bag.claim)
        if other is None:
            return
        kind = "negation"
        yield self._premise(bag, [gold]), other, opposite(label), kind
        yield from self._and_neither(bag, other, kind)
        found = swaps(bag.claim, gold, self.book, self.random, [CONTRADICTS]) if bag.supported else []
        if found:
            yield self._premise(bag, [found[0](gold)]), other, SUPPORTS, kind

    def _swapped(self, bag: ClaimBag, gold: str, label: int) -> Iterator[tuple[str, str, int, str]]:
        found = swaps(bag.claim, gold, self.book, self.random)
        for place in self.random.permutation(len(found))[:2]:
            swap = found[int(place)]
            claim, sentence = swap(bag.claim), swap(gold)
            kind = "number" if swap.old[0].isdigit() or not swap.old[:1].isupper() else "name"
            yield self._premise(bag, [sentence]), claim, label, kind
            if not bag.supported:
                continue
            yield self._premise(bag, [gold]), claim, swap.label, kind
            yield self._premise(bag, [sentence]), bag.claim, swap.label, kind
            if swap.label == CONTRADICTS:
                yield from self._and_neither(bag, claim, kind)
                other = negated(claim, self.random) if len(claim.split()) < 14 else None
                if other:
                    yield self._premise(bag, [gold]), other, SUPPORTS, "negation"
                    yield self._premise(bag, [sentence]), other, CONTRADICTS, "negation"

    def _antonyms(self, bag: ClaimBag, gold: str) -> Iterator[tuple[str, str, int, str]]:
        swap = antonym_swap(bag.claim, gold)
        if swap:
            yield self._premise(bag, [swap(gold)]), swap(bag.claim), SUPPORTS, "antonym"
            yield self._premise(bag, [swap(gold)]), bag.claim, CONTRADICTS, "antonym"
        swap = swap or antonym_swap(bag.claim)
        if swap:
            yield self._premise(bag, [gold]), swap(bag.claim), CONTRADICTS, "antonym"
            yield from self._and_neither(bag, swap(bag.claim), "antonym")

    def _statements(self, bag: ClaimBag) -> Iterator[tuple[str, str, int, str]]:
        """Claims as premises: the only ones in which a negation is the whole difference."""
        if self.random.random() > 0.3:
            return
        found: list[str | Swap | None] = [negated(bag.claim, self.random), antonym_swap(bag.claim)]
        found = [change for change in found if change]
        if not found:
            return
        change = found[int(self.random.integers(len(found)))]
        other = change(bag.claim) if isinstance(change, Swap) else str(change)
        texts = [bag.claim, other]
        for _ in range(2):
            one, two = (int(place) for place in self.random.integers(0, 2, 2))
            premise = self._premise(bag, [texts[one]])
            yield premise, texts[two], SUPPORTS if one == two else CONTRADICTS, "statement"

    def _joint(self, bag: ClaimBag, gold: str, number: int) -> Iterator[tuple[str, str, int, str]]:
        """Two claims in one sentence: one half in the source is not enough, and one refuted half refutes it."""
        others = [other for other in self._second[gold] if other.claim != bag.claim]
        others += [other for other in self.bags[max(0, number - 3) : number] if other.supported]
        others = [other for other in others if other.claim != bag.claim][:1] if self.random.random() < 0.25 else []
        for other in others:
            claim = f"{bag.claim.rstrip('.')}, and {other.claim}"
            second = _best_gold(other)
            golds = [gold] if second == gold else [gold, second]
            yield self._premise(bag, golds), claim, SUPPORTS, "two facts"
            if second != gold and not _content(other.claim) <= _content(gold):
                yield self._premise(bag, [gold]), claim, NEITHER, "two facts"
            found = swaps(bag.claim, gold, self.book, self.random, [CONTRADICTS])
            if found:
                yield self._premise(bag, [found[0](one) for one in golds]), claim, CONTRADICTS, "two facts"

    def _sentences(self, bag: ClaimBag, gold: str) -> Iterator[tuple[str, str, int, str]]:
        """An evidence sentence as the hypothesis, with a detail less, more or changed."""
        short = without_detail(gold) if self.random.random() < 0.5 and len(gold) < 260 else None
        if short is None:
            return
        yield self._premise(bag, [gold]), short, SUPPORTS, "detail"
        yield self._premise(bag, [short]), gold, NEITHER, "detail"
        found = swaps(short, gold, self.book, self.random)
        if found:
            swap = found[int(self.random.integers(len(found)))]
            yield self._premise(bag, [gold]), swap(short), swap.label, "detail"
            yield self._premise(bag, [swap(gold)]), swap(short), SUPPORTS, "detail"
            yield self._premise(bag, [swap(gold)]), gold, swap.label, "detail"
            yield self._premise(bag, [gold]), gold, SUPPORTS, "detail"


_STOP = {
    *("the", "a", "an", "of", "in", "on", "at", "to", "and", "or", "is", "was", "are", "were", "be", "been", "has"),
    *("have", "had", "by", "for", "with", "from", "as", "that", "it", "its"),
}


def _content(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.lower()) if word not in _STOP}


def _best_gold(bag: ClaimBag) -> str:
    """The evidence sentence that shares most words with the claim."""
    words = _content(bag.claim)
    gold = [sentence.text for sentence in bag.sentences if sentence.is_evidence]
    return max(gold, key=lambda text: (len(words & _content(text)), -len(text)))


# Balance.


def _features(pairs: Sequence[Pair]) -> spmatrix:
    words = TfidfVectorizer(ngram_range=(1, 2), min_df=3, sublinear_tf=True, max_features=60_000)
    return words.fit_transform([pair.hypothesis for pair in pairs])


def claim_only(pairs: Sequence[Pair], seed: int = 0) -> NDArray[np.float64]:
    """The probabilities of the labels given the hypothesis alone, ``(P, 3)``, cross-validated by origin.

    Pairs with one hypothesis have one probability: folds keep those of one origin and those of one text together.
    """
    features, labels = _features(pairs).tocsr(), np.array([pair.label for pair in pairs])
    names = {name: place for place, name in enumerate(dict.fromkeys(pair.origin for pair in pairs))}
    fold_of = np.random.default_rng(seed).integers(0, _FOLDS, len(names))
    folds = np.array([fold_of[names[pair.origin]] for pair in pairs])
    found = np.zeros((len(pairs), len(LABELS)))
    for fold in range(_FOLDS):
        model = LogisticRegression(C=1.0, max_iter=60, tol=1e-3)
        model.fit(features[folds != fold], labels[folds != fold])
        found[folds == fold] = model.predict_proba(features[folds == fold])
    return found


def leaks(pairs: Sequence[Pair], probabilities: NDArray[np.float64]) -> dict[str, float]:
    """AUROC of each label against the rest, from the hypothesis alone."""
    labels = np.array([pair.label for pair in pairs])
    return {
        name: round(float(roc_auc_score(labels == label, probabilities[:, label])), 4)
        for label, name in enumerate(LABELS)
    }


def balanced(
    pairs: list[Pair],
    random: np.random.Generator,
    limit: float = 0.55,
    rounds: int = 8,
    log: Callable[..., None] = print,
) -> list[Pair]:
    """Drop pairs whose hypothesis gives the label away, until a claim-only classifier is near chance.

    A pair stays with a probability proportional to 1 / p(label | hypothesis), so that what stays has equal labels for
    every hypothesis.
    """
    for number in range(rounds + 1):
        found = claim_only(pairs, number)
        measured = leaks(pairs, found)
        log(f"{len(pairs):,} pairs, {_counts(pairs)}, AUROC of the claim alone {measured}")
        if max(measured.values()) <= limit or number == rounds:
            return pairs
        labels = np.array([pair.label for pair in pairs])
        own = found[np.arange(len(pairs)), labels]
        weight = 1 / np.clip(own, 0.05, 1)
        weight /= np.quantile(weight, 0.6)
        pairs = [pair for pair, stays in zip(pairs, random.random(len(pairs)) < weight, strict=True) if stays]
    return pairs


def _counts(pairs: Sequence[Pair]) -> dict[str, int]:
    counts = Counter(pair.label for pair in pairs)
    return {name: counts[label] for label, name in enumerate(LABELS)}


def make(data: Path, most_nli: int, most_claims: int, seed: int, log: Callable[..., None] = print) -> list[Pair]:
    """All training pairs in random order."""
    random = np.random.default_rng(seed)
    shares = {"snli": 0.4, "mnli": 0.25, "taxinli": 0.08, "cad": 0.12, "conjnli": 0.15}
    pairs = balanced(read_nli(data / "nli/train.jsonl.gz"), random, log=log)
    nli: list[Pair] = []
    for name, share in shares.items():
        some = [pair for pair in pairs if pair.kind == name]
        nli += [some[place] for place in random.permutation(len(some))[: round(share * most_nli)]]
    made: list[Pair] = []
    for name in ("fever", "fm2") * 2:  # the draws of names, numbers and premises differ
        made += Maker(read_claims_of(data, name)["train"], name, random).pairs()
    made = list({(pair.premise, pair.hypothesis): pair for pair in made if pair.premise != pair.hypothesis}.values())
    made = balanced(made, random, log=log)
    claims = [made[place] for place in random.permutation(len(made))[:most_claims]]
    together = balanced([*nli, *claims], random, log=log)
    return [together[place] for place in random.permutation(len(together))]
