"""The result of a check: each sentence of an answer with its outcome and citations, and how it is printed."""

import shutil
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, Literal

from miv.checking.sentences import Sentence
from miv.verifier.display import printable

Outcome = Literal["supported", "unsure", "unsupported", "not checked"]
OUTCOMES: tuple[Outcome, ...] = ("supported", "unsure", "unsupported", "not checked")


@dataclass(frozen=True)
class Source:
    """A document to check against, and its sentences.

    Args:
        name: its file, or the name it was given with.
        sentences: its sentences in order.
    """

    name: str
    sentences: tuple[Sentence, ...]


@dataclass(frozen=True)
class Citation:
    """A source sentence that is a witness of at least one sentence of the answer.

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
    def place(self) -> str:
        """Where to find it, in words."""
        return f"{self.source}, line {self.line}"


@dataclass(frozen=True)
class CheckedSentence:
    """A sentence of the answer.

    Args:
        text: the sentence.
        paragraph: the number of its paragraph, heading or list item, from 1.
        outcome: ``supported``, ``unsure`` or ``unsupported``; ``not checked`` for a heading, a line of code, a question
            or a piece of fewer than three words.
        probability: calibrated probability that the sources contain its evidence; ``None`` if it was not checked.
        citations: numbers of its citations, best first: witnesses that suffice alone, or else the best source sentence.
            If it is not supported, the nearest source sentences, to look at first; in JSON they are called ``nearest``.
        probabilities: for each citation, the probability if it were the only source sentence.
        words_read: how many words were read, from its first, if it is longer than the verifier reads; else ``None``.
        item: the mark of the list item or heading that it begins, such as ``"- "`` or ``"## "``; else ``""``.
    """

    text: str
    paragraph: int
    outcome: Outcome
    probability: float | None
    citations: tuple[int, ...] = ()
    probabilities: tuple[float, ...] = ()
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
        threshold: a sentence is supported if its probability is at least this.
        lower_threshold: a sentence is unsupported if its probability is below this, and unsure between both.

    Printing it shows the answer with numbered citations. ``bool(checked)`` is true if every checked sentence is
    supported, and at least one was checked.
    """

    sentences: tuple[CheckedSentence, ...]
    citations: tuple[Citation, ...]
    sources: tuple[Source, ...]
    verifier: str
    goal: str
    threshold: float
    lower_threshold: float

    def __bool__(self) -> bool:
        return 0 < self.count("supported") == len(self.sentences) - self.count("not checked")

    def __str__(self) -> str:
        return as_text(self)

    def count(self, outcome: Outcome) -> int:
        """Number of sentences with an outcome."""
        return sum(one.outcome == outcome for one in self.sentences)

    def mark(self, number: int) -> str:
        """The mark of a citation: ``[1]`` if it supports a sentence, ``(a)`` if it is only nearest to one."""
        most = max(self._cited, default=0)  # those that support something come first
        return f"[{number}]" if number <= most else f"({_letters(number - most)})"

    @cached_property
    def _cited(self) -> frozenset[int]:
        return frozenset(number for one in self.sentences if one.outcome == "supported" for number in one.citations)

    def document(self) -> dict[str, Any]:
        """Return plain values, for JSON: ``citations`` of supported sentences, ``nearest`` of the others."""
        cited = self._cited
        return {
            "verifier": self.verifier,
            "goal": self.goal,
            "supported_from": self.threshold,
            "unsupported_below": self.lower_threshold,
            "counts": {outcome: self.count(outcome) for outcome in OUTCOMES},
            "sentences": [_plain_sentence(one) for one in self.sentences],
            "citations": [asdict(one) for one in self.citations if one.number in cited],
            "nearest": [asdict(one) for one in self.citations if one.number not in cited],
            "sources": [{"name": one.name, "sentences": len(one.sentences)} for one in self.sources],
        }


