"""The frame of every page: one file with inline style and script, and a policy that blocks everything else."""

import base64
import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

from miv import __version__
from miv.errors import MIVError


def whole_page(title: str, body: str, style: str, script: str = "", data: str = "") -> str:
    """Return a page as text; ``title`` is plain text, ``body`` and ``data`` (an element for the script) are HTML."""
    scripts = f"script-src '{_hash(script)}'; " if script else ""
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; {scripts}base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style></head>\n"
        f"<body>{body}"
        f'<footer><p class="note">Written by miv {escape(__version__)}. One file; it makes no network requests.</p>'
        f"</footer>{data}{f'<script>{script}</script>' if script else ''}</body></html>\n"
    )


def page_part(name: str) -> str:
    """Return a style sheet or script of the package."""
    return files("miv.evaluation").joinpath("page_files", name).read_text(encoding="utf-8")


def check_page_name(out: Path) -> None:
    """Raise an error for a page that does not end in .html."""
    if out.suffix.lower() not in (".html", ".htm"):
        raise MIVError(f"The page {out} ends in {out.suffix!r}. Expected a name that ends in .html.")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


# The letter, colour and dashes that identify a model on the page.

NONE = '<span class="none">–</span>'  # a missing figure


def letter(number: int) -> str:
    """A to Z, then A2 to Z2, and so on.

    >>> letter(0), letter(25), letter(26)
    ('A', 'Z', 'A2')
    """
    return chr(65 + number % 26) + (str(number // 26 + 1) if number >= 26 else "")


def style(number: int) -> str:
    """The CSS class with the colour and, for lines, the dashes."""
    return f"m{number % 10}"  # .m0 to .m9 in report.css; letters distinguish more models


def badge(number: int, name: str = "") -> str:
    """The letter on its colour, and the model's name if given."""
    made = f'<span class="badge {style(number)}" aria-hidden="true">{letter(number)}</span>'
    return f"{made} {escape(name)}" if name else made


def legend(names: Iterable[str]) -> str:
    """The letter and colour of each model."""
    return f'<ul class="legend">{"".join(f"<li>{badge(n, name)}</li>" for n, name in enumerate(names))}</ul>'


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str, wide: bool = True) -> str:
    """A table with HTML cells; the first column names the row, the others hold numbers."""
    head = "".join(f'<th scope="col">{cell}</th>' for cell in heads)
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>{"".join(f"<td>{cell}</td>" for cell in row[1:])}</tr>' for row in rows
    )
    # A table wider than the screen scrolls, and its title stays in place. The script makes it focusable while it can
    # scroll.
    return (
        f'<p class="title">{escape(caption)}</p><div class="scroll" data-label="{escape(caption)}">'
        f'<table aria-label="{escape(caption)}"{"" if wide else " class=narrow"}><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


# Small SVG charts that follow the page's colours, light or dark.

Point = tuple[float, float]
WIDTH, HEIGHT = 340, 290
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 10, 40
MOST_POINTS = 400  # of one line; more would not be visible


@dataclass(frozen=True)
class Line:
    """One line of a chart; ``style`` is the number of its model, ``None`` for a neutral line, ``mark`` one point."""

    name: str
    points: Sequence[Point]
    style: int | None = None
    dots: bool = False
    mark: Point | None = None


@dataclass(frozen=True)
class Axis:
    """Range, name and ticks of an axis."""

    name: str
    low: float = 0.0
    high: float = 1.0
    ticks: Sequence[tuple[float, str]] = ((0, "0"), (0.25, ".25"), (0.5, ".5"), (0.75, ".75"), (1, "1"))

    def share(self, value: float) -> float:
        """The position of a value on the axis, from 0 to 1."""
        return min(1.0, max(0.0, (value - self.low) / ((self.high - self.low) or 1.0)))


def chart(title: str, summary: str, x: Axis, y: Axis, lines: Sequence[Line], note: str = "") -> str:
    """A figure with its caption; ``summary`` describes the picture in words."""
    parts = [
        f'<figure class="chart"><figcaption><h3>{escape(title)}</h3></figcaption>',
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(f"{title}. {summary}")}">',
    ]
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for value, text in x.ticks:
        across = _x(x, value)
        parts.append(f'<path class="grid" d="M{across:.1f} {TOP}V{bottom}"/>')
        parts.append(_text("tick", f'x="{across:.1f}" y="{bottom + 15}"', text))
    for value, text in y.ticks:
        up = _y(y, value)
        parts.append(f'<path class="grid" d="M{LEFT} {up:.1f}H{right}"/>')
        parts.append(_text("tick", f'x="{LEFT - 6}" y="{up + 4:.1f}"', text, "end"))
    parts.append(_text("axis", f'x="{(LEFT + right) / 2}" y="{HEIGHT - 6}"', x.name))
    parts.append(_text("axis", f'transform="translate(12 {(TOP + bottom) / 2}) rotate(-90)"', y.name))
    drawn = [_pixels(x, y, line.points) for line in lines]
    parts += [_line(x, y, line, pixels) for line, pixels in zip(lines, drawn, strict=True)]
    of_models = [(line.style, pixels) for line, pixels in zip(lines, drawn, strict=True) if line.style is not None]
    for number, (model, pixels) in enumerate(of_models):
        if len(of_models) > 1 and pixels:  # at different positions, because curves often end in the same corner
            a, b = _point_along(pixels, (number + 0.5) / len(of_models))
            parts.append(_text(f"letter {style(model)}", f'x="{a:.1f}" y="{b + 4:.1f}"', letter(model)))
    note = f'<p class="note">{escape(note)}</p>' if note else ""
    return "".join([*parts, f"</svg>{note}</figure>"])


