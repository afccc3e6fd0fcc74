"""What source sentences say about a sentence: a judge reads pairs of them, or a verifier looks for evidence."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate, chain, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logit, softmax

from miv.backbones import Backbone
from miv.backbones.cache import embed_instances
from miv.backbones.pairs import JUDGE_SETTINGS, Judge, word_overlap
from miv.backbones.precision import lower_precision
from miv.checking.claims import parts_of
from miv.checking.details import Detail, SourceDetails, missing_details
from miv.checking.results import BACKED, JUDGED, CheckedSentence, Outcome, Part, Source
from miv.checking.sentences import Sentence, word_count
from miv.data import InstancePool, csr
from miv.errors import MIVError
from miv.files.arrays import Floats
from miv.files.json import finite_number, read_json_object
from miv.runtime import Progress, SilentProgress
from miv.verifier.decisions import Decision
from miv.verifier.engine import EmbeddedExemplars, explain_embedded
from miv.verifier.network import Verifier

RANKER = "miv/evidence"  # ranks source sentences for a judge
_OUTCOMES: dict[Decision, Outcome] = {"yes": "evidence found", "unsure": "unsure", "no": "not in the sources"}
CANDIDATES = 8  # source sentences that a judge reads with each claim
_JOINED = 3  # of the best of them, which it also reads as one text
_OVERLAP = 6.0  # weight of the word overlap in their ranking, beside the logit of miv/evidence
_LEAST_CITED = 0.5  # probability of a source sentence beside the best one
_TOGETHER = 256  # pairs between two reports of progress
_SURE = 1e-6  # probabilities of pairs are this far from 0 and 1


@dataclass(frozen=True)
class Claim:
    """A sentence of the answer, and what is asked about it: itself, or the statement that a short answer stands for."""

    sentence: Sentence
    text: str
    doubt: str = ""  # why it is never supported
    words_read: int | None = None  # if the backbone does not read all of it

    def checked(self, outcome: Outcome, probability: float, cited: Mapping[int, float], **more: Any) -> CheckedSentence:
        """The result, with positions of source sentences, best first, and their probabilities as citations."""
        own, places = self.sentence, tuple(cited)
        if self.doubt and outcome in BACKED:
            outcome, more["reason"] = "unsure", self.doubt
        result = CheckedSentence(own.text, own.paragraph, outcome, probability, citations=places, item=own.mark)
        return replace(result, probabilities=tuple(cited.values()), words_read=self.words_read, **more)


def cut_claims(claims: Sequence[Claim], backbone: Backbone) -> list[Claim]:
    """The claims as far as a backbone reads them."""
    windows = backbone.windows(np.array([claim.text for claim in claims], dtype=object))
    return [
        replace(claim, text=parts[0], words_read=word_count(parts[0])) if len(parts) > 1 else claim
        for claim, parts in zip(claims, windows, strict=True)
    ]


class SourceBag:
    """The source sentences as one bag; a sentence longer than the backbone reads is several overlapping windows."""

    def __init__(self, places: Sequence[tuple[Source, Sentence]], backbone: Backbone) -> None:
        parts = backbone.windows(np.array([sentence.text for _, sentence in places], dtype=object))
        self.places = places
        self.windows = list(chain.from_iterable(parts))
        self.starts = np.array([0, *accumulate(map(len, parts[:-1]))], np.int64)[: len(places)]  # (S,)
        self._details: dict[str, SourceDetails] = {}

    def sentences(self, windows: Any) -> list[int]:
        """The sentence that each of some windows is a part of."""
        found: list[int] = (np.searchsorted(self.starts, windows, side="right") - 1).tolist()
        return found

    def best(self, scores: Floats) -> Floats:
        """Scores of windows ``(..., W)`` to those of sentences ``(..., S)``."""
        return np.asarray(np.maximum.reduceat(scores, self.starts, axis=-1))

    def missing_details(self, text: str, positions: Iterable[int], names: set[str]) -> tuple[Detail, ...]:
        """The details of a sentence that no document with one of the source sentences contains."""
        cited = {source.name: source for source, _ in map(self.places.__getitem__, positions)}
        for name, source in cited.items():
            if name not in self._details:
                self._details[name] = SourceDetails(sentence.text for sentence in source.sentences)
        return missing_details(text, [self._details[name] for name in cited], names)


# With a verifier: is there evidence on it?


def find_evidence(
    verifier: Verifier,
    claims: Sequence[Claim],
    bag: SourceBag,
    most: int,
    threshold: float | None,
    progress: Progress | None,
) -> list[CheckedSentence]:
    """Verify each claim with all source sentences as its bag."""
    upper = verifier.operating_point.threshold if threshold is None else threshold
    texts = [claim.text for claim in claims]
    verdicts = verifier.verify_many(texts, [bag.windows] * len(claims), progress=progress)
    _ = verdicts.scores  # computed at once for all sentences
    checked = []
    for claim, verdict in zip(claims, verdicts, strict=True):
        decision = verdict.decision
        if threshold is not None and verdict.withheld is None:
            decision = "yes" if verdict.probability >= threshold else "no"
        assert verdict.scores is not None  # noqa: S101 - witnesses were requested
        best = bag.best(verdict.scores)
        if decision == "yes":  # the witnesses that suffice alone
            alone = [witness.index for witness in verdict.witnesses if verdict.scores[witness.index] >= upper]
            positions = list(dict.fromkeys(bag.sentences(alone)))[:most] or [int(best.argmax())]
        else:
            positions = np.argsort(-best, kind="stable")[:most].tolist()
        reason = (verdict.reason or "") if decision == "unsure" else ""
        cited = dict(zip(positions, best[positions].tolist(), strict=True))
        checked.append(claim.checked(_OUTCOMES[decision], verdict.probability, cited, reason=reason))
    return checked


# With a judge: do the nearest ones support or contradict it?


@dataclass(frozen=True)
class JudgeSettings:
    r"""How the answers of a judge to pairs become an outcome.

    .. math:: p = softmax(W x + b), \qquad x = \Big(\log\frac{s}{1 - s}, \; \log\frac{c}{1 - c}, \; n\Big)

    with the greatest probabilities :math:`s` and :math:`c` that a source sentence supports or contradicts the claim,
    and the score :math:`n` of the nearest one. :math:`p` is for supported, contradicted and not in the sources.

    Args:
        weights: ``W`` and ``b``, ``(3, 4)``.
        thresholds: the least :math:`p` of each outcome, by its name.
        goal: what the thresholds promise, in words.
    """

    weights: tuple[tuple[float, ...], ...] = ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 0, 0))
    thresholds: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(JUDGED, 0.8))
    goal: str = "thresholds that were not fitted"

    @classmethod
    def of(cls, folder: Path | None, weights_sha256: str) -> "JudgeSettings":
        """Those fitted to a judge; the defaults if none were."""
        path = None if folder is None else folder / JUDGE_SETTINGS
        if path is None or not path.is_file():
            return cls()
        document = read_json_object(path, "Expected the settings of a judge.")
        if document.get("weights_sha256") != weights_sha256:
            return cls()
        try:
            limits: dict[str, float] = {
                name: finite_number(name, document["thresholds"][name], low=0.0, high=1.0) for name in JUDGED
            }
            weights = np.array(document["weights"], np.float64)
            if weights.shape == (3, 4) and np.isfinite(weights).all():
                return cls(tuple(map(tuple, weights.tolist())), limits, str(document["measured"]["goal"]))
            raise ValueError("its weights are not 3 × 4 numbers")
        except (TypeError, ValueError, KeyError, MIVError) as error:
            raise MIVError(f"{path} does not describe a judge: {error!r}. Copy the folder again.") from error

    def probabilities(self, inputs: Floats) -> Floats:
        """``(A, 3)`` of :math:`s`, :math:`c` and :math:`n` to ``(A, 3)``: as ``JUDGED``."""
        x = np.concatenate([logit(np.clip(inputs[:, :2], _SURE, 1 - _SURE)), inputs[:, 2:]], axis=1)
        return np.asarray(softmax(np.pad(x, ((0, 0), (0, 1)), constant_values=1) @ np.array(self.weights).T, axis=1))

    def outcome(self, probabilities: Floats, threshold: float | None) -> Outcome:
        """The outcome by the thresholds, or by one threshold of the user's own."""
        named = list(zip(probabilities.tolist(), JUDGED, strict=True))
        if threshold is not None:
            p, name = max(named[:2])
            return name if p >= threshold else "not in the sources"
        return max(((p, name) for p, name in named if p >= self.thresholds[name]), default=(0.0, "unsure"))[1]


