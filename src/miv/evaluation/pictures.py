"""The common style of all plots, and writing them atomically as PNG and SVG."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from miv.errors import needs_extra
from miv.io.whole_files import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    "axes.titlepad": 10,
    "axes.edgecolor": "#9CA3AF",
    "axes.labelcolor": "#374151",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E5E7EB",
    "grid.linewidth": 0.8,
    "lines.linewidth": 2.0,
    "lines.solid_capstyle": "round",
    "xtick.color": "#374151",
    "ytick.color": "#374151",
    "legend.frameon": False,
    "figure.dpi": 160,
    "savefig.dpi": 160,
    "svg.fonttype": "none",  # text stays text: small files, words that can be searched
    "svg.hashsalt": "miv",  # the same picture twice is the same file
}


def line_styles(count: int) -> list[dict[str, Any]]:
    """Return styles that distinguish ``count`` lines, as arguments of ``plot``."""
    colours, dashes = islice(cycle(_COLOURS), count), islice(cycle(_DASHES), count)
    return [{"color": colour, "linestyle": dash} for colour, dash in zip(colours, dashes, strict=True)]


@contextmanager
def picture(path: Path, panels: int = 1, size: tuple[float, float] = (5.2, 4.8)) -> "Iterator[list[Axes]]":
    """Yield panels to draw on, three per row; then write ``path`` as ``.png`` and ``.svg``."""
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
        yield axes[:panels]
        for suffix in ("png", "svg"):
            _write(figure, path.with_name(f"{path.name}.{suffix}"), suffix)


def _write(figure: "Figure", path: Path, suffix: str) -> None:
    with whole_file(path) as temporary:
        figure.savefig(temporary, format=suffix, metadata={"Date": None} if suffix == "svg" else {"Software": None})
