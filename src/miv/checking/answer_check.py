"""Check an answer against sources: is each sentence backed by what was retrieved, and by which sentences?"""

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from os import PathLike
from pathlib import Path

import numpy as np

from miv.backbones import Backbone
from miv.backbones.cut_texts import cut_texts_are_told
from miv.checking.checked_answer import CheckedAnswer, Outcome, Source
from miv.checking.citing import Judged, SourceBag, cite
from miv.checking.given_texts import checked_answer_text, checked_sources
from miv.checking.reading_language import warn_of_other_scripts
from miv.checking.sentences import Sentence, word_count
from miv.checking.sources import MOST_PAIRS, MOST_SENTENCES, Sources, Text, read_answer, read_sources
from miv.decisions.answers import Decision
from miv.errors import MIVError, MIVWarning
from miv.inference.verdict import Verdict
from miv.models.verifier import Verifier
from miv.runtime.progress import Progress

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
