"""Show a verdict as text, and as HTML with pictures in a notebook."""

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from miv.data.kinds import KINDS
from miv.errors import MIVError
from miv.files.atomic import whole_file
from miv.files.images import picture_of
from miv.verifier.decisions import threshold_words
from miv.verifier.verdict import Verdict

_MOST_ROWS = 20  # rows shown of a long bag: those with the largest shares
_BAR = 20  # blocks for the largest share
_LETTERS = 60  # characters shown of a text
_EVEN = 0.01  # shares this close to 1 / N, relative to it, all show as the same bar
_OBEYED = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def headline(verdict: Verdict) -> str:
    """The verdict in one line; without a number if the query has no content."""
    if verdict.unlike is not None and verdict.unlike.query_is_empty:
        return f"Unsure: {verdict.reason}."
    words = {"yes": "Match found", "no": "No match found", "unsure": f"Unsure: {verdict.reason}"}[verdict.decision]
    thresholds = threshold_words(verdict.threshold, verdict.lower_threshold)
    doubt = "" if verdict.zero_shot is None else "not calibrated, "
    return f"{words} ({doubt}probability {verdict.probability:.3f}, {thresholds})."


def witness_count(verdict: Verdict) -> str:
    """The number of witnesses, and how they were chosen."""
    if verdict.shares is None:
        return "witnesses not requested"
    count = len(verdict.witnesses)
    if count and not verdict.verdict:
        case = "in case the no is wrong" if verdict.decision == "no" else "to look at"
        return f"{count} candidate{'s' * (count > 1)} by {share_word(verdict)}, {case}"
    return f"{count or 'no'} {'witness' if count == 1 else 'witnesses'} by {share_word(verdict)}"


def witness_word(verdict: Verdict) -> str:
    """The word for an instance of the witness set; a bag that is not accepted has candidates only."""
    return "witness" if verdict.verdict else "candidate"


def notes(verdict: Verdict) -> str:
    """What to know about the shares and the witness sets; may be ""."""
    words, shares, size = [], verdict.shares, verdict.size
    if shares is not None and size > 1 and np.abs(shares * size - 1).max() <= _EVEN:
        words.append(f"{share_word(verdict).capitalize()} does not separate the instances: each has about 1 / {size}.")
    if verdict.zero_shot is not None and not verdict.query_is_unlike:
        words.append(f"Nearest first by {verdict.zero_shot}, without training: trust the order, not the threshold.")
    return " ".join(words)


def first_line(verdict: Verdict) -> str:
    """The verdict, and how often such an answer is wrong."""
    return f"{headline(verdict)} {verdict.chance_of_error}".rstrip()


def share_word(verdict: Verdict) -> str:
    """The source of the shares, in words."""
    return verdict.witnesses_by.replace("_", "-")


def places_to_show(verdict: Verdict, most: int) -> NDArray[np.int64]:
    """All places of the bag in order; for a long bag those with the largest shares, or the first ones.

    An answer without training ranks them by their shares.
    """
    if verdict.shares is None:
        return np.arange(min(verdict.size, most))
    ranked = np.argsort(-verdict.shares, kind="stable")[:most]
    return np.sort(ranked) if verdict.zero_shot is None else ranked


def as_text(verdict: Verdict, names: Sequence[str] = ()) -> str:
    """Show the verdict and, for each instance, its share and score, whether it is a witness, and its name or text."""
    if verdict.is_streamed:
        return _leading_text(verdict)
    lines = [first_line(verdict), f"Bag of {verdict.size}, {witness_count(verdict)}"]
    shares = verdict.shares
    if shares is None:
        lines[-1] += f". {notes(verdict)}".rstrip()
        return "\n".join([*lines, *verdict.warnings])
    lines[-1] += f". {notes(verdict)}" if notes(verdict) else ":"
    indices = {witness.index for witness in verdict.witnesses}
    places = places_to_show(verdict, _MOST_ROWS)
    greatest = float(shares.max()) or 1.0
    scores, matches = verdict.scores, verdict.matches
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
    return "\n".join([*lines, *verdict.warnings])


def _leading_text(verdict: Verdict) -> str:
    """Show the verdict on a bag that was read in chunks, and its leading targets."""
    lines, witnesses = [first_line(verdict)], {witness.index for witness in verdict.witnesses}
    if verdict.leading:
        lines.append(f"Bag of {verdict.size:,}, {len(verdict.leading)} leading by attention:")
    for target in verdict.leading:
        word = witness_word(verdict) if target.index in witnesses else ""
        lines.append(f"{target.index:>12}  {target.score:.6f}  {word}".rstrip())
    return "\n".join([*lines, *verdict.warnings])


def _words(verdict: Verdict, place: int, names: Sequence[str]) -> str:
    shown = verdict.shown
    names = names or (() if shown is None else shown.bag_names)
    if names and names[place]:
        return printable(names[place])
    if shown is None or KINDS[shown.pool.kind].is_array:
        return ""
    return in_a_line(str(shown.pool.values[shown.bag[place]]))


def in_a_line(text: str) -> str:
    """Show a text in one line, shortened if it is long."""
    return _shortened(printable(" ".join(text.split())), _LETTERS)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def printable(text: str) -> str:
    """Replace what a terminal would interpret: control characters and marks that reverse text direction."""
    return _OBEYED.sub("�", text)


# Show a verdict in a notebook: the query next to its bag, witnesses framed, share and score below each instance.

_MOST = 60  # instances shown of a long bag: those with the largest shares
_LONGEST_TEXT = 400  # characters shown of a text
_QUERY, _WITNESS = "#2f6fd0", "#d97706"  # each has a contrast of at least 3 on white and on black


