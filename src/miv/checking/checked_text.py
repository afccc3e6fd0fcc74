"""Show a checked answer in a terminal."""

import textwrap
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from miv.inference.verdict_text import printable

if TYPE_CHECKING:
    from miv.checking.checked_answer import CheckedAnswer, CheckedSentence, Outcome

_WIDTH = 100
_MARKS = {"supported": "", "unsure": "[unsure]", "unsupported": "[NOT SUPPORTED]", "not checked": ""}


def as_text(checked: "CheckedAnswer") -> str:
    """The answer with citations, the cited sentences with their places, and a summary."""
    lines = []
    for _, paragraph in groupby(checked.sentences, key=lambda one: one.paragraph):
        lines += [textwrap.fill(" ".join(map(_sentence, paragraph)), _WIDTH), ""]
    for citation in checked.citations:
        lines += _indented(f"[{citation.number}]", f"{citation.source}, sentence {citation.sentence}: {citation.text}")
    lines += [""] * bool(checked.citations)
    nearest = [one for one in checked.sentences if one.outcome in ("unsure", "unsupported") and one.citations]
    if nearest:
        lines.append("Nearest to what is not supported (look there first):")
        for one in nearest:
            lines += _indented(" -", f"{one.text} {_cited(one)}")
        lines.append("")
    return "\n".join([*lines, summary(checked)])


def summary(checked: "CheckedAnswer") -> str:
    """The number of sentences by outcome, and what it was checked with."""
    asked = len(checked.sentences) - checked.count("not checked")
    parts = [f"{checked.count('supported')} of {asked} sentences supported"]
    others: tuple[Outcome, ...] = ("unsure", "unsupported", "not checked")
    parts += [f"{checked.count(outcome)} {outcome}" for outcome in others if checked.count(outcome)]
    meaning = "Supported: evidence on the sentence was found. Whether it agrees was not judged."
    return f"{', '.join(parts)} ({checked.verifier}, {checked.goal}). {meaning}"


def _sentence(one: "CheckedSentence") -> str:
    cited = _cited(one) if one.outcome == "supported" else ""
    return " ".join(part for part in (printable(one.text), cited, _MARKS[one.outcome]) if part)


def _cited(one: "CheckedSentence") -> str:
    return "".join(f"[{number}]" for number in one.citations)


def _indented(mark: str, text: str) -> Iterator[str]:
    start = f"{mark:<5}"
    yield textwrap.fill(printable(text), _WIDTH, initial_indent=start, subsequent_indent=" " * len(start))
