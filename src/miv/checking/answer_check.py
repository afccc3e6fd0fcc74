"""Check an answer against sources: is each sentence backed by what was retrieved, and by which sentences?"""

import re
import warnings
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import accumulate, chain
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np

from miv.backbones import Backbone
from miv.backbones.cache import without_cut_warning
from miv.backbones.hf_files import MINILM
from miv.checking.details import Detail, SourceDetails, capitalised, missing_details
from miv.checking.results import CheckedAnswer, CheckedSentence, Citation, Outcome, Source
from miv.checking.sentences import Sentence, word_count
from miv.checking.sources import MOST_PAIRS, MOST_SENTENCES, Sources, Text, read_answer, read_sources
from miv.data.kinds import KINDS
from miv.errors import MIVError, MIVWarning
from miv.runtime import Progress
from miv.verifier.decisions import Decision
from miv.verifier.network import Verifier
from miv.verifier.verdict import Verdict

VERIFIER = "miv/evidence"
MOST_CITATIONS = 3
_OUTCOMES: dict[Decision, Outcome] = {"yes": "evidence found", "unsure": "unsure", "no": "not in the sources"}
_ORDER: tuple[Outcome, ...] = ("evidence found", "unsure", "not in the sources")  # of the numbers of citations
Place = tuple[Source, Sentence]


class TooManyPairs(MIVError):  # noqa: N818 - named after what is wrong
    """An answer and sources with more pairs of sentences than allowed."""


