"""The result of a check: each sentence of an answer with its outcome and citations, as text, JSON and a page."""

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from html import escape
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Literal, TypeVar

from miv.checking.details import Detail
from miv.checking.sentences import Sentence
from miv.evaluation.page import page_part, whole_page
from miv.files.atomic import whole_file
from miv.verifier.display import check_page, printable

Outcome = Literal["supported", "contradicted", "evidence found", "unsure", "not in the sources", "not checked"]
JUDGED: tuple[Outcome, ...] = ("supported", "contradicted", "not in the sources")  # what a judge says
CITED: tuple[Outcome, ...] = ("supported", "contradicted", "evidence found")  # with citations; others have the nearest
BACKED: tuple[Outcome, ...] = ("supported", "evidence found")


@dataclass(frozen=True)
class Source:
    """A document to check against: its file or name, and its sentences in order."""

    name: str
    sentences: tuple[Sentence, ...]


@dataclass(frozen=True)
class Citation:
    """A source sentence that is evidence on at least one sentence of the answer, or the nearest to it.

    Args:
        number: its number in the answer, from 1, in the order of first use.
        source: the name of its document.
        sentence: its number in that document, from 1.
        text: the sentence.
        line: the line of the document on which it begins, from 1.
    """

    number: int
    source: str
    sentence: int
    text: str
    line: int

    @property
    def position(self) -> str:
        """Its line and sentence, in words."""
        return f"line {self.line}, sentence {self.sentence}"

    @property
    def place(self) -> str:
        """Where to find it, in words."""
        return f"{self.source}, {self.position}"


@dataclass(frozen=True)
class Part:
    """One of several facts that a sentence states, as a sentence of its own, and its outcome."""

    text: str
    outcome: Outcome


@dataclass(frozen=True)
class CheckedSentence:
    """A sentence of the answer.

    Args:
        text: the sentence.
        paragraph: the number of its paragraph, heading or list item, from 1.
        outcome: ``supported``, ``contradicted``, ``not in the sources`` or ``unsure``; without a judge, ``evidence
            found`` in place of the first two. ``not checked`` for a heading, a line of code, a line that ends in a
            colon, a question or a piece of fewer than three words.
        probability: that the sources support it; without a judge, that they contain evidence on it. ``None`` if it was
            not checked.
        contradiction: probability that they contradict it; ``None`` without a judge.
        citations: numbers of the source sentences that support or contradict it, best first. For other outcomes, the
            nearest source sentences, to look at first; in JSON they are called ``nearest``.
        probabilities: for each citation, the probability if it were the only source sentence.
        missing: its numbers, dates and names that no cited (or nearest) document contains, with places in the text.
        differs: if it is contradicted, its words that the first cited source sentence lacks, with places in the text.
        parts: the facts that it states, each with its outcome, if it states several.
        reason: why it is unsure; else ``""``.
        words_read: how many words were read, from its first, if it is longer than the verifier reads; else ``None``.
        item: the mark of the list item or heading that it begins, such as ``"- "`` or ``"## "``; else ``""``.
    """

    text: str
    paragraph: int
    outcome: Outcome
    probability: float | None
    contradiction: float | None = None
    citations: tuple[int, ...] = ()
    probabilities: tuple[float, ...] = ()
    missing: tuple[Detail, ...] = ()
    differs: tuple[Detail, ...] = ()
    parts: tuple[Part, ...] = ()
    reason: str = ""
    words_read: int | None = None
    item: str = ""

    @property
    def remark(self) -> str:
        """What a reader should know about how it was read, if anything."""
        remarks = []
        if len({part.outcome for part in self.parts}) > 1:
            remarks += [f'"{part.text}" is {part.outcome}' for part in self.parts]
        elif self.parts and self.outcome in CITED:
            remarks.append(f"{len(self.parts)} facts, each {self.parts[0].outcome}")
        if self.words_read is not None:
            remarks.append(f"only its first {self.words_read} words were read")
        return "; ".join(remarks)

    @property
    def marked(self) -> tuple[Detail, ...]:
        """Its words in no cited source, and those that the cited sentence lacks, in order and without overlap."""
        lacks = [
            one for one in self.differs if not any(two.start < one.end > one.start < two.end for two in self.missing)
        ]
        return tuple(sorted((*self.missing, *lacks), key=lambda detail: detail.start))


