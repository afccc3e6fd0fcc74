"""ROC and precision–recall curves as pictures."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from miv.errors import MIVError
from miv.evaluation.classification import auroc
from miv.evaluation.pictures import QUIET, line_styles, picture
from miv.evaluation.predictions import Predictions

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
        _dot(axes, yes[answers.label == 0].mean(), yes[answers.label == 1].mean(), style)
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
            _dot(axes, yes[answers.label == 1].mean(), answers.label[yes].mean(), style)
    _finish(axes, "Precision and recall" if "" in models else "Precision and recall: AP by model", "lower left")
    axes.set(xlabel="positives answered yes (recall)", ylabel="yes answers that are right (precision)")


def _dot(axes: "Axes", x: float, y: float, style: dict[str, Any]) -> None:
    axes.plot([x], [y], "o", color=style["color"], markersize=8, markeredgecolor="white", clip_on=False, zorder=5)


def _finish(axes: "Axes", title: str, place: Literal["lower left", "lower right"]) -> None:
    axes.plot([], [], "o", color=QUIET, markersize=7, label="at probability 0.5")
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.set_title(title)
    axes.legend(loc=place)
