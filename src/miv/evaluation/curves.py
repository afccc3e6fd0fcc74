"""Curves as pictures: ROC, precision–recall, and metrics by epoch."""

import csv
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from miv.data import SPLITS
from miv.errors import MIVError, needs_extra
from miv.evaluation.evaluation import TITLES
from miv.evaluation.metrics import auroc
from miv.evaluation.predictions import Predictions
from miv.evaluation.runs import RunFolder
from miv.files.atomic import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
        for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            with whole_file(path.with_name(f"{path.name}.{suffix}")) as temporary:
                figure.savefig(temporary, format=suffix, metadata=metadata)


CURVE_FILES = tuple(f"{name}.{suffix}" for name in ("roc", "precision_recall") for suffix in ("png", "svg"))


def write_curves(predictions: Predictions | Mapping[str, Predictions], folder: Path | str) -> list[Path]:
    """Write ``roc`` and ``precision_recall``, each as PNG and SVG, and return the paths.

    Args:
        predictions: answers of one model, or of several by name, drawn together.
        folder: output folder; created if missing.

    A curve needs positives and negatives; predictions with only one label are an error. The dot is the operating
    point at probability 0.5.
    """
    models = {"": predictions} if isinstance(predictions, Predictions) else dict(predictions)
    if not models:
        raise MIVError("There are no predictions. Expected those of at least one model.")
    for name, answers in models.items():
        if not 0 < answers.label.sum() < len(answers):
            of = f" of {name!r}" if name else ""
            raise MIVError(f"The {len(answers)} labels{of} are all the same. A curve needs positives and negatives.")
    folder = Path(folder)
    with picture(folder / "roc") as [axes]:
        _draw_roc(axes, models)
    with picture(folder / "precision_recall") as [axes]:
        _draw_precision_recall(axes, models)
    return [folder / name for name in CURVE_FILES]


def _draw_roc(axes: "Axes", models: dict[str, Predictions]) -> None:
    from sklearn.metrics import roc_curve

    axes.plot([0, 1], [0, 1], color=QUIET, linewidth=1, linestyle=":", label="chance  0.500")
    for (name, answers), style in zip(models.items(), line_styles(len(models)), strict=True):
        false_share, true_share, _ = roc_curve(answers.label, answers.logit)
        area = auroc(answers.label, answers.logit)
        axes.plot(false_share, true_share, **style, label=f"{name or 'AUROC'}  {area:.3f}", clip_on=False)
        yes = answers.yes
        draw_dot(axes, yes[answers.label == 0].mean(), yes[answers.label == 1].mean(), style)
    _finish(axes, "ROC" if "" in models else "ROC: AUROC by model", "lower right")
    axes.set(xlabel="negatives answered yes (false positive rate)", ylabel="positives answered yes (recall)")


def _draw_precision_recall(axes: "Axes", models: dict[str, Predictions]) -> None:
    from sklearn.metrics import average_precision_score, precision_recall_curve

    shares = {round(float(answers.label.mean()), 6) for answers in models.values()}
    if len(shares) == 1:  # models on different data have no chance line in common
        share = shares.pop()
        axes.axhline(share, color=QUIET, linewidth=1, linestyle=":", label=f"chance  {share:.3f}")
    for (name, answers), style in zip(models.items(), line_styles(len(models)), strict=True):
        precision, recall, _ = precision_recall_curve(answers.label, answers.logit, drop_intermediate=True)
        some = recall[::-1] > 0  # at recall 0 precision says nothing; the first step begins there
        recall, precision = recall[::-1][some], precision[::-1][some]  # recall rises
        recall, precision = np.concatenate([[0], recall]), np.concatenate([precision[:1], precision])
        area = average_precision_score(answers.label, answers.logit)
        label = f"{name or 'average precision'}  {area:.3f}"
        axes.plot(recall, precision, **style, drawstyle="steps-pre", label=label, clip_on=False)
        yes = answers.yes
        if yes.any():
            draw_dot(axes, yes[answers.label == 1].mean(), answers.label[yes].mean(), style)
    _finish(axes, "Precision and recall" if "" in models else "Precision and recall: AP by model", "lower left")
    axes.set(xlabel="positives answered yes (recall)", ylabel="yes answers that are right (precision)")


def draw_dot(axes: "Axes", x: float, y: float, style: dict[str, Any], **more: Any) -> None:
    """Mark a point of a line."""
    look = {"color": style["color"], "markersize": 8, "markeredgecolor": "white", "clip_on": False, "zorder": 5}
    axes.plot([x], [y], "o", **look, **more)


