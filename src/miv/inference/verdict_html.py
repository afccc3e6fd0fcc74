"""Show a verdict in a notebook: the query next to its bag, witnesses framed, share and score below each instance.

Styles are inline because notebooks strip style sheets. Colours other than the frames come from the page, which may be
light or dark.
"""

from collections.abc import Sequence
from html import escape
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from miv.data.sheet import Thumbnails
from miv.inference.match_table import match_table
from miv.inference.verdict_text import (
    even_words,
    found_words,
    headline,
    little_words,
    places_to_show,
    share_word,
    unlike_words,
    witness_word,
)

if TYPE_CHECKING:
    from miv.inference.verdict import Verdict

_MOST = 60  # instances shown of a long bag: those with the largest shares
_LETTERS = 400  # characters shown of a text
_QUERY, _WITNESS = "#2f6fd0", "#d97706"  # each has a contrast of at least 3 on white and on black


def as_html(verdict: "Verdict") -> str:
    """Return a self-contained piece of HTML."""
    witnesses = {witness.index for witness in verdict.witnesses}
    places = [int(place) for place in places_to_show(verdict, _MOST)]
    names = () if verdict.shown is None else verdict.shown.bag_names
    called = _without_common_folders([names[place] if names else "" for place in places])
    members = [_member(verdict, place, place in witnesses, name) for place, name in zip(places, called, strict=True)]
    if verdict.size > len(places):
        members.append(f"<span>and {verdict.size - len(places)} more</span>")
    notes = (even_words(verdict), little_words(verdict), unlike_words(verdict))
    found = " ".join((f"Bag of {verdict.size}, {found_words(verdict)}.", *(words for words in notes if words)))
    is_text = verdict.shown is not None and verdict.shown.pool.kind == "text"
    layout = "flex-direction:column" if is_text else "flex-wrap:wrap;align-items:flex-end"
    return (
        '<div style="font:14px/1.4 system-ui,sans-serif">'
        f"<p style='margin:.3em 0'><b>{escape(headline(verdict))}</b> {escape(found)}</p>"
        f"{_query(verdict)}"
        f'<div style="display:flex;gap:6px;{layout}">{"".join(members)}</div>{_matches(verdict, witnesses)}</div>'
    )


def _matches(verdict: "Verdict", witnesses: set[int]) -> str:
    if verdict.matches is None or len(verdict.matches) == 1:
        return ""
    names = () if verdict.shown is None else verdict.shown.query_names
    return match_table(verdict.matches, [Path(name).name for name in names], witnesses)


def _query(verdict: "Verdict") -> str:
    if verdict.shown is None:
        return ""
    queries, names = verdict.shown.query, verdict.shown.query_names
    pieces = []
    for place, instance in enumerate(queries[:_MOST].tolist()):
        name = names[place] if names else ""
        called = "query" if len(queries) == 1 else f"reference {place}"
        inside = _instance(verdict, instance, _titled(called, name), _QUERY)
        words = f"{called} {escape(Path(name).name)}" if name else called
        pieces.append(f"{inside} <small>{words}</small>")
    if len(queries) > _MOST:
        pieces.append(f"<small>and {len(queries) - _MOST} more</small>")
    return f'<div style="margin:.3em 0">{" ".join(pieces)}</div>'


def _member(verdict: "Verdict", place: int, witness: bool, name: str) -> str:
    share = None if verdict.shares is None else float(verdict.shares[place])
    title = f"instance {place}{f', {witness_word(verdict)}' if witness else ''}"
    title += "" if share is None else f", {share_word(verdict)} {share:.3f}"
    score = "" if verdict.scores is None else f"score {float(verdict.scores[place]):.2f}"
    title += f", {score}" if score else ""
    title = _titled(title, name)
    frame = _WITNESS if witness else "transparent"
    if verdict.shown is not None:
        inside = _instance(verdict, int(verdict.shown.bag[place]), title, frame)
    else:
        inside = (
            f'<span title="{title}" style="border:3px solid {frame};border-radius:4px;padding:0 4px">{place}</span>'
        )
    called = f'<div style="max-width:12em;overflow-wrap:anywhere"><small>{escape(name)}</small></div>' if name else ""
    if share is None:
        return f"<div>{inside}{called}</div>"
    colour = _WITNESS if witness else "#888"
    bar = f'<div style="width:{max(1, round(60 * share))}px;height:6px;background:{colour}"></div>'
    # Colour alone is not accessible to everyone.
    word = f" <b>{witness_word(verdict)}</b>" if witness else ""
    word += " unlike" if verdict.unlike is not None and verdict.unlike.bag[place] else ""
    score = f" · {score}" if score else ""
    return f"<div>{inside}{bar}<small>{share:.2f}{score}{word}</small>{called}</div>"


def _titled(words: str, name: str) -> str:
    return f"{words}, {escape(name)}" if name else words


def _without_common_folders(names: Sequence[str]) -> list[str]:
    """Drop the folders that all files share: "photos" for photos/anna/1.png and photos/hugo/1.png."""
    levels = zip(*(Path(name).parent.parts for name in names if name), strict=False)
    common = len(list(takewhile(lambda level: len(set(level)) == 1, levels)))
    return [str(Path(*Path(name).parts[common:])) if name else "" for name in names]


def _instance(verdict: "Verdict", index: int, title: str, frame: str) -> str:
    assert verdict.shown is not None  # noqa: S101 - the callers have looked
    pool = verdict.shown.pool
    style = f"border:3px solid {frame};border-radius:4px"
    if pool.kind == "text":
        text = str(pool.values[index])
        shown = text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…"
        return f'<span title="{title}" style="{style};display:inline-block;padding:0 4px">{escape(shown)}</span>'
    return (
        f'<img alt="{title}" title="{title}" src="{Thumbnails(pool).data_address(index)}" '
        f'style="{style};height:64px;image-rendering:pixelated;display:inline-block;margin:0">'
    )
