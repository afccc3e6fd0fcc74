"""Draw the pictures of docs/concepts.md: ``python docs/images/draw_concepts.py``.

The classes are shapes: the query and its witnesses are triangles. The attention is that of the example on the page.
"""

from pathlib import Path

HERE = Path(__file__).parent
INK, FAINT, ORANGE, BLUE = "#333333", "#8a8a8a", "#d9660a", "#2a6fb0"
OUTLINES = {
    "triangle": '<path d="M0 -20 L20 16 L-20 16 Z"/>',
    "flat triangle": '<path d="M-22 14 L22 18 L4 -16 Z"/>',
    "square": '<rect x="-17" y="-17" width="34" height="34"/>',
    "circle": '<circle r="19"/>',
}
BAG = ("flat triangle", "square", "triangle", "circle")
WITNESSES = (0, 2)
ATTENTION = {"baseline": (1.0, 0.0, 0.0, 0.0), "cap_dba_l2": (0.38, 0.14, 0.37, 0.10)}


def shape(name: str, x: float, y: float, colour: str) -> str:
    """An instance, its middle at ``x`` and ``y``."""
    return f'<g transform="translate({x} {y})" fill="{colour}" fill-opacity="0.85">{OUTLINES[name]}</g>'


def text(words: str, x: float, y: float, colour: str = INK, size: int = 15, weight: str = "normal") -> str:
    """Words, centred at ``x``."""
    style = f'fill="{colour}" font-size="{size}" font-weight="{weight}" text-anchor="middle"'
    return f'<text x="{x}" y="{y}" {style}>{words}</text>'


def frame(x: float, y: float, width: float, height: float, colour: str = FAINT) -> str:
    """A rounded frame."""
    place = f'x="{x}" y="{y}" width="{width}" height="{height}"'
    return f'<rect {place} rx="10" fill="none" stroke="{colour}" stroke-width="2"/>'


def arrow(x: float, y: float, to_x: float, to_y: float) -> str:
    """A straight arrow."""
    return f'<path d="M{x} {y} L{to_x} {to_y}" stroke="{INK}" stroke-width="2" marker-end="url(#head)"/>'


def bag(names: tuple[str, ...], x: float, y: float, witnesses: tuple[int, ...]) -> list[str]:
    """The targets side by side in a frame, the witnesses in the colour of the query."""
    colours = [ORANGE if place in witnesses else BLUE for place in range(len(names))]
    shapes = [shape(name, x + 45 + 70 * place, y + 40, colours[place]) for place, name in enumerate(names)]
    return [frame(x, y, 20 + 70 * len(names), 80), *shapes]


def bars(attention: tuple[float, ...], x: float, y: float) -> list[str]:
    """The attention of each target as a bar that stands on ``y``, its share above it."""
    parts = [f'<path d="M{x + 10} {y} H{x + 10 + 70 * len(attention)}" stroke="{FAINT}"/>']
    for place, share in enumerate(attention):
        middle, height = x + 45 + 70 * place, 70 * share
        parts.append(f'<rect x="{middle - 17}" y="{y - height:.1f}" width="34" height="{height:.1f}" fill="{INK}"/>')
        parts.append(text(f"{share:.2f}", middle, y - height - 6, size=13))
    return parts


def save(name: str, title: str, width: int, height: int, parts: list[str]) -> None:
    """White ground, so that the picture can be read on dark pages too."""
    size = f'width="{width}" height="{height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {size} font-family="sans-serif">',
        f"<title>{title}</title>",
        '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">',
        f'<path d="M0 0 L8 4 L0 8 Z" fill="{INK}"/></marker>',
        f'<rect {size} fill="white"/>',
    ]
    (HERE / f"{name}.svg").write_text("\n".join([*lines, *parts, "</svg>"]) + "\n", "utf-8")


def draw_query_and_bag() -> None:
    """A query beside a bag with witnesses and one without."""
    parts = [text("query", 70, 32, weight="bold"), frame(30, 105, 80, 80, ORANGE), shape("triangle", 70, 145, ORANGE)]
    parts += [text("bag", 310, 32, weight="bold"), text("label", 560, 32, weight="bold")]
    parts += [*bag(BAG, 160, 50, WITNESSES), text("yes", 560, 95, ORANGE, 18)]
    parts += [text("witness", 205, 147, ORANGE, 13), text("witness", 345, 147, ORANGE, 13)]
    parts += [*bag(("circle", "square", "circle", "square"), 160, 165, ()), text("no", 560, 210, BLUE, 18)]
    save("query-and-bag", "One query beside a bag with two witnesses and a bag without any", 640, 265, parts)


def draw_attention() -> None:
    """A query beside a bag, and below it the attention of two poolings."""
    parts = [text("query", 70, 32, weight="bold"), frame(30, 50, 80, 80, ORANGE), shape("triangle", 70, 90, ORANGE)]
    parts += [text("bag", 310, 32, weight="bold"), *bag(BAG, 160, 50, WITNESSES)]
    for row, (name, attention) in enumerate(ATTENTION.items()):
        base = 250 + 130 * row
        parts += [text(name, 70, base - 20, size=14), *bars(attention, 160, base)]
    save("attention", "Attention over the four targets, as bars, for the baseline and for CAP", 480, 400, parts)


def draw_pooling() -> None:
    """The way from a query and a bag to a probability."""
    parts = [text("query", 70, 32, weight="bold"), frame(30, 50, 80, 80, ORANGE), shape("triangle", 70, 90, ORANGE)]
    parts += [text("bag", 70, 182, weight="bold"), frame(20, 195, 100, 100), shape("triangle", 48, 222, ORANGE)]
    parts += [shape("square", 94, 222, BLUE), shape("flat triangle", 48, 268, ORANGE), shape("circle", 94, 268, BLUE)]
    for x, y, words in (
        (170, 75, "features"),
        (170, 230, "features"),
        (340, 150, "attention"),
        (500, 230, "pooled bag"),
    ):
        parts += [frame(x, y, 110, 34, INK), text(words, x + 55, y + 22)]
    parts += [frame(660, 150, 110, 34, INK), text("similarity", 715, 172), text("probability", 715, 232, weight="bold")]
    parts += [arrow(112, 92, 168, 92), arrow(122, 247, 168, 247), arrow(280, 98, 345, 148), arrow(280, 240, 345, 186)]
    parts += [arrow(450, 172, 505, 228), arrow(280, 250, 498, 250), arrow(610, 240, 665, 186), arrow(280, 90, 665, 152)]
    parts += [arrow(715, 186, 715, 214)]
    save("pooling", "From features through attention and a similarity to a probability", 800, 315, parts)


if __name__ == "__main__":
    draw_query_and_bag()
    draw_attention()
    draw_pooling()