def check(
    answer: Text,
    sources: Sources,
    *,
    verifier: Verifier | str | PathLike[str] = VERIFIER,
    citations: int = MOST_CITATIONS,
    threshold: float | None = None,
    most_pairs: int = MOST_PAIRS,
    progress: Progress | None = None,
) -> CheckedAnswer:
    """Check each sentence of an answer against the sentences of sources.

    The verifier says whether the sources contain evidence on a sentence. It does not say whether they confirm or
    contradict it: read the citations. A sentence with a number, date or name that no cited source contains is unsure.

    Args:
        answer: the text to check, or a ``pathlib.Path`` of a text or Markdown file.
        sources: the retrieved documents: a text or path, several, or texts by name.
        verifier: a verifier of texts, or its folder or name.
        citations: maximum number of source sentences listed per sentence.
        threshold: one threshold from 0 to 1 instead of those that the verifier was calibrated with: a sentence is
            has its evidence found if its probability is at least this, else it is not in the sources; only missing
            details make it unsure. The stated error rates then no longer apply.
        most_pairs: maximum number of checked sentences times source sentences; a long one counts several times.
        progress: reports the progress of embedding and verifying.
    """
    for name, count in (("citations", citations), ("most_pairs", most_pairs)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise MIVError(f"{name} is {count!r}. Expected a whole number of at least 1.")
    is_number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
    if threshold is not None and not (is_number and 0 <= threshold <= 1):
        raise MIVError(f"threshold is {threshold!r}. Expected a number from 0 to 1, such as 0.5.")
    return check_sentences(
        read_answer(answer, refuse_names=True),
        read_sources(sources, refuse_names=True),
        verifier=verifier,
        citations=citations,
        most_pairs=most_pairs,
        threshold=threshold,
        progress=progress,
    )


def check_sentences(
    sentences: Sequence[Sentence],
    documents: tuple[Source, ...],
    *,
    verifier: Verifier | str | PathLike[str],
    citations: int,
    most_pairs: int,
    threshold: float | None = None,
    progress: Progress | None = None,
) -> CheckedAnswer:
    """Check an answer and sources that are split already, by ``read_answer`` and ``read_sources``; see ``check``."""
    places = [(source, sentence) for source in documents for sentence in source.sentences if sentence.is_evidence]
    if not places:
        raise MIVError("The sources have no full sentence, only single words. Expected documents.")
    claims = [sentence for sentence in sentences if sentence.is_claim]
    _refuse_many_pairs(len(claims), len(places), most_pairs)
    if isinstance(verifier, str | PathLike):
        name = str(verifier)
        verifier = Verifier.from_pretrained(verifier if isinstance(verifier, str) else Path(verifier))
    elif not isinstance(verifier, Verifier):
        raise MIVError(f"The verifier is {verifier!r}. Expected a Verifier, its folder, or a name such as {VERIFIER}.")
    else:
        name = verifier.loaded_from or f"unsaved verifier, {verifier.configuration['pooling']}"
    if KINDS[verifier.backbone.kind].is_array:
        raise MIVError(f"The verifier {name} reads {verifier.backbone.kind} instances. Expected a verifier of texts.")
    if claims and getattr(verifier.backbone, "name", "") == MINILM:
        _warn_of_other_scripts([("the answer", sentences), *((source.name, source.sentences) for source in documents)])
    bag = _SourceBag(places, verifier.backbone)
    if len(bag.windows) > MOST_SENTENCES:
        raise MIVError(
            f"The sources have {len(places):,} sentences, some so long that they are read in {len(bag.windows):,} "
            f"parts. Expected at most {MOST_SENTENCES:,}: give only the documents that were retrieved for this answer."
        )
    _refuse_many_pairs(len(claims), len(bag.windows), most_pairs)
    point = verifier.operating_point
    if threshold is None:
        upper, lower, goal = point.threshold, point.lower_threshold, point.goal
    else:
        upper, lower = float(threshold), None
        goal = f"custom threshold {upper:g} (calibrated error rates do not apply)"
    judged = _judge(verifier, claims, bag, threshold, progress) if claims else {}
    checked = _cite(sentences, judged, bag, upper, citations)
    return CheckedAnswer(*checked, documents, name, goal, upper, upper if lower is None else lower)


def _refuse_many_pairs(claims: int, evidence: int, most: int) -> None:
    if claims * evidence > most:
        raise TooManyPairs(
            f"The answer has {claims:,} sentences to check against {evidence:,} source sentences (a very long one "
            f"counts several times). Expected at most {most:,} pairs: check the answer in parts, or give only "
            "the documents retrieved for it."
        )


class _SourceBag:
    """The source sentences as one bag of instances: a sentence longer than the backbone reads is several windows."""

    def __init__(self, places: Sequence[Place], backbone: Backbone) -> None:
        parts = backbone.windows(np.array([sentence.text for _, sentence in places], dtype=object))
        self.places = places
        self.windows = list(chain.from_iterable(parts))
        self._details: dict[str, SourceDetails] = {}
        self._starts = np.array([0, *accumulate(map(len, parts[:-1]))])  # the first window of each sentence

    def best_sentences(
        self, verdict: Verdict, outcome: Outcome, threshold: float, most: int
    ) -> list[tuple[int, float]]:
        """Positions and probabilities of the witnesses that suffice alone; or of the nearest source sentences."""
        scores = verdict.scores
        assert scores is not None  # noqa: S101 - witnesses were requested
        best = np.maximum.reduceat(scores, self._starts)
        if outcome == "evidence found":
            alone = [witness.index for witness in verdict.witnesses if scores[witness.index] >= threshold]
            sentences = np.searchsorted(self._starts, alone, side="right") - 1
            positions = list(dict.fromkeys(sentences.tolist()))[:most] or [int(best.argmax())]
        else:
            positions = np.argsort(-best, kind="stable")[:most].tolist()
        return [(position, float(best[position])) for position in positions]

    def missing_details(self, text: str, positions: Iterable[int], names: set[str]) -> tuple[Detail, ...]:
        """The details of a sentence that no document with one of the source sentences contains."""
        cited = {source.name: source for source, _ in map(self.places.__getitem__, positions)}
        for name, source in cited.items():
            if name not in self._details:
                self._details[name] = SourceDetails(sentence.text for sentence in source.sentences)
        return missing_details(text, [self._details[name] for name in cited], names)


class _Judgement(NamedTuple):
    verdict: Verdict
    outcome: Outcome
    reason: str  # of unsure
    words_read: int | None  # if not all were


def _judge(
    verifier: Verifier, claims: Sequence[Sentence], bag: _SourceBag, threshold: float | None, progress: Progress | None
) -> dict[int, _Judgement]:
    """Judge each claim, by the number of its sentence."""
    backbone = verifier.backbone
    windows = backbone.windows(np.array([claim.text for claim in claims], dtype=object))
    words_read = [word_count(parts[0]) if len(parts) > 1 else None for parts in windows]
    cut = sum(words is not None for words in words_read)
    if cut:
        warnings.warn(
            f"{cut:,} of {len(claims):,} checked sentences of the answer {'is' if cut == 1 else 'are'} longer than "
            f"{backbone.instance_shape[-1]} tokens; only the beginning was read. Split such a sentence if it matters: "
            "a full stop or an empty line ends a sentence.",
            MIVWarning,
            stacklevel=4,
        )
    # A backbone without windows of its own truncates, which only the ordinary warning tells.
    has_windows = type(backbone).windows is not Backbone.windows
    with without_cut_warning() if has_windows else nullcontext():
        verdicts = verifier.verify_many([parts[0] for parts in windows], [bag.windows] * len(claims), progress=progress)
    _ = verdicts.scores  # computed at once for all sentences
    judgements = {}
    for claim, verdict, words in zip(claims, verdicts, words_read, strict=True):
        decision = verdict.decision
        if threshold is not None:
            decision = "yes" if verdict.probability >= threshold else "no"
        reason = (verdict.reason or "") if decision == "unsure" else ""
        judgements[claim.number] = _Judgement(verdict, _OUTCOMES[decision], reason, words)
    return judgements


def _cite(
    sentences: Sequence[Sentence], judged: dict[int, _Judgement], bag: _SourceBag, threshold: float, most: int
) -> tuple[tuple[CheckedSentence, ...], tuple[Citation, ...]]:
    """Number the source sentences in the order of first use: those of evidence found, then those of unsure ones."""
    ranked, missing = {}, {}
    names = capitalised(sentence.text for sentence in sentences)
    for sentence in sentences:
        if sentence.number in judged:
            judgement = judged[sentence.number]
            ranked[sentence.number] = best = bag.best_sentences(judgement.verdict, judgement.outcome, threshold, most)
            missing[sentence.number] = details = bag.missing_details(sentence.text, [place for place, _ in best], names)
            if details and judgement.outcome == "evidence found":
                judged[sentence.number] = judgement._replace(outcome="unsure", reason=_lack(details))
    numbers: dict[int, int] = {}
    for number in sorted(judged, key=lambda number: (_ORDER.index(judged[number].outcome), number)):
        for position, _ in ranked[number]:
            numbers.setdefault(position, len(numbers) + 1)
    cited = []
    for position, number in numbers.items():
        source, sentence = bag.places[position]
        cited.append(Citation(number, source.name, sentence.number, sentence.text, sentence.line))
    checked = []
    for sentence in sentences:
        result = CheckedSentence(sentence.text, sentence.paragraph, "not checked", None, item=sentence.mark)
        if sentence.number in judged:
            verdict, outcome, reason, words_read = judged[sentence.number]
            positions, scores = zip(*ranked[sentence.number], strict=True)
            result = replace(
                result,
                outcome=outcome,
                probability=verdict.probability,
                citations=tuple(numbers[position] for position in positions),
                probabilities=scores,
                missing=missing[sentence.number],
                reason=reason,
                words_read=words_read,
            )
        checked.append(result)
    return tuple(checked), tuple(cited)


def _lack(details: Sequence[Detail]) -> str:
    """Why a sentence with evidence is unsure: what is missing."""
    return f"no cited source contains {', '.join(dict.fromkeys(detail.text for detail in details))}"


_LETTER = re.compile(r"[^\W\d_]")
_LATIN = re.compile("[A-Za-zªºÀ-ÖØ-öø-ʯḀ-ỿ]")
_READ = 20_000  # characters that tell the script of a text


def _warn_of_other_scripts(texts: Iterable[tuple[str, Sequence[Sentence]]]) -> None:
    """Warn once of named texts whose letters are mostly not Latin, for an English encoder."""
    others = []
    for name, sentences in texts:
        start = " ".join(sentence.text for sentence in sentences)[:_READ]
        if 2 * len(_LATIN.findall(start)) < len(_LETTER.findall(start)):
            others.append(name)
    if others:
        more = f" and {len(others) - 1:,} more" if len(others) > 1 else ""
        warnings.warn(
            f"Most letters of {others[0]}{more} are not Latin, but this verifier reads English only: its outcomes "
            "mean little here. Translate the texts, or use a verifier of their language.",
            MIVWarning,
            stacklevel=4,
        )