@dataclass(frozen=True, eq=False)
class CheckedAnswer:
    """An answer checked against sources.

    Args:
        sentences: the sentences of the answer, in order.
        citations: the cited source sentences by number.
        sources: the documents.
        verifier: the name of the verifier.
        goal: what its thresholds were chosen for, in words.
        threshold: a sentence is supported, or has its evidence found, only if its probability is at least this.
        lower_threshold: without a judge, a sentence is not in the sources if its probability is below this.
        is_judged: whether a judge told support from contradiction.

    Printing it shows the answer with numbered citations. ``bool(checked)`` is true if every checked sentence is
    supported, or has its evidence found, and at least one was checked.
    """

    sentences: tuple[CheckedSentence, ...]
    citations: tuple[Citation, ...]
    sources: tuple[Source, ...]
    verifier: str
    goal: str
    threshold: float
    lower_threshold: float
    is_judged: bool = False

    def __bool__(self) -> bool:
        return 0 < sum(map(self.count, BACKED)) == len(self.sentences) - self.count("not checked")

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcomes that a sentence can have."""
        first: tuple[Outcome, ...] = ("supported", "contradicted") if self.is_judged else ("evidence found",)
        return (*first, "unsure", "not in the sources", "not checked")

    def __str__(self) -> str:
        return as_text(self)

    def count(self, outcome: Outcome) -> int:
        """Number of sentences with an outcome."""
        return sum(sentence.outcome == outcome for sentence in self.sentences)

    def mark(self, number: int) -> str:
        """The mark of a citation: ``[1]`` if it is evidence on a sentence, ``(a)`` if it is only nearest to one."""
        most = max(self.cited, default=0)  # evidence comes first
        return f"[{number}]" if number <= most else f"({_letters(number - most)})"

    @cached_property
    def cited(self) -> frozenset[int]:
        """The numbers of the source sentences that are evidence; those of the others are greater."""
        cited = (sentence.citations for sentence in self.sentences if sentence.outcome in CITED)
        return frozenset(chain.from_iterable(cited))

    def document(self) -> dict[str, Any]:
        """Return plain values, for JSON: ``citations`` of sentences with evidence, ``nearest`` of the others."""
        cited, sentences = self.cited, []
        for sentence in self.sentences:
            key, other = ("citations", "nearest") if sentence.outcome in CITED else ("nearest", "citations")
            sentences.append(asdict(sentence) | {key: sentence.citations, other: ()})
        return {
            "verifier": self.verifier,
            "goal": self.goal,
            "threshold": self.threshold,
            "lower_threshold": self.lower_threshold,
            "counts": {outcome: self.count(outcome) for outcome in self.outcomes},
            "sentences": sentences,
            "citations": [asdict(citation) for citation in self.citations if citation.number in cited],
            "nearest": [asdict(citation) for citation in self.citations if citation.number not in cited],
            "sources": [{"name": source.name, "sentences": len(source.sentences)} for source in self.sources],
        }


def _letters(number: int) -> str:
    """Numbers from 1 as letters: a to z, then aa, ab."""
    return _letters((number - 1) // 26) + chr(ord("a") + (number - 1) % 26) if number else ""


Piece = TypeVar("Piece", CheckedSentence, Sentence)

MEANING = {
    True: "A judge read each sentence with the source sentences nearest to it. It errs: read the citations of what "
    "matters. Numbers, dates and names in no cited source are marked.",
    False: "Evidence found means: a source speaks about this sentence. Whether it confirms or contradicts it (a "
    'missing "not", an opposite) is not judged: read the citations. Numbers, dates and names in no cited source are '
    "marked.",
}
RATES = {
    True: "The rates are those of claims about Wikipedia sentences with a known truth; yours may differ.",
    False: "False accepts are sentences without evidence in the sources that are called evidence found; false rejects "
    "are sentences with evidence, confirming or contradicting, that are called not in the sources. The rates are those "
    "of the verifier's calibration data, and not of false and true sentences.",
}
_WIDEST, _NARROWEST = 100, 40
_NO_BREAK = "\N{NO-BREAK SPACE}"
_WORDS = {
    "contradicted": "CONTRADICTED",
    "unsure": "unsure",
    "not in the sources": "NOT IN THE SOURCES".replace(" ", _NO_BREAK),
}


def as_text(checked: CheckedAnswer) -> str:
    """What the outcomes mean, the answer with citations, the cited and the nearest source sentences, and a summary."""
    width = max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size((_WIDEST, 24)).columns))
    lines = [_filled(MEANING[checked.is_judged], width), "", *_answer(checked, width), ""]
    most = max(checked.cited, default=0)  # evidence comes first
    cited, near = checked.citations[:most], checked.citations[most:]
    for heading, some in (("Citations:", cited), ("Nearest to the others:", near)):
        listed = [(f"{citation.place}: {citation.text}", checked.mark(citation.number)) for citation in some]
        if some:
            lines += [heading, *(_filled(printable(text), width, f"{mark:<5}") for text, mark in listed), ""]
    total = len(checked.sentences) - checked.count("not checked")
    first, *others = checked.outcomes
    counts = [f"{checked.count(first)} of {total} sentences: {first}"]
    counts += [f"{checked.count(outcome)} {outcome}" for outcome in others if checked.count(outcome)]
    lines.append(_filled(f"{', '.join(counts)} ({printable(checked.verifier)}, {checked.goal}).", width))
    lines.append(_filled(RATES[checked.is_judged], width))
    return "\n".join(lines)


def _paragraphs(sentences: Sequence[Piece]) -> Iterator[list[Piece]]:
    return (list(group) for _, group in groupby(sentences, key=lambda sentence: sentence.paragraph))


def _answer(checked: CheckedAnswer, width: int) -> Iterator[str]:
    """The paragraphs with an empty line between them, but not between the items of a list."""
    in_list = None
    for paragraph in _paragraphs(checked.sentences):
        mark = printable(paragraph[0].item)
        is_item = bool(mark) and not mark.lstrip().startswith("#")
        if in_list is not None and not (in_list and is_item):
            yield ""
        yield _filled(" ".join(_sentence(sentence, checked) for sentence in paragraph), width, mark)
        in_list = is_item


def _sentence(sentence: CheckedSentence, checked: CheckedAnswer) -> str:
    cited = "".join(map(checked.mark, sentence.citations))
    if sentence.outcome == "contradicted":
        differs = _quoted(f"; not in {checked.mark(sentence.citations[0])}", sentence.differs)
        cited = f"[{_WORDS['contradicted']} by {cited}{differs}]"
    elif sentence.outcome in _WORDS:
        nearest = f"nearest {cited}" if cited else "there is no source"
        why = _quoted("; missing", sentence.missing) or (sentence.reason and f": {sentence.reason}")
        cited = f"[{_WORDS[sentence.outcome]}{why}; {nearest}]"
    remark = f"[{sentence.remark}]" if sentence.remark else ""
    return " ".join(part for part in (printable(sentence.text), cited, remark) if part)


def _quoted(what: str, details: Sequence[Detail]) -> str:
    """Words of a sentence after what they are, or nothing."""
    quoted = dict.fromkeys(f'"{printable(detail.text)}"' for detail in details)
    return f"{what}: {', '.join(quoted)}" if quoted else ""


def _filled(text: str, width: int, start: str = "") -> str:
    later = " " * len(start)
    filled = textwrap.fill(text, width, initial_indent=start, subsequent_indent=later, break_on_hyphens=False)
    return filled.replace(_NO_BREAK, " ")


# The page: each sentence with its citations, and the sources with cited sentences highlighted.

MOST_SHOWN = 2000  # sentences of sources; if there are more, only paragraphs with a citation are shown


def write_check_page(checked: CheckedAnswer, out: Path | str, *, title: str = "") -> None:
    """Write the result of ``miv.check`` as one HTML file, atomically."""
    out = Path(out)
    check_page(out)
    page = render_check(checked, title or "Checked answer")
    with whole_file(out) as temporary:
        temporary.write_text(page, encoding="utf-8", errors="replace")


def render_check(checked: CheckedAnswer, title: str) -> str:
    """Return the whole page as text."""
    total = sum(len(source.sentences) for source in checked.sources)
    sources = "".join(_source_html(source, checked, total > MOST_SHOWN) for source in checked.sources)
    counts = "".join(
        f"<li><b>{checked.count(outcome)}</b>{outcome}</li>" for outcome in checked.outcomes if checked.count(outcome)
    )
    body = (
        '<a class="skip" href="#answer">Skip to the answer</a>'
        f'<header class="top"><h1>{escape(title)}</h1><nav aria-label="Parts of the page"><ul>'
        '<li><a href="#answer">Answer</a></li><li><a href="#sources">Sources</a></li></ul></nav></header><main>'
        '<section id="answer" aria-labelledby="answer-heading">'
        '<h2 id="answer-heading">Is each sentence backed by the sources?</h2>'
        f'<p class="note">{escape(MEANING[checked.is_judged], quote=False)}</p>'
        f'<ul class="counts">{counts}</ul><div class="answer-text">{"".join(_answer_html(checked))}</div>'
        f'<p class="note">Checked with {escape(checked.verifier)} ({escape(checked.goal)}). '
        f"{escape(RATES[checked.is_judged])}</p>"
        '<p class="note">[1] marks a source sentence with evidence, (a) one that is only nearest to what is unsure or '
        "not in the sources.</p>"
        "</section>"
        '<section id="sources" aria-labelledby="sources-heading"><h2 id="sources-heading">Sources</h2>'
        f"{sources}</section></main>"
    )
    return whole_page(f"{title}: miv check", body, page_part("report.css") + page_part("check.css"))


def _answer_html(checked: CheckedAnswer) -> Iterator[str]:
    for paragraph in _paragraphs(checked.sentences):
        words, mark = " ".join(_sentence_html(sentence, checked) for sentence in paragraph), paragraph[0].item.strip()
        if mark.startswith("#"):
            yield f"<p><b>{words}</b></p>"
        else:
            yield f"<p>{escape(mark)} {words}</p>" if mark else f"<p>{words}</p>"


def _sentence_html(sentence: CheckedSentence, checked: CheckedAnswer) -> str:
    if sentence.probability is None:
        return escape(sentence.text)
    kind = sentence.outcome.replace(" ", "-")
    against = "" if sentence.contradiction is None else f", of a contradiction {sentence.contradiction:.2f}"
    title = f"{sentence.outcome}, probability {sentence.probability:.2f}{against}"
    if sentence.reason:
        title += f": {sentence.reason}"
    links = "".join(
        f'<a class="cite" href="#c{number}" title="{escape(checked.citations[number - 1].place)}; alone {alone:.2f}">'
        f"{checked.mark(number)}</a>"
        for number, alone in zip(sentence.citations, sentence.probabilities, strict=True)
    )
    if sentence.outcome in _WORDS:
        word = "by" if sentence.outcome == "contradicted" else "nearest:"
        nearest = f' <span class="nearest">{word} {links}</span>' if links else ""
        links = f' <span class="mark {kind}">{sentence.outcome}</span>{nearest}'
    if sentence.remark:
        links += f' <span class="nearest">({escape(sentence.remark, quote=False)})</span>'
    return f'<span class="said {kind}" title="{escape(title)}">{_with_marks(sentence)}</span>{links}'


def _with_marks(sentence: CheckedSentence) -> str:
    """The sentence with its missing details, and the words that differ, marked."""
    marked, end = "", 0
    for detail in sentence.marked:
        where = "in no cited source" if detail in sentence.missing else "that the cited sentence lacks"
        words = f'<span class="missing" title="{detail.kind} {where}">{escape(detail.text)}</span>'
        marked, end = marked + escape(sentence.text[end : detail.start]) + words, detail.end
    return marked + escape(sentence.text[end:])


def _source_html(source: Source, checked: CheckedAnswer, only_cited: bool) -> str:
    numbers = {citation.sentence: citation.number for citation in checked.citations if citation.source == source.name}
    paragraphs = []
    for paragraph in _paragraphs(source.sentences):
        pieces = [(sentence.text, numbers.get(sentence.number)) for sentence in paragraph]
        if only_cited and not any(number for _, number in pieces):
            continue
        words = " ".join(escape(text) if number is None else _marked(number, checked) for text, number in pieces)
        paragraphs.append(f"<p>{words}</p>")
    shown = "".join(paragraphs) or '<p class="none">No sentence of it is cited.</p>'
    cut = '<p class="note">Only paragraphs with a citation are shown.</p>' if only_cited and paragraphs else ""
    return f'<article class="source"><h3>{escape(source.name)}</h3>{cut}{shown}</article>'


def _marked(number: int, checked: CheckedAnswer) -> str:
    citation = checked.citations[number - 1]
    words = f"<b>{checked.mark(number)}</b> {escape(citation.text)}"
    return f'<mark id="c{number}">{words}</mark> <small class="line">{citation.position}</small>'
