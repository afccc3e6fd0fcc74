"""A verdict in a terminal."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from miv.verdict import Verdict

_MOST_ROWS = 20  # of a long bag, those with the greatest shares
_BAR = 20  # blocks for the greatest share
_LETTERS = 60  # of a text
_OBEYED = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def headline(verdict: "Verdict") -> str:
    """The answer in one line."""
    word = "Yes" if verdict.verdict else "No"
    return f"{word}: probability {verdict.probability:.3f}, threshold {verdict.threshold:.3f}."


def found_words(verdict: "Verdict") -> str:
    """How many witnesses there are, and by what they were chosen."""
    if verdict.shares is None:
        return "witnesses not asked for"
    count = len(verdict.witnesses)
    return f"{count or 'no'} {'witness' if count == 1 else 'witnesses'} by {share_word(verdict)}"


def share_word(verdict: "Verdict") -> str:
    """What the shares are made by, in words."""
    return verdict.witnesses_by.replace("_", "-")


def places_to_show(verdict: "Verdict", most: int) -> NDArray[np.int64]:
    """All places of the bag, rising; of a long one those with the greatest shares, or the first without shares."""
    if verdict.shares is None:
        return np.arange(min(verdict.size, most))
    return np.sort(np.argsort(-verdict.shares, kind="stable")[:most])


def as_text(verdict: "Verdict", names: Sequence[str] = ()) -> str:
    """Show the answer, and for each instance its share, whether it is a witness, and its name or text."""
    lines = [headline(verdict), f"Bag of {verdict.size}, {found_words(verdict)}"]
    shares = verdict.shares
    if shares is None:
        return "\n".join(lines) + "."
    lines[-1] += ":"
    indices = {witness.index for witness in verdict.witnesses}
    places = places_to_show(verdict, _MOST_ROWS)
    greatest = float(shares.max()) or 1.0
    for place in places:
        bar = "█" * round(_BAR * float(shares[place]) / greatest)
        words = _words(verdict, int(place), names)
        mark = "witness" if int(place) in indices else ""
        lines.append(f"{place:>5}  {shares[place]:.3f}  {bar:<{_BAR}}  {mark:<7}  {words}".rstrip())
    if verdict.size > len(places):
        lines.append(f"  and {verdict.size - len(places)} with smaller shares")
    return "\n".join(lines)


def _words(verdict: "Verdict", place: int, names: Sequence[str]) -> str:
    if names and names[place]:
        return _printable(names[place])
    shown = verdict.shown
    if shown is None or shown.pool.kind != "text":
        return ""
    text = _printable(" ".join(str(shown.pool.values[shown.bag[place]]).split()))
    return text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…"


def _printable(text: str) -> str:
    """Replace what a terminal would obey rather than show: control characters, and marks that turn a line around."""
    return _OBEYED.sub("�", text)