@cache
def _ranker() -> Verifier:
    return Verifier.from_pretrained(RANKER)


def _similarities(texts: Sequence[str], windows: Sequence[str]) -> Floats:
    """How near each window is to each text, ``(A, W)``."""
    ranker = _ranker()
    pool = InstancePool("text", np.array([*texts, *windows], dtype=object))
    with lower_precision():
        features = embed_instances(ranker.backbone, pool, np.arange(len(pool)), warns=False)
    count, rows = len(texts), np.arange(len(windows))
    targets = np.tile(rows + len(texts), count)
    pairs = EmbeddedExemplars(features, np.arange(count), targets, np.arange(count + 1) * len(windows))
    near = explain_embedded(ranker, pairs, "alone").reshape(count, -1)
    return near + _OVERLAP * word_overlap(texts, windows)


class _Asked:
    """The pairs of one text: each candidate alone, and the best candidates as one text."""

    def __init__(self, text: str, similarity: Floats, bag: SourceBag) -> None:
        windows = np.argsort(-similarity, kind="stable")[:CANDIDATES].tolist()
        self.text, self.similarity = text, similarity[windows]
        sentences = bag.sentences(windows)
        self.single = len(windows)
        self.positions: list[tuple[int, ...]] = [(place,) for place in sentences]
        self.premises = [_in_context(bag, window, place) for window, place in zip(windows, sentences, strict=True)]
        self.has_context = [text != bag.windows[window] for text, window in zip(self.premises, windows, strict=True)]
        # Of one document: "It" would take its meaning from a sentence of another.
        near = zip(windows[:_JOINED], sentences, strict=False)
        best = sorted((window, place) for window, place in near if bag.places[place][0] is bag.places[sentences[0]][0])
        if len({place for _, place in best}) > 1:
            self.positions.append(tuple(dict.fromkeys(place for _, place in best)))
            self.premises.append(" ".join(bag.windows[window] for window, _ in best))

    def take(self, answers: Floats) -> None:
        """Remember the probabilities ``(P, 3)`` of its pairs."""
        self.answers = answers
        self.support = float(answers[:, 0].max())
        self.contradiction = float(answers[: self.single, 1].max())

    def _of_sentences(self, scores: Floats) -> dict[int, float]:
        """The greatest score of the windows of each source sentence, nearest first."""
        best: dict[int, float] = {}
        for (place,), score in zip(self.positions, scores.tolist(), strict=False):
            best[place] = max(score, best.get(place, 0.0))
        return best

    def cited(self, column: int, most: int) -> dict[int, float]:
        """The source sentences that support it (column 0) or contradict it (1), best first."""
        cited: dict[int, float] = {}
        scores = self.answers[: self.single, column].copy()
        alone = self._of_sentences(scores)
        if column == 0 and self.support >= _LEAST_CITED > max(alone.values()):  # only together
            return {place: alone[place] for place in sorted(self.positions[-1], key=lambda place: -alone[place])}
        for number, (place,) in enumerate(self.positions[: self.single]):
            if self.has_context[number] and alone.get(place - 1, 0.0) >= _LEAST_CITED:
                scores[number] = 0.0  # the sentence before it, its context, says so by itself
        for number in np.argsort(-scores, kind="stable").tolist():
            if cited and (scores[number] < _LEAST_CITED or len(cited) >= most):
                break
            cited.setdefault(self.positions[number][0], float(scores[number]))
        return cited

    def near(self, most: int) -> dict[int, float]:
        """The nearest source sentences, each with the greater probability that it supports or contradicts."""
        best = self._of_sentences(self.answers[: self.single, :2].max(axis=1))
        return dict(islice(best.items(), most))


