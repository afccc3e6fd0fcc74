"""The result of a check: each sentence of an answer with its outcome and citations, as text, JSON and a page."""

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, TypeVar

from miv.checking.details import Detail
from miv.checking.sentences import Sentence
from miv.evaluation.page import check_page_name, page_part, whole_page
from miv.files.atomic import whole_file
from miv.verifier.display import printable

Outcome = Literal["evidence found", "unsure", "not in the sources", "not checked"]
OUTCOMES: tuple[Outcome, ...] = ("evidence found", "unsure", "not in the sources", "not checked")


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
class CheckedSentence:
    """A sentence of the answer.

    Args:
        text: the sentence.
        paragraph: the number of its paragraph, heading or list item, from 1.
        outcome: ``evidence found``, ``unsure`` or ``not in the sources``; ``not checked`` for a heading, a line of
            code, a line that ends in a colon, a question or a piece of fewer than three words.
        probability: calibrated probability that the sources contain its evidence; ``None`` if it was not checked.
        citations: numbers of its citations, best first: witnesses that suffice alone, or else the best source sentence.
            Without evidence found, the nearest source sentences, to look at first; in JSON they are called ``nearest``.
        probabilities: for each citation, the probability if it were the only source sentence.
        missing: its numbers, dates and names that no cited (or nearest) document contains, with places in the text.
        reason: why it is unsure; else ``""``.
        words_read: how many words were read, from its first, if it is longer than the verifier reads; else ``None``.
        item: the mark of the list item or heading that it begins, such as ``"- "`` or ``"## "``; else ``""``.
    """

    text: str
    paragraph: int
    outcome: Outcome
    probability: float | None
    citations: tuple[int, ...] = ()
    probabilities: tuple[float, ...] = ()
    missing: tuple[Detail, ...] = ()
    reason: str = ""
    words_read: int | None = None
    item: str = ""

    @property
    def remark(self) -> str:
        """What a reader should know about how it was read, if anything."""
        if self.words_read is None:
            return ""
        return f"only its first {self.words_read} words were read" if self.words_read != 1 else "only 1 word was read"


@dataclass(frozen=True, eq=False)
class CheckedAnswer:
    """An answer checked against sources.

    Args:
        sentences: the sentences of the answer, in order.
        citations: the cited source sentences by number.
        sources: the documents.
        verifier: the name of the verifier.
        goal: the goal that its threshold was chosen for, in words.
        threshold: the evidence on a sentence is found if its probability is at least this and no detail is missing.
        lower_threshold: a sentence is not in the sources if its probability is below this, and unsure between both.

    Printing it shows the answer with numbered citations. ``bool(checked)`` is true if evidence was found on every
    checked sentence, and at least one was checked.
    """

    sentences: tuple[CheckedSentence, ...]
    citations: tuple[Citation, ...]
    sources: tuple[Source, ...]
    verifier: str
    goal: str
    threshold: float
    lower_threshold: float

    def __bool__(self) -> bool:
        return 0 < self.count("evidence found") == len(self.sentences) - self.count("not checked")

    def __str__(self) -> str:
        return as_text(self)

    def count(self, outcome: Outcome) -> int:
        """Number of sentences with an outcome."""
        return sum(sentence.outcome == outcome for sentence in self.sentences)

    def mark(self, number: int) -> str:
        """The mark of a citation: ``[1]`` if it is evidence on a sentence, ``(a)`` if it is only nearest to one."""
        most = max(self._cited, default=0)  # evidence comes first
        return f"[{number}]" if number <= most else f"({_letters(number - most)})"

    @cached_property
    def _cited(self) -> frozenset[int]:
        return frozenset(
            number
            for sentence in self.sentences
            if sentence.outcome == "evidence found"
            for number in sentence.citations
        )

    def document(self) -> dict[str, Any]:
        """Return plain values, for JSON: ``citations`` of sentences with evidence found, ``nearest`` of the others."""
        cited, sentences = self._cited, []
        for sentence in self.sentences:
            key, other = ("citations", "nearest") if sentence.outcome == OUTCOMES[0] else ("nearest", "citations")
            sentences.append(asdict(sentence) | {key: sentence.citations, other: ()})
        return {
            "verifier": self.verifier,
            "goal": self.goal,
            "threshold": self.threshold,
            "lower_threshold": self.lower_threshold,
            "counts": {outcome: self.count(outcome) for outcome in OUTCOMES},
            "sentences": sentences,
            "citations": [asdict(citation) for citation in self.citations if citation.number in cited],
            "nearest": [asdict(citation) for citation in self.citations if citation.number not in cited],
            "sources": [{"name": source.name, "sentences": len(source.sentences)} for source in self.sources],
        }


def _letters(number: int) -> str:
    """Numbers from 1 as letters: a to z, then aa, ab."""
    letters = ""
    while number:
        number, letter = divmod(number - 1, 26)
        letters = chr(ord("a") + letter) + letters
    return letters


Piece = TypeVar("Piece", CheckedSentence, Sentence)

MEANING = (
    "Evidence found means: a source speaks about this sentence. Whether it confirms or contradicts it (a missing "
    '"not", an opposite) is not judged: read the citations. Numbers, dates and names in no cited source are marked.'
)
RATES = (
    "False accepts are sentences without evidence in the sources that are called evidence found; false rejects are "
    "sentences with evidence, confirming or contradicting, that are called not in the sources. The rates are those of "
    "the verifier's calibration data, and not of false and true sentences."
)
_WIDEST, _NARROWEST = 100, 40
_NO_BREAK = "\N{NO-BREAK SPACE}"
_WORDS = {"unsure": "unsure", "not in the sources": "NOT IN THE SOURCES".replace(" ", _NO_BREAK)}
_LISTS: dict[Outcome, str] = {
    "evidence found": "Citations:",
    "unsure": "Nearest to what is unsure (read them to decide):",
    "not in the sources": "Nearest to what is not in the sources (look there first):",
}


