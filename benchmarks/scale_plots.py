"""The plots of how time and memory grow, from the figures of ``scale_growth.py``."""

from pathlib import Path
from typing import Any

from miv.evaluation.page import line_styles, picture

NAMES = {
    "verify": "verify, whole bag in memory",
    "stream": "verify_stream",
    "verify_many": "verify_many, all in memory",
    "score": "miv score, in partitions",
}
SIZES = {"growth_bags": "targets in the bag", "growth_exemplars": "exemplars with bags of 10"}
QUANTITIES = {  # name, what it counts, and the least that is drawn, as the axes are logarithmic
    "processor_seconds": ("Time on one core", "seconds", 1e-3),
    "megabytes": ("Peak memory", "MB above the loaded verifier", 1.0),
}


def draw_growth(figures: dict[str, Any], folder: Path) -> None:
    """Write ``growth_bags`` and ``growth_exemplars``, each if its figures are there, as PNG and SVG."""
    folder.mkdir(exist_ok=True)
    for subject in SIZES.keys() & figures.keys():
        with picture(folder / subject, len(QUANTITIES)) as axes:
            for axis, (quantity, (title, unit, least)) in zip(axes, QUANTITIES.items(), strict=True):
                lines = figures[subject]
                for style, (way, cells) in zip(line_styles(len(lines)), lines.items(), strict=True):
                    heights = [max(least, cell[quantity]) for cell in cells.values()]
                    axis.plot([int(size) for size in cells], heights, marker="o", label=NAMES[way], **style)
                axis.set(title=title, xlabel=SIZES[subject], ylabel=unit, xscale="log", yscale="log")
            axes[0].legend(fontsize="small")
