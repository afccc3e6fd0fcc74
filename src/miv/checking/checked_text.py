"""Show a checked answer in a terminal."""

import shutil
import textwrap
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from miv.inference.verdict_text import printable

if TYPE_CHECKING:
    from miv.checking.checked_answer import CheckedAnswer, CheckedSentence, Outcome

MEANING = (
    "Supported means: a source holds evidence about this sentence. Contradictions (another number or name, a missing "
    '"not") are not detected: read the citations.'
)
_WIDEST, _NARROWEST = 100, 40
_NO_BREAK = "\N{NO-BREAK SPACE}"
_WORDS = {"unsure": "unsure", "unsupported": f"NOT{_NO_BREAK}SUPPORTED"}
_NEAREST: dict["Outcome", str] = {
    "unsure": "Nearest to what is unsure (read them to decide):",
    "unsupported": "Nearest to what is not supported (look there first):",
}


def as_text(checked: "CheckedAnswer") -> str:
    """What support means, the answer with citations, the cited and the nearest source sentences, and a summary."""
    width = max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size((_WIDEST, 24)).columns))
    lines = [_filled(MEANING, width), "", *_answer(checked, width), ""]
    shown: set[int] = set()
    lines += _listed(checked, "supported", "Citations:", shown, width)
    for outcome, heading in _NEAREST.items():
        lines += _listed(checked, outcome, heading, shown, width)
    return "\n".join([*lines, _filled(summary(checked), width)])


def summary(checked: "CheckedAnswer") -> str:
    """The number of sentences by outcome, and what it was checked with."""
    asked = len(checked.sentences) - checked.count("not checked")
    parts = [f"{checked.count('supported')} of {asked} sentences supported"]
    others: tuple[Outcome, ...] = ("unsure", "unsupported", "not checked")
    parts += [f"{checked.count(outcome)} {outcome}" for outcome in others if checked.count(outcome)]
    return f"{', '.join(parts)} ({printable(checked.verifier)}, {checked.goal})."


def _answer(checked: "CheckedAnswer", width: int) -> Iterator[str]:
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


def _sentence(one: "CheckedSentence", checked: "CheckedAnswer") -> str:
    cited = "".join(map(checked.mark, one.citations))
    if one.outcome in _WORDS:
        cited = f"[{_WORDS[one.outcome]}; nearest {cited}]"
    remark = f"[{one.remark}]" if one.remark else ""
    return " ".join(part for part in (printable(one.text), cited, remark) if part)


def _listed(checked: "CheckedAnswer", outcome: "Outcome", heading: str, shown: set[int], width: int) -> Iterator[str]:
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
