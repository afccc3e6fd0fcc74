"""The frame of every page: one file with inline style and script, and a policy that blocks everything else."""

import base64
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

from miv import __version__
from miv.errors import MIVError


def whole_page(title: str, body: str, style: str, script: str = "", data: str = "") -> str:
    """Return a page as text.

    Args:
        title: title of the page, as plain text.
        body: its content, as HTML.
        style: its style sheet.
        script: its script, if it has one.
        data: an element with data for the script, as HTML.
    """
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
STYLES = 10  # .m0 to .m9 in report.css; letters distinguish more models


def letter(number: int) -> str:
    """A to Z, then A2 to Z2, and so on.

    >>> letter(0), letter(25), letter(26)
    ('A', 'Z', 'A2')
    """
    return chr(65 + number % 26) + (str(number // 26 + 1) if number >= 26 else "")


def style(number: int) -> str:
    """The CSS class with the colour and, for lines, the dashes."""
    return f"m{number % STYLES}"


def badge(number: int, name: str = "") -> str:
    """The letter on its colour, and the model's name if given."""
    made = f'<span class="badge {style(number)}" aria-hidden="true">{letter(number)}</span>'
    return f"{made} {escape(name)}" if name else made


# Small SVG charts that follow the page's colours, light or dark.

Point = tuple[float, float]
WIDTH, HEIGHT = 340, 290
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 10, 40
MOST_POINTS = 400  # of one line; more would not be visible


@dataclass(frozen=True)
class Line:
    """One line of a chart.

    Args:
        name: name for screen readers.
        points: from left to right.
        style: number of the model, which sets colour, dashes and letter; ``None`` for a neutral reference line.
        dots: whether to mark every point.
        mark: a single point to mark.
    """

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
    for value, text in x.ticks:
        place = _x(x, value)
        parts.append(f'<path class="grid" d="M{place:.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        parts.append(
            f'<text class="tick" x="{place:.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{escape(text)}</text>'
        )
    for value, text in y.ticks:
        place = _y(y, value)
        parts.append(f'<path class="grid" d="M{LEFT} {place:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 6}" y="{place + 4:.1f}" text-anchor="end">{escape(text)}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text class="axis" x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x.name)}</text>')
    upright = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(
        f'<text class="axis" transform="translate(12 {upright}) rotate(-90)" text-anchor="middle">'
        f"{escape(y.name)}</text>"
    )
    drawn = [_pixels(x, y, line.points) for line in lines]
    parts += [_line(x, y, line, pixels) for line, pixels in zip(lines, drawn, strict=True)]
    of_models = [(line.style, pixels) for line, pixels in zip(lines, drawn, strict=True) if line.style is not None]
    for place, (number, pixels) in enumerate(of_models):
        if len(of_models) > 1 and pixels:  # at different positions, because curves often end in the same corner
            parts.append(_letter(number, pixels, (place + 0.5) / len(of_models)))
    note = f'<p class="note">{escape(note)}</p>' if note else ""
    return "".join([*parts, f"</svg>{note}</figure>"])


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


def _letter(number: int, pixels: list[Point], share: float) -> str:
    """The model's letter on its line, at this share of its length."""
    steps = [math.dist(one, other) for one, other in pairwise(pixels)]
    left, (a, b) = share * sum(steps), pixels[0]
    for step, (one, other) in zip(steps, pairwise(pixels), strict=True):
        if left <= step:
            part = left / step if step else 0.0
            a, b = one[0] + part * (other[0] - one[0]), one[1] + part * (other[1] - one[1])
            break
        left -= step
    return (
        f'<text class="letter {style(number)}" x="{a:.1f}" y="{b + 4:.1f}" text-anchor="middle">{letter(number)}</text>'
    )