_PRONOUN = ("He ", "She ", "It ", "They ", "His ", "Her ", "Its ", "Their ", "This ", "These ")


def _in_context(bag: SourceBag, window: int, place: int) -> str:
    """A source sentence; one that begins with a pronoun after the sentence before it."""
    text = bag.windows[window]
    if not text.startswith(_PRONOUN) or place == 0 or bag.places[place - 1][0] is not bag.places[place][0]:
        return text
    return f"{bag.places[place - 1][1].text} {text}"


class ReadClaim:
    """A claim as the judge read it, whole and by its facts, and the inputs ``(1 + P, 3)`` of ``JudgeSettings``."""

    def __init__(self, asked: Sequence[_Asked]) -> None:
        self.whole, *self.parts = asked
        self.inputs = np.array([(one.support, one.contradiction, one.similarity[0]) for one in asked])
        if self.parts:  # supported if all facts are, contradicted if one is
            self.inputs[0, 0] = max(self.inputs[0, 0], self.inputs[1:, 0].min())
            self.inputs[0, 1] = self.inputs[:, 1].max()

    def cited(self, outcome: Outcome, most: int) -> dict[int, float]:
        """The source sentences to cite, best first, and their probabilities."""
        if outcome == "supported" and self.whole.support < self.inputs[0, 0]:  # no source sentence has all facts
            return {place: score for part in self.parts for place, score in part.cited(0, 1).items()}
        if outcome == "supported":
            return self.whole.cited(0, most)
        if outcome == "contradicted":
            return max([self.whole, *self.parts], key=lambda one: one.contradiction).cited(1, most)
        return self.whole.near(most)