def as_text(checked: CheckedAnswer) -> str:
    """What the outcomes mean, the answer with citations, the cited and the nearest source sentences, and a summary."""
    width = max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size((_WIDEST, 24)).columns))
    lines = [_filled(MEANING, width), "", *_answer(checked, width), ""]
    shown: set[int] = set()
    for outcome, heading in _LISTS.items():
        lines += _listed(checked, outcome, heading, shown, width)
    total = len(checked.sentences) - checked.count("not checked")
    counts = [f"Evidence found on {checked.count('evidence found')} of {total} sentences"]
    counts += [f"{checked.count(outcome)} {outcome}" for outcome in OUTCOMES[1:] if checked.count(outcome)]
    lines.append(_filled(f"{', '.join(counts)} ({printable(checked.verifier)}, {checked.goal}).", width))
    lines.append(_filled(RATES, width))
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
    if sentence.outcome in _WORDS:
        cited = f"[{_WORDS[sentence.outcome]}; {_missing(sentence)}nearest {cited}]"
    remark = f"[{sentence.remark}]" if sentence.remark else ""
    return " ".join(part for part in (printable(sentence.text), cited, remark) if part)


def _missing(sentence: CheckedSentence) -> str:
    """The details in no cited source, in words."""
    quoted = dict.fromkeys(f'"{printable(detail.text)}"' for detail in sentence.missing)
    return f"missing: {', '.join(quoted)}; " if quoted else ""


def _listed(checked: CheckedAnswer, outcome: Outcome, heading: str, shown: set[int], width: int) -> Iterator[str]:
    """The source sentences of an outcome that were not shown before."""
    numbers = {number for sentence in checked.sentences if sentence.outcome == outcome for number in sentence.citations}
    new = sorted(numbers - shown)
    shown.update(new)
    if new:
        yield _filled(heading, width)
        for number in new:
            citation = checked.citations[number - 1]
            yield _filled(printable(f"{citation.place}: {citation.text}"), width, f"{checked.mark(number):<5}")
        yield ""


def _filled(text: str, width: int, start: str = "") -> str:
    later = " " * len(start)
    filled = textwrap.fill(text, width, initial_indent=start, subsequent_indent=later, break_on_hyphens=False)
    return filled.replace(_NO_BREAK, " ")


# The page: each sentence with its citations, and the sources with cited sentences highlighted.

MOST_SHOWN = 2000  # sentences of sources; if there are more, only paragraphs with a citation are shown
_PAGE_WORDS = ("unsure", "not in the sources")


def write_check_page(checked: CheckedAnswer, out: Path | str, *, title: str = "") -> None:
    """Write the result of ``miv.check`` as one HTML file, atomically."""
    out = Path(out)
    check_page_name(out)
    page = render_check(checked, title or "Checked answer")
    with whole_file(out) as temporary:
        temporary.write_text(page, encoding="utf-8", errors="replace")


def render_check(checked: CheckedAnswer, title: str) -> str:
    """Return the whole page as text."""
    total = sum(len(source.sentences) for source in checked.sources)
    sources = "".join(_source_html(source, checked, total > MOST_SHOWN) for source in checked.sources)
    counts = "".join(
        f"<li><b>{checked.count(outcome)}</b>{outcome}</li>" for outcome in OUTCOMES if checked.count(outcome)
    )
    body = (
        '<a class="skip" href="#answer">Skip to the answer</a>'
        f'<header class="top"><h1>{escape(title)}</h1><nav aria-label="Parts of the page"><ul>'
        '<li><a href="#answer">Answer</a></li><li><a href="#sources">Sources</a></li></ul></nav></header><main>'
        '<section id="answer" aria-labelledby="answer-heading">'
        '<h2 id="answer-heading">Is each sentence backed by the sources?</h2>'
        f'<p class="note">{escape(MEANING, quote=False)}</p>'
        f'<ul class="counts">{counts}</ul><div class="answer-text">{"".join(_answer_html(checked))}</div>'
        f'<p class="note">Checked with {escape(checked.verifier)} ({escape(checked.goal)}). {escape(RATES)}</p>'
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
    title = f"{sentence.outcome}, probability {sentence.probability:.2f}"
    if sentence.reason:
        title += f": {sentence.reason}"
    links = "".join(
        f'<a class="cite" href="#c{number}" title="{escape(checked.citations[number - 1].place)}; alone {alone:.2f}">'
        f"{checked.mark(number)}</a>"
        for number, alone in zip(sentence.citations, sentence.probabilities, strict=True)
    )
    if sentence.outcome in _PAGE_WORDS:
        nearest = f' <span class="nearest">nearest: {links}</span>' if links else ""
        links = f' <span class="mark {kind}">{sentence.outcome}</span>{nearest}'
    if sentence.remark:
        links += f' <span class="nearest">({sentence.remark})</span>'
    return f'<span class="said {kind}" title="{escape(title)}">{_with_marks(sentence)}</span>{links}'


def _with_marks(sentence: CheckedSentence) -> str:
    """The sentence with its missing details marked."""
    marked, end = "", 0
    for detail in sentence.missing:
        words = f'<span class="missing" title="{detail.kind} in no cited source">{escape(detail.text)}</span>'
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