def _text(kind: str, where: str, text: str, anchor: str = "middle") -> str:
    return f'<text class="{kind}" {where} text-anchor="{anchor}">{escape(text)}</text>'


def nice_axis(name: str, values: Sequence[float], *, whole: bool = False, count: int = 5) -> Axis:
    """An axis over the values with round ticks.

    >>> [text for _, text in nice_axis("loss", [0.12, 0.61]).ticks]
    ['0.1', '0.2', '0.3', '0.4', '0.5', '0.6', '0.7']
    """
    low, high = min(values), max(values)
    span = (high - low) or max(abs(high), 1.0)
    step = 10 ** math.floor(math.log10(span / count))
    step *= next(factor for factor in (1, 2, 5, 10) if step * factor * count >= span)
    if whole:
        step = max(1.0, round(step))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    ticks = [(n * step, f"{n * step:.{decimals}f}") for n in range(first, max(last, first + 1) + 1)]
    return Axis(name, ticks[0][0], ticks[-1][0], ticks)


def _x(axis: Axis, value: float) -> float:
    return LEFT + axis.share(value) * (WIDTH - LEFT - RIGHT)


def _y(axis: Axis, value: float) -> float:
    return HEIGHT - BOTTOM - axis.share(value) * (HEIGHT - TOP - BOTTOM)


def _pixels(x: Axis, y: Axis, points: Sequence[Point]) -> list[Point]:
    chosen = list(points)
    if len(chosen) > MOST_POINTS:
        step = (len(chosen) - 1) / (MOST_POINTS - 1)
        chosen = [chosen[round(number * step)] for number in range(MOST_POINTS)]
    return [(_x(x, a), _y(y, b)) for a, b in chosen]


def _line(x: Axis, y: Axis, line: Line, pixels: list[Point]) -> str:
    colour = "quiet" if line.style is None else f"line {style(line.style)}"
    path = "L".join(f"{a:.1f} {b:.1f}" for a, b in pixels)
    parts = [f'<path class="{colour}" d="M{path}"/>'] if pixels else []
    marked = [*(pixels if line.dots else []), *([(_x(x, line.mark[0]), _y(y, line.mark[1]))] if line.mark else [])]
    radius = 4.5 if line.mark else 2.6
    dot = "dot" if line.style is None else f"dot {style(line.style)}"
    parts += [f'<circle class="{dot}" cx="{a:.1f}" cy="{b:.1f}" r="{radius}"/>' for a, b in marked]
    return "".join(parts)


def _point_along(pixels: list[Point], share: float) -> Point:
    """The point of a line at this share of its length."""
    steps = [math.dist(start, end) for start, end in pairwise(pixels)]
    left = share * sum(steps)
    for step, (start, end) in zip(steps, pairwise(pixels), strict=True):
        if left <= step:
            part = left / step if step else 0.0
            return start[0] + part * (end[0] - start[0]), start[1] + part * (end[1] - start[1])
        left -= step
    return pixels[0]
