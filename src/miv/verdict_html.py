"""A verdict in a notebook: the query beside its bag, witnesses framed and named, the share below each.

Styles stand in the elements, and colours are the page's own but for the frames: notebooks strip style sheets, and are
light or dark.
"""

from html import escape
from typing import TYPE_CHECKING

from miv.inspection.thumbnails import Thumbnails
from miv.verdict_text import found_words, headline, places_to_show, share_word

if TYPE_CHECKING:
    from miv.verdict import Verdict

_MOST = 60  # of a long bag, those with the greatest shares
_LETTERS = 400  # of a text
_QUERY, _WITNESS = "#2f6fd0", "#d97706"  # each of contrast 3 or more on white and on black


def as_html(verdict: "Verdict") -> str:
    """Return a piece of HTML that needs nothing else."""
    witnesses = {witness.index for witness in verdict.witnesses}
    places = [int(place) for place in places_to_show(verdict, _MOST)]
    members = [_member(verdict, place, place in witnesses) for place in places]
    if verdict.size > len(places):
        members.append(f"<span>and {verdict.size - len(places)} more</span>")
    found = f"Bag of {verdict.size}, {found_words(verdict)}."
    is_text = verdict.shown is not None and verdict.shown.pool.kind == "text"
    layout = "flex-direction:column" if is_text else "flex-wrap:wrap;align-items:flex-end"
    return (
        '<div style="font:14px/1.4 system-ui,sans-serif">'
        f"<p style='margin:.3em 0'><b>{escape(headline(verdict))}</b> {escape(found)}</p>"
        f"{_query(verdict)}"
        f'<div style="display:flex;gap:6px;{layout}">{"".join(members)}</div></div>'
    )


def _query(verdict: "Verdict") -> str:
    if verdict.shown is None:
        return ""
    inside = _instance(verdict, int(verdict.shown.query[0]), "query", _QUERY)
    return f'<div style="margin:.3em 0">{inside} <small>query</small></div>'


def _member(verdict: "Verdict", place: int, witness: bool) -> str:
    share = None if verdict.shares is None else float(verdict.shares[place])
    title = f"instance {place}{', witness' if witness else ''}"
    title += "" if share is None else f", {share_word(verdict)} {share:.3f}"
    frame = _WITNESS if witness else "transparent"
    if verdict.shown is not None:
        inside = _instance(verdict, int(verdict.shown.bag[place]), title, frame)
    else:
        inside = (
            f'<span title="{title}" style="border:3px solid {frame};border-radius:4px;padding:0 4px">{place}</span>'
        )
    if share is None:
        return f"<div>{inside}</div>"
    colour = _WITNESS if witness else "#888"
    bar = f'<div style="width:{max(1, round(60 * share))}px;height:6px;background:{colour}"></div>'
    word = " <b>witness</b>" if witness else ""  # a colour alone tells nothing to those who do not see it
    return f"<div>{inside}{bar}<small>{share:.2f}{word}</small></div>"


def _instance(verdict: "Verdict", index: int, title: str, frame: str) -> str:
    assert verdict.shown is not None  # noqa: S101 - the callers have looked
    pool = verdict.shown.pool
    style = f"border:3px solid {frame};border-radius:4px"
    if pool.kind == "text":
        text = str(pool.values[index])
        shown = text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…"
        return f'<span title="{title}" style="{style};padding:0 4px">{escape(shown)}</span>'
    return (
        f'<img alt="{title}" title="{title}" src="{Thumbnails(pool).data_address(index)}" '
        f'style="{style};height:64px;image-rendering:pixelated;display:inline-block;margin:0">'
    )