def _plain_sentence(one: CheckedSentence) -> dict[str, Any]:
    is_supported = one.outcome == "supported"
    values = asdict(one)
    found, values["citations"] = values["citations"], one.citations if is_supported else ()
    return values | {"nearest": () if is_supported else found}


def _letters(number: int) -> str:
    """Numbers from 1 as letters: a to z, then aa, ab."""
    letters = ""
    while number:
        number, letter = divmod(number - 1, 26)
        letters = chr(ord("a") + letter) + letters
    return letters


MEANING = (
    "Supported means: a source holds evidence about this sentence. Contradictions (another number or name, a missing "
    '"not") are not detected: read the citations.'
)
_WIDEST, _NARROWEST = 100, 40
_NO_BREAK = "\N{NO-BREAK SPACE}"
_WORDS = {"unsure": "unsure", "unsupported": f"NOT{_NO_BREAK}SUPPORTED"}
_NEAREST: dict[Outcome, str] = {
    "unsure": "Nearest to what is unsure (read them to decide):",
    "unsupported": "Nearest to what is not supported (look there first):",
}


def as_text(checked: CheckedAnswer) -> str:
    """What support means, the answer with citations, the cited and the nearest source sentences, and a summary."""
    width = max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size((_WIDEST, 24)).columns))
    lines = [_filled(MEANING, width), "", *_answer(checked, width), ""]
    shown: set[int] = set()
    lines += _listed(checked, "supported", "Citations:", shown, width)
    for outcome, heading in _NEAREST.items():
        lines += _listed(checked, outcome, heading, shown, width)
    return "\n".join([*lines, _filled(summary(checked), width)])


def summary(checked: CheckedAnswer) -> str:
    """The number of sentences by outcome, and what it was checked with."""
    asked = len(checked.sentences) - checked.count("not checked")
    parts = [f"{checked.count('supported')} of {asked} sentences supported"]
    others: tuple[Outcome, ...] = ("unsure", "unsupported", "not checked")
    parts += [f"{checked.count(outcome)} {outcome}" for outcome in others if checked.count(outcome)]
    return f"{', '.join(parts)} ({printable(checked.verifier)}, {checked.goal})."


def _answer(checked: CheckedAnswer, width: int) -> Iterator[str]:
    """The paragraphs with an empty line between them, but not between the items of a list."""
    in_list = None
    for _, group in groupby(checked.sentences, key=lambda one: one.paragraph):
        paragraph = list(group)
        mark = printable(paragraph[0].item)
        is_item = bool(mark) and not mark.lstrip().startswith("#")
        if in_list is not None and not (in_list and is_item):
            yield ""
        yield _filled(" ".join(_sentence(one, checked) for one in paragraph), width, mark)
        in_list = is_item


def _sentence(one: CheckedSentence, checked: CheckedAnswer) -> str:
    cited = "".join(map(checked.mark, one.citations))
    if one.outcome in _WORDS:
        cited = f"[{_WORDS[one.outcome]}; nearest {cited}]"
    remark = f"[{one.remark}]" if one.remark else ""
    return " ".join(part for part in (printable(one.text), cited, remark) if part)


def _listed(checked: CheckedAnswer, outcome: Outcome, heading: str, shown: set[int], width: int) -> Iterator[str]:
    """The source sentences of an outcome that were not shown before."""
    numbers = sorted({number for one in checked.sentences if one.outcome == outcome for number in one.citations})
    new = [number for number in numbers if number not in shown]
    shown.update(new)
    if not new:
        return
    yield _filled(heading, width)
    for number in new:
        citation = checked.citations[number - 1]
        start = f"{checked.mark(number):<5}"
        text = printable(f"{citation.place}: {citation.text}")
        yield _filled(text, width, start)
    yield ""


def _filled(text: str, width: int, start: str = "") -> str:
    later = " " * len(start)
    filled = textwrap.fill(text, width, initial_indent=start, subsequent_indent=later, break_on_hyphens=False)
    return filled.replace(_NO_BREAK, " ")
