"""Show a verdict in a terminal."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from miv.decisions.answers import threshold_words

if TYPE_CHECKING:
    from miv.inference.verdict import Verdict

_MOST_ROWS = 20  # rows shown of a long bag: those with the largest shares
_BAR = 20  # blocks for the largest share
_LETTERS = 60  # characters shown of a text
_EVEN = 0.01  # shares this close to 1 / N, relative to it, all show as the same bar
_OBEYED = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def headline(verdict: "Verdict") -> str:
    """The verdict in one line."""
    words = threshold_words(verdict.threshold, verdict.lower_threshold)
    if verdict.unlike is not None and verdict.unlike.reason is not None:
        return f"Unsure: {verdict.unlike.reason} (probability {verdict.probability:.3f}, {words})."
    between = "between the " if verdict.decision == "unsure" else ""
    return f"{verdict.decision.capitalize()}: probability {verdict.probability:.3f}, {between}{words}."


def found_words(verdict: "Verdict") -> str:
    """The number of witnesses, and how they were chosen."""
    if verdict.shares is None:
        return "witnesses not requested"
    count = len(verdict.witnesses)
    if count and not verdict.verdict:
        case = "in case the no is wrong" if verdict.decision == "no" else "to look at"
        return f"{count} candidate{'s' * (count > 1)} by {share_word(verdict)}, {case}"
    return f"{count or 'no'} {'witness' if count == 1 else 'witnesses'} by {share_word(verdict)}"


def witness_word(verdict: "Verdict") -> str:
    """The word for an instance of the witness set; a bag that is not accepted has candidates only."""
    return "witness" if verdict.verdict else "candidate"


def even_words(verdict: "Verdict") -> str:
    """A note if the shares of a bag of several instances are all nearly equal; else ""."""
    shares, size = verdict.shares, verdict.size
    if shares is None or size == 1 or np.abs(shares * size - 1).max() > _EVEN:
        return ""
    return f"{share_word(verdict).capitalize()} does not separate the instances: each has about 1 / {size}."


def little_words(verdict: "Verdict") -> str:
    """A note if the verifier's witness sets hold nearly whole bags; else ""."""
    if verdict.nearly_whole_sets is None or not verdict.witnesses:
        return ""
    return f"These sets hold {verdict.nearly_whole_sets:.0%} of a bag on average, so they say little."


def unlike_words(verdict: "Verdict") -> str:
    """A note about targets unlike the training data; else ""."""
    return "" if verdict.unlike is None else verdict.unlike.note


def share_word(verdict: "Verdict") -> str:
    """The source of the shares, in words."""
    return verdict.witnesses_by.replace("_", "-")


def places_to_show(verdict: "Verdict", most: int) -> NDArray[np.int64]:
    """All places of the bag in order; for a long bag those with the largest shares, or the first ones."""
    if verdict.shares is None:
        return np.arange(min(verdict.size, most))
    return np.sort(np.argsort(-verdict.shares, kind="stable")[:most])


def as_text(verdict: "Verdict", names: Sequence[str] = ()) -> str:
    """Show the verdict and, for each instance, its share and score, whether it is a witness, and its name or text."""
    lines = [headline(verdict), f"Bag of {verdict.size}, {found_words(verdict)}"]
    shares = verdict.shares
    if shares is None:
        return "\n".join(lines) + f". {unlike_words(verdict)}".rstrip()
    notes = " ".join(words for words in (even_words(verdict), little_words(verdict), unlike_words(verdict)) if words)
    lines[-1] += f". {notes}" if notes else ":"
    indices = {witness.index for witness in verdict.witnesses}
    places = places_to_show(verdict, _MOST_ROWS)
    greatest = float(shares.max()) or 1.0
    scores = verdict.scores
    matches = verdict.matches
    nearest = None if matches is None or len(matches) == 1 else matches.argmax(axis=0)
    if matches is not None and nearest is not None:
        lines[0] += f" Query of {len(matches)} references."
    if scores is not None:
        lines.append(f"place  share  {'':<{_BAR}}  score{'' if nearest is None else '  nearest reference'}")
    for place in places:
        bar = "█" * round(_BAR * float(shares[place]) / greatest)
        words = _words(verdict, int(place), names)
        mark = witness_word(verdict) if int(place) in indices else ""
        width = len(witness_word(verdict)) if indices else len("witness")
        score = "" if scores is None else f"{scores[place]:.3f}  "
        score += "" if nearest is None else f"{nearest[place]:<17}  "
        lines.append(f"{place:>5}  {shares[place]:.3f}  {bar:<{_BAR}}  {score}{mark:<{width}}  {words}".rstrip())
    if verdict.size > len(places):
        lines.append(f"  and {verdict.size - len(places)} with smaller shares")
    return "\n".join(lines)


def _words(verdict: "Verdict", place: int, names: Sequence[str]) -> str:
    shown = verdict.shown
    names = names or (() if shown is None else shown.bag_names)
    if names and names[place]:
        return printable(names[place])
    if shown is None or shown.pool.kind != "text":
        return ""
    return in_a_line(str(shown.pool.values[shown.bag[place]]))


def in_a_line(text: str) -> str:
    """Show a text in one line, shortened if it is long."""
    text = printable(" ".join(text.split()))
    return text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…"


def printable(text: str) -> str:
    """Replace what a terminal would interpret: control characters and marks that reverse text direction."""
    return _OBEYED.sub("�", text)
