"""Check an answer against sources: is each sentence backed by what was retrieved, and by which sentences?"""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from miv.checking.checked_answer import CheckedAnswer, CheckedSentence, Citation, Outcome, Source
from miv.checking.sources import MOST_PAIRS, Sources, Text, read_answer, read_sources
from miv.decisions.answers import Decision
from miv.errors import MIVError
from miv.inference.verdict import Verdict
from miv.models.verifier import Verifier
from miv.runtime.progress import Progress

if TYPE_CHECKING:
    from miv.checking.sentences import Sentence

VERIFIER = "miv/evidence"
MOST_CITATIONS = 3
_OUTCOMES: dict[Decision, Outcome] = {"yes": "supported", "unsure": "unsure", "no": "unsupported"}


def check(
    answer: Text,
    sources: Sources,
    *,
    verifier: Verifier | str | PathLike[str] = VERIFIER,
    citations: int = MOST_CITATIONS,
    progress: Progress | None = None,
) -> CheckedAnswer:
    """Check each sentence of an answer against the sentences of sources.

    The verifier says whether the sources contain the evidence for a sentence. It does not say whether they confirm or
    contradict it: read the citations.

    Args:
        answer: the text to check, or a ``pathlib.Path`` of a text or Markdown file.
        sources: the retrieved documents: a text or path, several, or texts by name.
        verifier: a verifier of texts, or its folder or name.
        citations: maximum number of citations per sentence.
        progress: reports the progress of embedding and verifying.
    """
    if isinstance(citations, bool) or not isinstance(citations, int) or citations < 1:
        raise MIVError(f"citations is {citations!r}. Expected a whole number of at least 1.")
    sentences, documents = read_answer(answer), read_sources(sources)
    places = [(source, sentence) for source in documents for sentence in source.sentences if sentence.is_claim]
    if not places:
        raise MIVError("The sources have no full sentence, only headings or single words. Expected documents.")
    bag = [sentence.text for _, sentence in places]
    claims = [sentence for sentence in sentences if sentence.is_claim]
    if len(claims) * len(bag) > MOST_PAIRS:
        raise MIVError(
            f"The answer has {len(claims):,} sentences to check against {len(bag):,} source sentences. Expected at "
            f"most {MOST_PAIRS:,} pairs: check the answer in parts, or give only the documents retrieved for it."
        )
    name = str(verifier) if isinstance(verifier, str | PathLike) else type(verifier).__name__
    if isinstance(verifier, str | PathLike):
        verifier = Verifier.from_pretrained(verifier if isinstance(verifier, str) else Path(verifier))
    if verifier.backbone.kind != "text":
        raise MIVError(f"The verifier {name} reads {verifier.backbone.kind} instances. Expected a verifier of texts.")
    verdicts: Sequence[Verdict] = []
    if claims:
        verdicts = verifier.verify_many([one.text for one in claims], [bag] * len(claims), progress=progress)
        _ = verdicts.scores  # computed at once for all sentences
    found = _cite(sentences, dict(zip((one.number for one in claims), verdicts, strict=True)), places, citations)
    return CheckedAnswer(*found, documents, name, verifier.operating_point.goal)


def outcome_of(verdict: Verdict) -> Outcome:
    """The outcome of a verdict in the words of a check."""
    return _OUTCOMES[verdict.decision]


def _cite(
    sentences: list["Sentence"],
    verdicts: dict[int, Verdict],
    places: list[tuple[Source, "Sentence"]],
    most: int,
) -> tuple[tuple[CheckedSentence, ...], tuple[Citation, ...]]:
    """Number the witnesses in the order of first use, those of supported sentences first."""
    ranked = {number: _witnesses(verdict, most) for number, verdict in verdicts.items()}
    is_supported = [number for number, verdict in verdicts.items() if verdict.verdict]
    order = [*is_supported, *(number for number in verdicts if number not in set(is_supported))]
    numbers: dict[int, int] = {}
    for number in order:
        for place, _ in ranked[number]:
            numbers.setdefault(place, len(numbers) + 1)
    cited = tuple(
        Citation(number, places[place][0].name, places[place][1].number, places[place][1].text)
        for place, number in numbers.items()
    )
    checked = []
    for one in sentences:
        verdict = verdicts.get(one.number)
        if verdict is None:
            checked.append(CheckedSentence(one.text, one.paragraph, "not checked", None))
            continue
        found = ranked[one.number]
        of_sentence = tuple(numbers[place] for place, _ in found), tuple(score for _, score in found)
        checked.append(CheckedSentence(one.text, one.paragraph, outcome_of(verdict), verdict.probability, *of_sentence))
    return tuple(checked), cited


def _witnesses(verdict: Verdict, most: int) -> list[tuple[int, float]]:
    """Places and probabilities of the witnesses that suffice alone, best first; or of the best instance."""
    scores = verdict.scores
    assert scores is not None  # noqa: S101 - witnesses were requested
    chosen = [witness.index for witness in verdict.witnesses if scores[witness.index] >= verdict.threshold]
    return [(place, float(scores[place])) for place in chosen[:most] or [int(scores.argmax())]]