def _finish(axes: "Axes", title: str, place: Literal["lower left", "lower right"]) -> None:
    axes.plot([], [], "o", color=QUIET, markersize=7, label="at probability 0.5")
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.set_title(title)
    axes.legend(loc=place)


# Learning curves: the metrics of a run by epoch, from its CSV file, as a picture.

Points = list[tuple[float, float]]  # epoch and value


def write_learning_curves(metrics: Path | str, folder: Path | str) -> list[Path]:
    """Draw the metrics of a run and return the paths of ``learning_curves.png`` and ``.svg``.

    ``metrics`` is a CSV file with a column ``epoch``, and for each split and metric a column such as ``train_loss`` or
    ``validation/accuracy``; a cell may be empty. If there is a column ``stage``, a line marks each change.
    """
    panels, changes = read_history(Path(metrics))
    path = Path(folder) / "learning_curves"
    with picture(path, panels=len(panels), size=(4.6, 3.6)) as axes:
        for panel, (metric, lines) in zip(axes, panels.items(), strict=True):
            _draw(panel, metric, lines, changes)
    return [path.with_name(f"{path.name}.{suffix}") for suffix in ("png", "svg")]


def read_history(path: Path) -> tuple[dict[str, dict[str, Points]], dict[float, str]]:
    """Return the points of each metric and split, and the stages after the first with their first epochs."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            names = reader.fieldnames or []
            rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise MIVError(f"{path} cannot be read as CSV: {error}. Expected the metrics of a run.") from error
    columns = {name: parts for name in names if (parts := _split_and_metric(name))}
    if "epoch" not in names or not columns:
        listing = ", ".join(names) or "none"
        raise MIVError(f"{path} has the columns {listing}. Expected epoch, and others such as train_loss.")
    panels: dict[str, dict[str, Points]] = defaultdict(dict)
    changes: dict[float, str] = {}
    stage = None
    for line, row in enumerate(rows, start=2):
        epoch = _number(path, line, "epoch", row["epoch"])
        if epoch is None:
            continue
        if row.get("stage") and row["stage"] != stage:
            if stage is not None:
                changes[epoch] = row["stage"]
            stage = row["stage"]
        for name, (split, metric) in columns.items():
            value = _number(path, line, name, row[name])
            if value is not None:
                panels[metric].setdefault(split, []).append((epoch, value))
    if not panels:
        raise MIVError(f"{path} has no figures yet. Expected at least one epoch.")
    return panels, changes


def _split_and_metric(name: str) -> tuple[str, str] | None:
    for split in SPLITS:
        if name.startswith((f"{split}_", f"{split}/")):
            return split, name[len(split) + 1 :]
    return None


def _number(path: Path, line: int, name: str, cell: str | None) -> float | None:
    """Return the number in a cell; ``None`` if it is empty or the metric was undefined."""
    if not cell:
        return None
    try:
        value = float(cell)
    except ValueError:
        raise MIVError(f"{path}, line {line}: {name} is {cell[:40]!r}. Expected a number.") from None
    return value if math.isfinite(value) else None


def _draw(axes: "Axes", metric: str, lines: dict[str, Points], changes: dict[float, str]) -> None:
    from matplotlib.ticker import MaxNLocator

    styles = dict(zip(SPLITS, line_styles(len(SPLITS)), strict=True))  # a split looks the same in every panel
    for split in SPLITS:
        if split in lines:
            points = lines[split]
            marker = "o" if len(points) < 30 else None
            axes.plot(*zip(*points, strict=True), **styles[split], marker=marker, markersize=4, label=split)
    for epoch, stage in changes.items():
        axes.axvline(epoch, color=QUIET, linewidth=1, linestyle=":")
        axes.annotate(f"stage {stage}", (epoch, 1), (4, -2), xycoords=("data", "axes fraction"),
                      textcoords="offset points", va="top", fontsize=8, color=QUIET)  # fmt: skip
    axes.set_title(TITLES.get(metric, metric.replace("_", " ")))
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend()


# The curves of a finished run, from the files in its folder.


def check_drawing() -> None:
    """Raise an error without matplotlib, so that training fails before its work, not after it."""
    with needs_extra("train", "Drawing curves", "matplotlib"):
        import matplotlib as matplotlib


def draw_run(run: RunFolder) -> list[Path]:
    """Plot metrics by epoch, ROC and precision-recall in ``curves/``, and return the paths.

    A split with only one label has no ROC.
    """
    drawn = write_learning_curves(run.metrics, run.curves)
    answers = {split: Predictions.load(run.predictions(split)) for split in run.read_evaluation()}
    both = {split: part for split, part in answers.items() if 0 < part.label.sum() < len(part)}
    return [*drawn, *(write_curves(both, run.curves) if both else [])]
