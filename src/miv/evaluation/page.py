"""Pages and pictures: the frame of every HTML page, which blocks all but its own style and script, and plots."""

import base64
import hashlib
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from importlib.resources import files
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from miv import __version__
from miv.errors import needs_extra
from miv.files.atomic import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


# Models on a page: each has a letter and a colour.

NONE = '<span class="none">–</span>'  # a missing figure


def letter(number: int) -> str:
    """A to Z, then A2 to Z2, and so on.

    >>> letter(0), letter(25), letter(26)
    ('A', 'Z', 'A2')
    """
    return chr(65 + number % 26) + (str(number // 26 + 1) if number >= 26 else "")


def style(number: int) -> str:
    """The CSS class with the colour."""
    return f"m{number % 10}"  # .m0 to .m9 in report.css; letters distinguish more models


def badge(number: int, name: str = "") -> str:
    """The letter on its colour, and the model's name if given."""
    made = f'<span class="badge {style(number)}" aria-hidden="true">{letter(number)}</span>'
    return f"{made} {escape(name)}" if name else made


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    """A table with HTML cells; the first column names the row, the others hold numbers."""
    head = "".join(f'<th scope="col">{cell}</th>' for cell in heads)
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>{"".join(f"<td>{cell}</td>" for cell in row[1:])}</tr>' for row in rows
    )
    # A table wider than the screen scrolls, and its title stays in place. The script makes it focusable while it can
    # scroll.
    return (
        f'<p class="title">{escape(caption)}</p><div class="scroll" data-label="{escape(caption)}">'
        f'<table aria-label="{escape(caption)}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def svg_part(figure: "Figure", words: str) -> str:
    """A figure as a part of the page; ``words`` describe it."""
    file = io.BytesIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    address = f"data:image/svg+xml;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"
    return f'<figure class="chart"><img alt="{escape(words)}" src="{address}"></figure>'


# The common style of all plots, and writing them atomically as PNG and SVG.

# Okabe and Ito's colour-blind safe colours; the dashes distinguish lines in grey print.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES = ("-", "--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1)))
QUIET = "#6B7280"  # for reference lines

_STYLE: Any = {  # not a dict[str, …], as matplotlib types every key
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that a picture is the same on every machine
    "font.size": 10,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E5E7EB",
    "grid.linewidth": 0.8,
    "lines.linewidth": 2.0,
    "legend.frameon": False,
    "figure.dpi": 160,
    "savefig.dpi": 160,
    "svg.fonttype": "none",  # text stays text: small files, words that can be searched
    "svg.hashsalt": "miv",  # the same picture twice is the same file
    "text.parse_math": False,  # names of models may hold $
}


def line_styles(count: int, colours: Sequence[str] = _COLOURS) -> list[dict[str, Any]]:
    """Return styles that distinguish ``count`` lines, as arguments of ``plot``."""
    pairs = zip(islice(cycle(colours), count), islice(cycle(_DASHES), count), strict=True)
    return [{"color": colour, "linestyle": dash} for colour, dash in pairs]


@contextmanager
def figure_of(panels: int = 1, size: tuple[float, float] = (5.2, 4.8)) -> "Iterator[tuple[Figure, list[Axes]]]":
    """Yield a figure and its panels of ``size``, three per row."""
    with needs_extra("train", "Drawing pictures", "matplotlib"):
        import matplotlib
        from matplotlib.figure import Figure  # without pyplot, which would look for a screen

    across = min(panels, 3)
    down = -(-panels // across)
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(size[0] * across, size[1] * down), layout="constrained")
        axes = list(figure.subplots(down, across, squeeze=False).flat)
        for unused in axes[panels:]:
            unused.remove()
        yield figure, axes[:panels]


@contextmanager
def picture(path: Path, panels: int = 1, size: tuple[float, float] = (5.2, 4.8)) -> "Iterator[list[Axes]]":
    """Yield panels to draw on; then write ``path`` as ``.png`` and ``.svg``."""
    with figure_of(panels, size) as (figure, axes):
        yield axes
        for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            with whole_file(path.with_name(f"{path.name}.{suffix}")) as temporary:
                figure.savefig(temporary, format=suffix, metadata=metadata)