def read_claims(
    judge: Judge, claims: Sequence[str], bag: SourceBag, progress: Progress | None = None
) -> list[ReadClaim]:
    """Let the judge read each claim, and each of its facts if it states several, with the nearest source sentences."""
    texts = [
        [claim, *(parts if len(parts) > 1 else ())] for claim, parts in zip(claims, map(parts_of, claims), strict=True)
    ]
    every = list(chain.from_iterable(texts))
    similarity = _similarities(every, bag.windows)
    asked = [_Asked(text, near, bag) for text, near in zip(every, similarity, strict=True)]
    _answer(judge, asked, progress)
    borders = csr.borders([len(some) for some in texts])
    return [ReadClaim(asked[first:last]) for first, last in pairwise(borders.tolist())]


def judge_claims(
    judge: Judge,
    settings: JudgeSettings,
    claims: Sequence[Claim],
    bag: SourceBag,
    most: int,
    threshold: float | None,
    progress: Progress | None,
) -> list[CheckedSentence]:
    """Judge each claim by what the judge read."""
    checked = []
    read = read_claims(judge, [claim.text for claim in claims], bag, progress)
    empty = judge.is_empty(np.array([*(claim.text for claim in claims), *bag.windows], dtype=object))
    for claim, one, is_empty in zip(claims, read, empty | empty[len(claims) :].all(), strict=False):
        p, *of_parts = settings.probabilities(one.inputs)
        outcome = "unsure" if is_empty else settings.outcome(p, threshold)
        parts = [
            Part(part.text, settings.outcome(own, threshold)) for part, own in zip(one.parts, of_parts, strict=True)
        ]
        reason = f"supported with probability {p[0]:.2f}, contradicted with probability {p[1]:.2f}"
        reason = "the sentence or all sources cannot be read" if is_empty else reason
        more = {"contradiction": float(p[1]), "parts": tuple(parts), "reason": reason * (outcome == "unsure")}
        checked.append(claim.checked(outcome, float(p[0]), one.cited(outcome, most), **more))
    return checked


def _answer(judge: Judge, asked: Sequence[_Asked], progress: Progress | None) -> None:
    """Let the judge read all pairs, each once."""
    pairs = [(one.text, premise) for one in asked for premise in one.premises]
    distinct = list(dict.fromkeys(pairs))
    answers: dict[tuple[str, str], Floats] = {}
    step = (progress or SilentProgress()).step("Judging", total=len(distinct))
    with lower_precision(), step as advance:
        for start in range(0, len(distinct), _TOGETHER):
            some = distinct[start : start + _TOGETHER]
            found = judge.probabilities([text for text, _ in some], [premise for _, premise in some])
            answers.update(zip(some, found, strict=True))
            advance(len(some))
    for one in asked:
        one.take(np.array([answers[one.text, premise] for premise in one.premises]))
