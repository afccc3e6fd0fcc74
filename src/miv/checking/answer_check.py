"""Check an answer against sources: is each sentence backed by what was retrieved, and by which sentences?"""

import re
import warnings
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import accumulate
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from miv.backbones import Backbone
from miv.backbones.cache import cut_texts_are_told
from miv.backbones.hf_names import MINILM
from miv.checking.results import CheckedAnswer, CheckedSentence, Citation, Outcome, Source
from miv.checking.sentences import Sentence, word_count
from miv.checking.sources import (
    MOST_PAIRS,
    MOST_SENTENCES,
    Sources,
    Text,
    checked_answer_text,
    checked_sources,
    read_answer,
    read_sources,
)
from miv.errors import MIVError, MIVWarning
from miv.runtime import Progress
from miv.verifier.decisions import Decision
from miv.verifier.network import Verifier
from miv.verifier.verdict import Verdict

Place = tuple[Source, Sentence]


@dataclass(frozen=True, eq=False)
class SourceBag:
    """The ``P`` source sentences as a bag of ``N`` instances: a long sentence is several windows.

    Args:
        places: the sentences with their sources.
        windows: the instances.
        starts: ``(P,)``, the first window of each sentence.
    """

    places: Sequence[Place]
    windows: list[str]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, places: Sequence[Place], backbone: Backbone) -> "SourceBag":
        """Cut the sentences that are longer than the backbone reads."""
        parts = backbone.windows(np.array([sentence.text for _, sentence in places], dtype=object))
        starts = [0, *accumulate(map(len, parts[:-1]))]
        return cls(places, [window for part in parts for window in part], np.array(starts, dtype=np.int64))

    def best(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """For each sentence the score ``(P,)`` of its best window, given those of the windows ``(N,)``."""
        found: NDArray[np.float64] = np.maximum.reduceat(scores, self.starts)
        return found

    def place_of(self, window: int) -> int:
        return int(np.searchsorted(self.starts, window, side="right")) - 1


@dataclass(frozen=True)
class Judged:
    """A checked sentence of an answer: its verdict and outcome, and how many words were read if not all."""

    verdict: Verdict
    outcome: Outcome
    words_read: int | None


def cite(
    sentences: Sequence[Sentence], judged: dict[int, Judged], bag: SourceBag, threshold: float, most: int
) -> tuple[tuple[CheckedSentence, ...], tuple[Citation, ...]]:
    """Number the source sentences in the order of first use: those of supported sentences, then of unsure ones.

    Args:
        sentences: the sentences of the answer.
        judged: those that were checked, by number.
        bag: the source sentences.
        threshold: a source sentence suffices alone if its probability is at least this.
        most: maximum number of source sentences per sentence of the answer.
    """
    ranked = {number: _ranked(one, bag, threshold, most) for number, one in judged.items()}
    order: list[Outcome] = ["supported", "unsure", "unsupported"]
    numbers: dict[int, int] = {}
    for number in sorted(judged, key=lambda number: (order.index(judged[number].outcome), number)):
        for place, _ in ranked[number]:
            numbers.setdefault(place, len(numbers) + 1)
    cited = tuple(_citation(number, bag.places[place]) for place, number in numbers.items())
    checked = []
    for one in sentences:
        found = judged.get(one.number)
        if found is None:
            checked.append(CheckedSentence(one.text, one.paragraph, "not checked", None, item=one.mark))
            continue
        pairs = ranked[one.number]
        checked.append(
            CheckedSentence(
                one.text,
                one.paragraph,
                found.outcome,
                found.verdict.probability,
                tuple(numbers[place] for place, _ in pairs),
                tuple(score for _, score in pairs),
                found.words_read,
                one.mark,
            )
        )
    return tuple(checked), cited


def _citation(number: int, place: Place) -> Citation:
    source, sentence = place
    return Citation(number, source.name, sentence.number, sentence.text, sentence.line)


def _ranked(judged: Judged, bag: SourceBag, threshold: float, most: int) -> list[tuple[int, float]]:
    """Places and probabilities of the witnesses that suffice alone; or of the nearest source sentences."""
    verdict = judged.verdict
    scores = verdict.scores
    assert scores is not None  # noqa: S101 - witnesses were requested
    best = bag.best(scores)
    if judged.outcome == "supported":
        alone = (witness.index for witness in verdict.witnesses if scores[witness.index] >= threshold)
        chosen = list(dict.fromkeys(map(bag.place_of, alone)))[:most] or [int(best.argmax())]
    else:
        chosen = np.argsort(-best, kind="stable")[:most].tolist()
    return [(place, float(best[place])) for place in chosen]


VERIFIER = "miv/evidence"
MOST_CITATIONS = 3
_NO_RATES = "the error rates of the calibration do not apply"
_OUTCOMES: dict[Decision, Outcome] = {"yes": "supported", "unsure": "unsure", "no": "unsupported"}


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

    The verifier says whether the sources contain the evidence for a sentence. It does not say whether they confirm or
    contradict it: read the citations.

    Args:
        answer: the text to check, or a ``pathlib.Path`` of a text or Markdown file.
        sources: the retrieved documents: a text or path, several, or texts by name.
        verifier: a verifier of texts, or its folder or name.
        citations: maximum number of citations per sentence, and of the nearest source sentences of one that is not
            supported.
        threshold: one threshold from 0 to 1 instead of those that the verifier was calibrated with: a sentence is
            supported if its probability is at least this, else unsupported, and never unsure. The stated error rates
            then no longer apply.
        most_pairs: maximum number of checked sentences times source sentences; a long one counts several times.
        progress: reports the progress of embedding and verifying.
    """
    _check_count("citations", citations)
    _check_count("most_pairs", most_pairs)
    _check_threshold(threshold)
    sentences, documents = read_answer(checked_answer_text(answer)), read_sources(checked_sources(sources))
    return check_sentences(
        sentences,
        documents,
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
    if verifier.backbone.kind != "text":
        raise MIVError(f"The verifier {name} reads {verifier.backbone.kind} instances. Expected a verifier of texts.")
    if claims:
        texts = [("the answer", sentences), *((source.name, source.sentences) for source in documents)]
        warn_of_other_scripts(verifier.backbone, ((called, (one.text for one in said)) for called, said in texts))
    bag = SourceBag.of(places, verifier.backbone)
    if len(bag.windows) > MOST_SENTENCES:
        raise MIVError(
            f"The sources have {len(places):,} sentences, some so long that they are read in {len(bag.windows):,} "
            f"parts. Expected at most {MOST_SENTENCES:,}: give only the documents that were retrieved for this answer."
        )
    _refuse_many_pairs(len(claims), len(bag.windows), most_pairs)
    point = verifier.operating_point
    upper = point.threshold if threshold is None else float(threshold)
    lower = point.lower_threshold if threshold is None else None
    judged = _judge(verifier, claims, bag, threshold, progress)
    found = cite(sentences, judged, bag, upper, citations)
    goal = point.goal if threshold is None else f"threshold {upper:g} of your own: {_NO_RATES}"
    return CheckedAnswer(*found, documents, name, goal, upper, upper if lower is None else lower)


def _check_count(name: str, given: int) -> None:
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise MIVError(f"{name} is {given!r}. Expected a whole number of at least 1.")


def _check_threshold(given: float | None) -> None:
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if given is not None and not (is_number and 0 <= given <= 1):
        raise MIVError(f"threshold is {given!r}. Expected a number from 0 to 1, such as 0.5.")


def _refuse_many_pairs(claims: int, evidence: int, most: int) -> None:
    if claims * evidence > most:
        raise TooManyPairs(
            f"The answer has {claims:,} sentences to check against {evidence:,} source sentences (a very long one "
            f"counts several times). Expected at most {most:,} pairs: check the answer in parts, or give only "
            "the documents retrieved for it."
        )


def _judge(
    verifier: Verifier, claims: Sequence[Sentence], bag: SourceBag, threshold: float | None, progress: Progress | None
) -> dict[int, Judged]:
    """The verdict on each claim, by the number of its sentence."""
    if not claims:
        return {}
    windows = verifier.backbone.windows(np.array([one.text for one in claims], dtype=object))
    words_read = [word_count(parts[0]) if len(parts) > 1 else None for parts in windows]
    _warn_of_cut_claims(verifier.backbone, words_read)
    # A backbone without windows of its own truncates, which only the ordinary warning tells.
    has_windows = type(verifier.backbone).windows is not Backbone.windows
    with cut_texts_are_told() if has_windows else nullcontext():
        verdicts = verifier.verify_many([parts[0] for parts in windows], [bag.windows] * len(claims), progress=progress)
    _ = verdicts.scores  # computed at once for all sentences
    return {
        one.number: Judged(verdict, _outcome(verdict, threshold), words)
        for one, verdict, words in zip(claims, verdicts, words_read, strict=True)
    }


def _outcome(verdict: Verdict, threshold: float | None) -> Outcome:
    if threshold is None:
        return _OUTCOMES[verdict.decision]
    return "supported" if verdict.probability >= threshold else "unsupported"


def _warn_of_cut_claims(backbone: Backbone, words_read: Sequence[int | None]) -> None:
    cut = sum(words is not None for words in words_read)
    if cut:
        warnings.warn(
            f"{cut:,} of {len(words_read):,} checked sentences of the answer {'is' if cut == 1 else 'are'} longer than "
            f"{backbone.instance_shape[-1]} tokens; only the beginning was read. Split such a sentence if it matters: "
            "a full stop or an empty line ends a sentence.",
            MIVWarning,
            stacklevel=5,
        )


_LETTER = re.compile(r"[^\W\d_]")
_LATIN = re.compile("[A-Za-zªºÀ-ÖØ-öø-ʯḀ-ỿ]")
_READ = 20_000  # characters that tell the script of a text


def warn_of_other_scripts(backbone: Backbone, texts: Iterable[tuple[str, Iterable[str]]]) -> None:
    """Warn once if an English encoder gets texts whose letters are mostly not Latin.

    Args:
        backbone: the encoder of the verifier.
        texts: what each text is called, and its sentences.
    """
    if getattr(backbone, "name", "") != MINILM:
        return
    found = [called for called, sentences in texts if not _is_latin(" ".join(sentences)[:_READ])]
    if found:
        others = f" and {len(found) - 1:,} more" if len(found) > 1 else ""
        warnings.warn(
            f"Most letters of {found[0]}{others} are not Latin, but this verifier reads English only: its outcomes "
            "mean little here. Translate the texts, or use a verifier of their language.",
            MIVWarning,
            stacklevel=4,
        )


def _is_latin(text: str) -> bool:
    return 2 * len(_LATIN.findall(text)) >= len(_LETTER.findall(text))
