"""A verdict in a terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from miv.verdict import Verdict

_MOST_ROWS = 20  # of a long bag, those with most attention
_BAR = 20  # blocks for the greatest attention
_LETTERS = 60  # of a text


def headline(verdict: "Verdict") -> str:
    """The answer in one line."""
    word = "Yes" if verdict.verdict else "No"
    return f"{word}: probability {verdict.probability:.3f}, threshold {verdict.threshold:.3f}."


def places_to_show(verdict: "Verdict", most: int) -> NDArray[np.int64]:
    """All places of the bag, rising; of a long one those with most attention, or the first without attention."""
    if verdict.attention is None:
        return np.arange(min(verdict.size, most))
    return np.sort(np.argsort(-verdict.attention, kind="stable")[:most])


def as_text(verdict: "Verdict", names: Sequence[str] = ()) -> str:
    """Show the answer, and for each instance its attention, whether it is a witness, and its name or text."""
    lines = [headline(verdict)]
    attention = verdict.attention
    if attention is None:
        return "\n".join([*lines, f"Bag of {verdict.size}; this pooling has no attention, so it names no witnesses."])
    indices = {witness.index for witness in verdict.witnesses}
    lines.append(f"Bag of {verdict.size}, {len(indices) or 'no'} {'witness' if len(indices) == 1 else 'witnesses'}:")
    places = places_to_show(verdict, _MOST_ROWS)
    greatest = float(attention.max()) or 1.0
    for place in places:
        bar = "█" * round(_BAR * float(attention[place]) / greatest)
        words = _words(verdict, int(place), names)
        mark = "witness" if int(place) in indices else ""
        lines.append(f"{place:>5}  {attention[place]:.3f}  {bar:<{_BAR}}  {mark:<7}  {words}".rstrip())
    if verdict.size > len(places):
        lines.append(f"  and {verdict.size - len(places)} with less attention")
    return "\n".join(lines)


def _words(verdict: "Verdict", place: int, names: Sequence[str]) -> str:
    if names and names[place]:
        return names[place]
    shown = verdict.shown
    if shown is None or shown.pool.kind != "text":
        return ""
    text = " ".join(str(shown.pool.values[shown.bag[place]]).split())
    return text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…"
