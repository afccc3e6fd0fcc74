"""Pictures: ROC, precision–recall and reliability of models."""

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from miv.errors import needs_extra
from miv.evaluation.calibration_fits import expected_calibration_error, reliability_points
from miv.evaluation.metrics import auroc
from miv.files.arrays import Floats, Labels, Mask
from miv.files.atomic import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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


def svg_of(figure: "Figure") -> bytes:
    """A figure as the content of an SVG file."""
    file = io.BytesIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


# What a threshold does: ROC and precision–recall, with a dot at the threshold of each model.


Point = tuple[float, float]


@dataclass(frozen=True, eq=False)
class PlottedModel:
    """The answers of a model for ``E`` exemplars, and the look of its line."""

    name: str
    label: Labels  # (E,)
    score: Floats  # (E,)
    yes: Mask  # (E,) the verdicts that the dot marks
    style: dict[str, Any]

    def draw(self, axes: "Axes", x: Floats, y: Floats, label: str, dot: Point | None, **more: Any) -> None:
        """Draw its line, and its dot if that has a place."""
        axes.plot(x, y, **self.style, label=label, **more)
        if dot is not None:
            look = {"color": self.style["color"], "markersize": 8, "markeredgecolor": "white", "clip_on": False}
            axes.plot([dot[0]], [dot[1]], "o", **look, zorder=5)


def draw_roc(axes: "Axes", models: Sequence[PlottedModel], dot: str) -> None:
    """Draw ROC curves; ``dot`` says in the legend what the dots mark."""
    from sklearn.metrics import roc_curve

    axes.plot([0, 1], [0, 1], color=QUIET, linewidth=1, linestyle=":", label="chance  0.500")
    for model in models:
        false_share, true_share, _ = roc_curve(model.label, model.score)
        place = model.yes[model.label == 0].mean(), model.yes[model.label == 1].mean()
        area = auroc(model.label, model.score)
        model.draw(axes, false_share, true_share, f"{model.name or 'AUROC'}  {area:.3f}", place, clip_on=False)
    axes.set_title("ROC: AUROC by model" if all(model.name for model in models) else "ROC")
    axes.set(xlabel="negatives answered yes (false positive rate)", ylabel="positives answered yes (recall)")
    _finish(axes, dot, "lower right")


def draw_precision_recall(axes: "Axes", models: Sequence[PlottedModel], dot: str) -> None:
    """Draw precision–recall curves; ``dot`` says in the legend what the dots mark."""
    from sklearn.metrics import average_precision_score, precision_recall_curve

    shares = {round(float(model.label.mean()), 6) for model in models}
    if len(shares) == 1:  # models on different data have no chance line in common
        share = shares.pop()
        axes.axhline(share, color=QUIET, linewidth=1, linestyle=":", label=f"chance  {share:.3f}")
    for model in models:
        precision, recall, _ = precision_recall_curve(model.label, model.score, drop_intermediate=True)
        some = recall[::-1] > 0  # at recall 0 precision says nothing; the first step begins there
        recall, precision = recall[::-1][some], precision[::-1][some]  # recall rises
        recall, precision = np.concatenate([[0], recall]), np.concatenate([precision[:1], precision])
        area = average_precision_score(model.label, model.score)
        place = (model.yes[model.label == 1].mean(), model.label[model.yes].mean()) if model.yes.any() else None
        label = f"{model.name or 'average precision'}  {area:.3f}"
        model.draw(axes, recall, precision, label, place, drawstyle="steps-pre", clip_on=False)
    of_several = all(model.name for model in models)
    axes.set_title("Precision and recall: AP by model" if of_several else "Precision and recall")
    axes.set(xlabel="positives answered yes (recall)", ylabel="yes answers that are right (precision)")
    _finish(axes, dot, "lower left")


def _finish(axes: "Axes", dot: str, place: Any) -> None:
    axes.plot([], [], "o", color=QUIET, markersize=7, label=dot)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.legend(loc=place)


Reliability = Mapping[str, tuple[Floats, dict[str, Any]]]  # by name, the probabilities (E,) and the look of their line


def draw_reliability(axes: "Axes", title: str, label: Labels, lines: Reliability) -> None:
    """Draw the share of positives by probability."""
    axes.plot([0, 1], [0, 1], color=QUIET, linewidth=1, linestyle=":")
    for name, (probability, style) in lines.items():
        mean, positive_share, _ = reliability_points(label, probability)
        error = expected_calibration_error(label, probability)
        axes.plot(mean, positive_share, **style, marker="o", markersize=4, label=f"{name}  ECE {error:.3f}")
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="probability", ylabel="share of positives")
    axes.set_title(f"{title} ({len(label):,})")
    axes.legend(loc="upper left")
