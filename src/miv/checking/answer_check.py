"""Check an answer against sources: does what was retrieved support each sentence, and which of its sentences do?"""

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path

from miv.backbones.pairs import Judge
from miv.checking.claims import as_statement, doubt_of, is_reply
from miv.checking.details import Detail, capitalised, differing_words
from miv.checking.judging import Claim, JudgeSettings, SourceBag, cut_claims, find_evidence, judge_claims
from miv.checking.results import BACKED, CITED, CheckedAnswer, CheckedSentence, Citation, Outcome, Source
from miv.checking.sentences import Sentence
from miv.checking.sources import MOST_PAIRS, MOST_SENTENCES, Sources, Text, read_answer, read_sources
from miv.data.kinds import KINDS
from miv.errors import MIVError
from miv.files.json import finite_number
from miv.runtime import Progress
from miv.verifier.network import Verifier

VERIFIER = "miv/judge"
MOST_CITATIONS = 3
_ORDER: dict[Outcome, int] = {**dict.fromkeys(CITED, 0), "unsure": 1, "not in the sources": 2}  # of citations


class TooManyPairs(MIVError):  # noqa: N818 - named after what is wrong
    """An answer and sources with more pairs of sentences than allowed."""


def check(
    answer: Text | list[Sentence],
    sources: Sources | tuple[Source, ...],
    *,
    question: str | None = None,
    verifier: Verifier | str | PathLike[str] = VERIFIER,
    citations: int = MOST_CITATIONS,
    threshold: float | None = None,
    most_pairs: int = MOST_PAIRS,
    progress: Progress | None = None,
) -> CheckedAnswer:
    """Check each sentence of an answer against the sentences of sources.

    The judge ``miv/judge`` reads each sentence together with the source sentences nearest to it, and says whether they
    support or contradict it. A sentence that states several facts is also judged by its parts. A sentence with a
    number, date or name that no cited source contains is never supported.

    Args:
        answer: the text to check, or a ``pathlib.Path`` of a text or Markdown file; or what ``read_answer`` returns.
        sources: the retrieved documents: a text or path, several, or texts by name.
        question: what the answer replies to, so that an answer of a few words is checked together with it.
        verifier: a judge, or its folder or name. A verifier of texts that was trained to find evidence, such as
            ``miv/evidence``, says whether the sources contain evidence on a sentence, which may contradict it.
        citations: maximum number of source sentences listed per sentence.
        threshold: one threshold from 0 to 1 instead of those of the verifier. The stated error rates then no longer
            apply.
        most_pairs: maximum number of checked sentences times source sentences; a long one counts several times.
        progress: reports the progress.
    """
    if isinstance(citations, bool) or not isinstance(citations, int) or citations < 1:
        raise MIVError(f"citations is {citations!r}. Expected a whole number of at least 1.")
    if threshold is not None:
        threshold = finite_number("threshold", threshold, low=0.0, high=1.0)
    sentences = answer if isinstance(answer, list) else read_answer(answer, refuse_names=True)
    documents = read_sources(sources, refuse_names=True)
    places = [(source, sentence) for source in documents for sentence in source.sentences if sentence.is_evidence]
    claims = _claims(sentences, question)
    if isinstance(verifier, str | PathLike):
        name = str(verifier)
        verifier = Verifier.from_pretrained(verifier if isinstance(verifier, str) else Path(verifier))
    elif not isinstance(verifier, Verifier):
        raise MIVError(f"The verifier is {verifier!r}. Expected a Verifier, its folder, or a name such as {VERIFIER}.")
    else:
        name = verifier.loaded_from or f"unsaved verifier, {verifier.configuration['pooling']}"
    backbone = verifier.backbone
    if KINDS[backbone.kind].is_array:
        raise MIVError(f"The verifier {name} reads {backbone.kind} instances. Expected a verifier of texts.")
    bag = SourceBag(places, backbone)
    if len(bag.windows) > MOST_SENTENCES or len(claims) * len(bag.windows) > most_pairs:
        raise TooManyPairs(
            f"The answer has {len(claims):,} sentences to check against {len(bag.windows):,} source sentences (a very "
            f"long one counts several times). Expected at most {MOST_SENTENCES:,} source sentences and {most_pairs:,} "
            "pairs: check the answer in parts, or give only the documents retrieved for it."
        )
    point, settings = verifier.operating_point, None
    goal, upper, lower = point.goal, point.threshold, point.lower_threshold
    if isinstance(backbone, Judge):
        settings = JudgeSettings.of(backbone.folder, backbone.weights_sha256)
        goal, upper, lower = settings.goal, settings.thresholds["supported"], None
    if threshold is not None:
        goal, upper = f"custom threshold {threshold:g} (stated error rates do not apply)", threshold
        lower = upper
    claims = cut_claims(claims, backbone)
    if not (places and claims):
        judged = [claim.checked("not in the sources", 0.0, {}) for claim in claims]
    elif settings is not None:
        assert isinstance(backbone, Judge)  # noqa: S101 - for the type checker
        judged = judge_claims(backbone, settings, claims, bag, citations, threshold, progress)
    else:
        judged = find_evidence(verifier, claims, bag, citations, threshold, progress)
    by_number = {claim.sentence.number: one for claim, one in zip(claims, judged, strict=True)}
    checked = _cite(sentences, by_number, bag, citations)
    return CheckedAnswer(
        *checked, documents, name, goal, upper, upper if lower is None else lower, settings is not None
    )