def as_html(verdict: Verdict, names: Sequence[str] = ()) -> str:
    """Return a self-contained piece of HTML; ``names`` are of vectors, which have no other."""
    if verdict.is_streamed:
        return f"<pre>{escape(_leading_text(verdict))}</pre>"
    witnesses = {witness.index for witness in verdict.witnesses}
    places = places_to_show(verdict, _MOST).tolist()
    names = names if verdict.shown is None else verdict.shown.bag_names
    members = [_member(verdict, place, place in witnesses, names[place] if names else "") for place in places]
    if verdict.size > len(places):
        members.append(f"<span>and {verdict.size - len(places)} more</span>")
    words = [verdict.chance_of_error, f"Bag of {verdict.size}, {witness_count(verdict)}.", notes(verdict)]
    if verdict.shares is not None:
        share = "of attention" if share_word(verdict) == "attention" else f"by {share_word(verdict)}"
        words.append(f"Below each instance: its share {share}{', and its score' * (verdict.scores is not None)}.")
    summary = " ".join(filter(None, [*words, *verdict.warnings]))
    is_text = verdict.shown is not None and not KINDS[verdict.shown.pool.kind].is_array
    layout = "flex-direction:column" if is_text else "flex-wrap:wrap;align-items:flex-end"
    return (
        '<div style="font:14px/1.4 system-ui,sans-serif">'
        f"<p style='margin:.3em 0'><b>{escape(headline(verdict))}</b> {note_html(summary)}</p>"
        f'{_query(verdict)}<div style="display:flex;gap:6px;{layout}">{"".join(members)}</div></div>'
    )


def note_html(text: str) -> str:
    """A note of our own as HTML, with commands as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark"><title>{title}</title></head>
<body style="max-width:76rem;margin:1.5rem auto;padding:0 1rem;font:15px/1.45 system-ui,sans-serif">
<h1 style="font-size:1.3rem">{title}</h1>
{pieces}
</body></html>
"""


def check_page(out: Path) -> None:
    """Raise an error for a page whose name a browser would not show as one."""
    if out.suffix.lower() not in (".html", ".htm"):
        raise MIVError(f"The page {out} ends in {out.suffix!r}. Expected a name that ends in .html.")


def write_page(out: Path, title: str, pieces: Sequence[str]) -> None:
    """Write pieces of HTML to one file that makes no network requests."""
    text = _PAGE.format(title=escape(title), pieces="\n".join(pieces))
    with whole_file(out) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="replace")


def _query(verdict: Verdict) -> str:
    if verdict.shown is None:
        return ""
    queries, names = verdict.shown.query, verdict.shown.query_names
    pieces = []
    for place, instance in enumerate(queries[:_MOST].tolist()):
        word, name = "query" if len(queries) == 1 else f"reference {place}", names[place] if names else ""
        caption = f"{word} {escape(Path(name).name)}" if name else word
        pieces.append(f"{_instance(verdict, instance, _titled(word, name), _QUERY)} <small>{caption}</small>")
    if len(queries) > _MOST:
        pieces.append(f"<small>and {len(queries) - _MOST} more</small>")
    return f'<div style="margin:.3em 0">{" ".join(pieces)}</div>'


def _member(verdict: Verdict, place: int, is_witness: bool, name: str) -> str:
    share = None if verdict.shares is None else float(verdict.shares[place])
    score = "" if verdict.scores is None else f"score {float(verdict.scores[place]):.2f}"
    facts = [f"instance {place}", witness_word(verdict) if is_witness else ""]
    facts += ["" if share is None else f"{share_word(verdict)} {share:.3f}", score]
    title = _titled(", ".join(filter(None, facts)), name)
    frame = _WITNESS if is_witness else "transparent"
    if verdict.shown is not None:
        inside = _instance(verdict, int(verdict.shown.bag[place]), title, frame)
    else:
        inside = (
            f'<span title="{title}" style="border:3px solid {frame};border-radius:4px;padding:0 4px">{place}</span>'
        )
    file = escape("/".join(Path(name).parts[-2:]))
    caption = f'<div style="max-width:12em;overflow-wrap:anywhere"><small>{file}</small></div>' if name else ""
    if share is None:
        return f"<div>{inside}{caption}</div>"
    colour = _WITNESS if is_witness else "#888"
    bar = f'<div style="width:{max(1, round(60 * share))}px;height:6px;background:{colour}"></div>'
    words = f"share {share:.2f}" + (f" · {score}" if score else "")
    words += f" <b>{witness_word(verdict)}</b>" if is_witness else ""  # colour alone is not accessible to everyone
    words += "" if verdict.unlike is None else f" {verdict.unlike.words(place)}".rstrip()
    return f"<div>{inside}{bar}<small>{words}</small>{caption}</div>"


def _titled(words: str, name: str) -> str:
    return f"{words}, {escape(name)}" if name else words


def _instance(verdict: Verdict, index: int, title: str, frame: str) -> str:
    assert verdict.shown is not None  # noqa: S101 - the callers have looked
    pool = verdict.shown.pool
    style = f"border:3px solid {frame};border-radius:4px;display:inline-block"
    if KINDS[pool.kind].has_form:
        source = picture_of(pool.values[index])
        return (
            f'<img alt="{title}" title="{title}" src="{source}" '
            f'style="{style};height:64px;image-rendering:pixelated;margin:0">'
        )
    text = _shortened(str(pool.values[index]), _LONGEST_TEXT)
    return f'<span title="{title}" style="{style};padding:0 4px">{escape(text)}</span>'
