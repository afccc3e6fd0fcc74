"""A verdict in a terminal."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from miv.inference.verdict import Verdict

_MOST_ROWS = 20  # of a long bag, those with the greatest shares
_BAR = 20  # blocks for the greatest share
_LETTERS = 60  # of a text
_EVEN = 0.01  # shares that are all so near to 1 / N, as a part of it, show as the same bar
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
    if count and not verdict.verdict:
        return f"{count} candidate{'s' * (count > 1)} by {share_word(verdict)}, in case the no is wrong"
    return f"{count or 'no'} {'witness' if count == 1 else 'witnesses'} by {share_word(verdict)}"


def witness_word(verdict: "Verdict") -> str:
    """What an instance of the witness set is called; a bag that is rejected has none that shows anything."""
    return "witness" if verdict.verdict else "candidate"


def even_words(verdict: "Verdict") -> str:
    """Say so where the shares tell the instances of a bag of several apart no better than chance would; else ""."""
    shares, size = verdict.shares, verdict.size
    if shares is None or size == 1 or np.abs(shares * size - 1).max() > _EVEN:
        return ""
    return f"{share_word(verdict).capitalize()} does not tell the instances apart: each has about 1 / {size}."


def little_words(verdict: "Verdict") -> str:
    """Say so where the verifier's witness sets hold nearly whole bags; else ""."""
    if verdict.nearly_whole_sets is None or not verdict.witnesses:
        return ""
    return f"Such a set holds {verdict.nearly_whole_sets:.0%} of a bag in the mean, so it says little."


def share_word(verdict: "Verdict") -> str:
    """What the shares are made by, in words."""
    return verdict.witnesses_by.replace("_", "-")


def places_to_show(verdict: "Verdict", most: int) -> NDArray[np.int64]:
    """All places of the bag, rising; of a long one those with the greatest shares, or the first without shares."""
    if verdict.shares is None:
        return np.arange(min(verdict.size, most))
    return np.sort(np.argsort(-verdict.shares, kind="stable")[:most])


def as_text(verdict: "Verdict", names: Sequence[str] = ()) -> str:
    """Show the answer, and for each instance its share and score, whether it is a witness, and its name or text."""
    lines = [headline(verdict), f"Bag of {verdict.size}, {found_words(verdict)}"]
    shares = verdict.shares
    if shares is None:
        return "\n".join(lines) + "."
    notes = " ".join(words for words in (even_words(verdict), little_words(verdict)) if words)
    lines[-1] += f". {notes}" if notes else ":"
    indices = {witness.index for witness in verdict.witnesses}
    places = places_to_show(verdict, _MOST_ROWS)
    greatest = float(shares.max()) or 1.0
    scores = verdict.scores
    if scores is not None:
        lines.append(f"place  share  {'':<{_BAR}}  score")
    for place in places:
        bar = "█" * round(_BAR * float(shares[place]) / greatest)
        words = _words(verdict, int(place), names)
        mark = witness_word(verdict) if int(place) in indices else ""
        width = len(witness_word(verdict)) if indices else len("witness")
        score = "" if scores is None else f"{scores[place]:.3f}  "
        lines.append(f"{place:>5}  {shares[place]:.3f}  {bar:<{_BAR}}  {score}{mark:<{width}}  {words}".rstrip())
    if verdict.size > len(places):
        lines.append(f"  and {verdict.size - len(places)} with smaller shares")
    return "\n".join(lines)


def _words(verdict: "Verdict", place: int, names: Sequence[str]) -> str:
    shown = verdict.shown
    names = names or (() if shown is None else shown.bag_names)
    if names and names[place]:
        return _printable(names[place])
    if shown is None or shown.pool.kind != "text":
        return ""
    return in_a_line(str(shown.pool.values[shown.bag[place]]))


def in_a_line(text: str) -> str:
    """Show a text in one line, cut where it is long."""
    text = _printable(" ".join(text.split()))
    return text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…"


def _printable(text: str) -> str:
    """Replace what a terminal would obey rather than show: control characters, and marks that turn a line around."""
    return _OBEYED.sub("�", text)