def _claims(sentences: Sequence[Sentence], question: str | None) -> list[Claim]:
    """What is checked; with a question, also what states nothing by itself: it is read as the question's answer."""
    if question is None:
        return [Claim(sentence, sentence.text) for sentence in sentences if sentence.is_claim]
    if not question.strip():
        raise MIVError("The question is empty. Expected what the answer replies to, or no question.")
    open_ones = [sentence for sentence in sentences if not sentence.text.endswith(("?", ":"))]
    short = [sentence for sentence in open_ones if not sentence.is_claim or is_reply(sentence.text)]
    texts = {sentence.number: as_statement(question, sentence.text) for sentence in short if not sentence.mark}
    return [
        Claim(sentence, texts.get(sentence.number, sentence.text), doubt_of(question, sentence.text))
        for sentence in sentences
        if sentence.is_claim or sentence.number in texts
    ]


def _cite(
    sentences: Sequence[Sentence], judged: dict[int, CheckedSentence], bag: SourceBag, most: int
) -> tuple[tuple[CheckedSentence, ...], tuple[Citation, ...]]:
    """Add details, and number the source sentences by first use: those that are evidence, then those of unsure ones."""
    names = capitalised(sentence.text for sentence in sentences)
    for number, one in judged.items():
        missing = bag.missing_details(one.text, one.citations, names)
        if missing and one.outcome in BACKED:
            texts = ", ".join(dict.fromkeys(detail.text for detail in missing))
            one = replace(one, outcome="unsure", reason=f"no cited source contains {texts}")
        differs: tuple[Detail, ...] = ()
        if one.outcome == "contradicted":
            differs = differing_words(one.text, bag.places[one.citations[0]][1].text)
        own, alone = one.citations[:most], one.probabilities[:most]
        judged[number] = replace(one, citations=own, probabilities=alone, missing=missing, differs=differs)
    numbers: dict[int, int] = {}
    for one in sorted(judged.values(), key=lambda one: _ORDER[one.outcome]):
        for position in one.citations:
            numbers.setdefault(position, len(numbers) + 1)
    places = ((number, *bag.places[position]) for position, number in numbers.items())
    cited = [Citation(number, source.name, one.number, one.text, one.line) for number, source, one in places]
    checked = []
    for sentence in sentences:
        result = CheckedSentence(sentence.text, sentence.paragraph, "not checked", None, item=sentence.mark)
        if sentence.number in judged:
            result = judged[sentence.number]
            result = replace(result, citations=tuple(numbers[position] for position in result.citations))
        checked.append(result)
    return tuple(checked), tuple(cited)
