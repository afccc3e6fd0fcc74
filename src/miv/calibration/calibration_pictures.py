"""ROC and DET curves with the operating point, and reliability by the size of the bag, as PNG and SVG."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from miv.calibration.error_curve import ErrorCurve
from miv.calibration.reliability import bag_size_classes, expected_calibration_error, reliability_points
from miv.evaluation import auroc
from miv.evaluation.pictures import QUIET, line_styles, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from miv.calibration.calibrate import Calibration

PICTURE_FILES = tuple(f"{name}.{suffix}" for name in ("roc", "det", "reliability") for suffix in ("png", "svg"))
_SHARES = (0.0001, 0.001, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8)


def write_pictures(calibration: "Calibration", folder: Path | str) -> list[Path]:
    """Write ``roc``, ``det`` and ``reliability``, each as PNG and SVG, and return the paths."""
    folder = Path(folder)
    probability = calibration.point.probability(calibration.predictions.logit)
    curve = ErrorCurve.of(probability, calibration.predictions.label)
    with picture(folder / "roc") as [axes]:
        _draw_roc(axes, calibration, curve)
    with picture(folder / "det") as [axes]:
        _draw_det(axes, calibration, curve)
    names, place = bag_size_classes(calibration.predictions.bag_sizes)
    everything = [("all bags", np.ones(len(place), bool))]
    classes = [(f"bags of {name}", place == number) for number, name in enumerate(names)]
    panels = everything if len(classes) == 1 else everything + classes
    with picture(folder / "reliability", panels=len(panels), size=(4.2, 4.2)) as each:
        for axes, (title, of) in zip(each, panels, strict=True):
            _draw_reliability(axes, calibration, title, of)
    return [folder / name for name in PICTURE_FILES]


def _draw_roc(axes: "Axes", calibration: "Calibration", curve: ErrorCurve) -> None:
    area = auroc(calibration.predictions.label, calibration.predictions.logit)
    [style] = line_styles(1)
    axes.plot([0, 1], [0, 1], color=QUIET, linewidth=1, linestyle=":", label="chance  0.500")
    axes.plot(curve.false_accept_rate, 1 - curve.false_reject_rate, **style, label=f"AUROC  {area:.3f}", clip_on=False)
    rates = calibration.point.measured
    _dot(axes, rates["false_accept_rate"]["value"], 1 - rates["false_reject_rate"]["value"], calibration, style)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.set(xlabel="negatives accepted (false-accept rate)", ylabel="positives accepted")
    axes.set_title("ROC on validation data")
    axes.legend(loc="lower right")


def _draw_det(axes: "Axes", calibration: "Calibration", curve: ErrorCurve) -> None:
    """Both axes show quantiles of the normal distribution: normally distributed scores give a straight line."""
    from scipy.special import ndtri

    accepts, rejects = curve.false_accept_rate, curve.false_reject_rate
    inside = (accepts > 0) & (rejects > 0) & (accepts < 1) & (rejects < 1)  # 0 and 1 are infinitely far away
    [style] = line_styles(1)
    axes.plot(ndtri(accepts[inside]), ndtri(rejects[inside]), **style)
    equal = calibration.point.measured["eer"]["value"]
    ends = ndtri(np.array([_SHARES[0], _SHARES[-1]]))
    axes.plot(ends, ends, color=QUIET, linewidth=1, linestyle=":", label=f"equal errors  {equal:.3f}")
    rates = calibration.point.measured
    here = (rates["false_accept_rate"]["value"], rates["false_reject_rate"]["value"])
    if all(0 < rate < 1 for rate in here):
        _dot(axes, ndtri(here[0]), ndtri(here[1]), calibration, style)
    seen = np.concatenate([accepts[inside], rejects[inside], [0.01, 0.4]])
    ticks = [share for share in _SHARES if seen.min() / 2 <= share <= max(0.4, seen.max())]
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(ndtri(np.array(ticks)), [f"{share:.4g}" for share in ticks])
    reach = (ndtri(ticks[0]) - 0.2, ndtri(ticks[-1]) + 0.2)
    axes.set(xlim=reach, ylim=reach, aspect="equal", xlabel="false-accept rate", ylabel="false-reject rate")
    axes.set_title("Detection error trade-off")
    axes.legend(loc="upper right")


def _draw_reliability(axes: "Axes", calibration: "Calibration", title: str, of: NDArray[np.bool_]) -> None:
    label = calibration.predictions.label[of]
    before, after = line_styles(2)[::-1]
    axes.plot([0, 1], [0, 1], color=QUIET, linewidth=1, linestyle=":")
    lines = (("before", calibration.predictions.probability, before), ("after", calibration.held_out, after))
    for name, probability, style in lines:
        points = reliability_points(label, probability[of])
        error = expected_calibration_error(label, probability[of])
        look = {**style, "marker": "o", "markersize": 4, "label": f"{name}  ECE {error:.3f}"}
        axes.plot(points.probability, points.positive_share, **look)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="probability", ylabel="share of positives")
    axes.set_title(f"{title} ({len(label):,})")
    axes.legend(loc="upper left")


def _dot(axes: "Axes", x: float, y: float, calibration: "Calibration", style: dict[str, Any]) -> None:
    label = f"threshold  {calibration.point.threshold:.3f}"
    look: dict[str, Any] = {
        "markersize": 8,
        "markeredgecolor": "white",
        "linestyle": "none",
        "clip_on": False,
        "zorder": 5,
    }
    axes.plot([x], [y], marker="o", color=style["color"], label=label, **look)
