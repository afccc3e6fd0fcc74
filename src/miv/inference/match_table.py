"""The matrix of references and instances as an HTML table, with inline styles."""

from collections.abc import Collection, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

_MOST_COLUMNS, _MOST_ROWS = 24, 12


def match_table(matches: NDArray[np.float64], names: Sequence[str], witnesses: Collection[int]) -> str:
    """One row per reference, one column per instance of the bag; the best reference of each witness is bold.

    A large matrix is cut: to the witnesses and the instances that match best, and to the first references.

    Args:
        matches: ``(R, N)`` probabilities.
        names: names of the references; empty for "reference 0" and so on.
        witnesses: places of the witnesses in the bag.
    """
    columns = shown_columns(matches, witnesses)
    rows = range(min(len(matches), _MOST_ROWS))
    best = matches.argmax(axis=0)
    cell = "padding:1px 6px;text-align:right"
    head = "".join(f'<th style="{cell}">{place}{"*" if place in witnesses else ""}</th>' for place in columns)
    lines = []
    for row in rows:
        name = escape(names[row]) if row < len(names) and names[row] else f"reference {row}"
        cells = []
        for place in columns:
            words = f"{matches[row, place]:.2f}"
            words = f"<b>{words}</b>" if place in witnesses and best[place] == row else words
            shade = f"background:rgba(217,119,6,{0.6 * float(matches[row, place]):.2f})"
            cells.append(f'<td style="{cell};{shade}">{words}</td>')
        lines.append(f'<tr><th style="text-align:left;font-weight:normal">{name}</th>{"".join(cells)}</tr>')
    cut = ""
    if len(columns) < matches.shape[1] or len(rows) < len(matches):
        cut = f" Shown: {len(rows)} of {len(matches)} references, {len(columns)} of {matches.shape[1]} instances."
    return (
        '<table style="border-collapse:collapse;margin:.4em 0">'
        f'<caption style="text-align:left"><small>How well each reference matches each instance; * marks a witness.'
        f"{cut}</small></caption><tr><th></th>{head}</tr>{''.join(lines)}</table>"
    )


def shown_columns(matches: NDArray[np.float64], witnesses: Collection[int]) -> list[int]:
    """The places to show, in order: all of a small bag, else the witnesses and those that match best."""
    best = matches.max(axis=0)
    order = sorted(range(matches.shape[1]), key=lambda place: (place not in witnesses, -best[place]))
    return sorted(order[:_MOST_COLUMNS])
