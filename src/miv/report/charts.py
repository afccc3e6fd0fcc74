"""Small charts as SVG that follows the page's colours, light or dark.

Not matplotlib's: its SVG carries fixed colours in style attributes, which the page's Content-Security-Policy refuses.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

Point = tuple[float, float]
WIDTH, HEIGHT = 340, 290
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 10, 40
MOST_POINTS = 400  # of one line; more cannot be seen


@dataclass(frozen=True)
class Line:
    """One line of a chart.

    Args:
        name: said to screen readers.
        points: from left to right.
        style: number of the model, which decides colour and dashes; ``None`` for a quiet line to compare with.
        dots: whether every point is marked.
        mark: a single point to mark on the line.
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
        """Where on the axis a value lies, from 0 to 1."""
        return min(1.0, max(0.0, (value - self.low) / ((self.high - self.low) or 1.0)))


def chart(title: str, summary: str, x: Axis, y: Axis, lines: Sequence[Line], note: str = "") -> str:
    """A figure with its caption; ``summary`` says in words what the picture shows."""
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
    for line in lines:
        parts.append(_line(x, y, line))
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


def _line(x: Axis, y: Axis, line: Line) -> str:
    points = list(line.points)
    if len(points) > MOST_POINTS:
        step = (len(points) - 1) / (MOST_POINTS - 1)
        points = [points[round(number * step)] for number in range(MOST_POINTS)]
    style = "quiet" if line.style is None else f"line m{line.style % 6}"
    path = "L".join(f"{_x(x, a):.1f} {_y(y, b):.1f}" for a, b in points)
    parts = [f'<path class="{style}" d="M{path}"/>'] if points else []
    marked = [*(points if line.dots else []), *([line.mark] if line.mark else [])]
    radius = 4.5 if line.mark else 2.6
    dot = "dot" if line.style is None else f"dot m{line.style % 6}"
    parts += [f'<circle class="{dot}" cx="{_x(x, a):.1f}" cy="{_y(y, b):.1f}" r="{radius}"/>' for a, b in marked]
    return "".join(parts)
