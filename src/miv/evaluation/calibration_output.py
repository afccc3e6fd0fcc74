"""What a calibration writes: text tables, curves, and a section of the model card."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from miv.evaluation.calibration_fits import bag_size_classes, expected_calibration_error, reliability_points
from miv.evaluation.clusters import cluster_words
from miv.evaluation.curves import QUIET, draw_dot, line_styles, picture
from miv.evaluation.error_curve import ErrorCurve
from miv.evaluation.metrics import auroc
from miv.files.json import check_section, write_section
from miv.runtime import aligned_table
from miv.verifier.decisions import ConformalRule, OperatingPoint, StatedRule

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from miv.evaluation.calibration import Calibration


_FEW = 100  # exemplars; with fewer, an interval of a rate spans twenty points or so
_FEW_WORDS = "Few exemplars: all figures above are rough. Calibrate on some hundreds before you rely on them."


def calibration_text(point: OperatingPoint) -> str:
    """Return the choice, its errors, how well it is calibrated, and its witness sets."""
    m = point.measured
    sure = f"{m['confidence']:.0%}"
    blocks = [
        [
            f"goal       {point.goal}",
            *_thresholds(point, sure),
            f"scaling    {_parameters(point.scaling.document())}",
            f"data       {m['exemplars']:,} exemplars: {m['positives']:,} positive, {m['negatives']:,} negative",
            _clusters(m),
        ],
        [*_rates(m, sure), *m.get("notes", []), *([_FEW_WORDS] if m["exemplars"] < _FEW else [])],
        [
            aligned_table(
                ["log loss of", *m["log_loss"]],
                [["held-out folds", *(_figure(loss) for loss in m["log_loss"].values())]],
            )
        ],
        [_by_bag_size(m)],
        _witnesses(point),
    ]
    return "\n\n".join("\n".join(block) for block in blocks)


def _thresholds(point: OperatingPoint, sure: str) -> list[str]:
    m = point.measured
    upper = f"{point.threshold:.4f}  ({sure} interval {_span(m['threshold'])})"
    if point.lower_threshold is None:
        note = "; it keeps both rates, so no answer is unsure" if point.goal.count("<=") == 2 else ""
        return [f"threshold  {upper}{note}"]
    lower = f"{point.lower_threshold:.4f}  ({sure} interval {_span(m['lower_threshold'])})"
    unsure = m["unsure"]
    return [
        f"yes from   {upper}",
        f"no below   {lower}",
        f"unsure     {unsure['value']:.1%} of the exemplars  ({sure} interval {unsure['low']:.1%} – "
        f"{unsure['high']:.1%}): {unsure['of_positives']:.1%} of positives, {unsure['of_negatives']:.1%} of negatives",
    ]


def _rates(m: dict[str, Any], sure: str) -> list[str]:
    rows = []
    for title, name in (("false accept", "false_accept_rate"), ("false reject", "false_reject_rate")):
        rows.append([title, _figure(m[name]["value"]), _span(m[name]), _figure(m[name]["at_most"])])
    rows.append(["equal error", _figure(m["eer"]["value"]), _span(m["eer"]), ""])
    for when in ("before", "after"):
        rows.append([f"ECE {when}", _figure(m["ece"][when]["value"]), _span(m["ece"][when]), ""])
    notes = [f"at most: the true rate is below this with {sure} confidence (Clopper–Pearson, or as promised)."]
    if m["clusters"]["count"] != m["exemplars"]:
        counts = [round(m[name]["effective_exemplars"]) for name in ("false_accept_rate", "false_reject_rate")]
        if counts != [m["negatives"], m["positives"]]:
            notes.append(
                f"Errors on one {m['clusters']['by']} are correlated: {m['negatives']:,} negatives count as "
                f"{counts[0]:,}, {m['positives']:,} positives as {counts[1]:,}."
            )
    return [aligned_table(["", "rate", f"{sure} interval", "at most"], rows), *notes]


def _clusters(m: dict[str, Any]) -> str:
    """On how many independent clusters everything rests."""
    by, count = m["clusters"]["by"], m["clusters"]["count"]
    if by is None:
        return "queries    unknown: all exemplars count as independent"
    if by == "query":
        return (
            f"queries    {count:,}; every figure treats the exemplars of a query as one cluster. Classes are unknown: "
            "if queries share them, nothing is promised for new classes"
        )
    return (
        f"clusters   {count:,} {cluster_words(by)}, {m['clusters']['negatives']:,} with negatives and "
        f"{m['clusters']['positives']:,} with positives; rates are promised for new {cluster_words(by)}"
    )


def _by_bag_size(m: dict[str, Any]) -> str:
    names = ("false_accept_rate", "false_reject_rate", "ece_before", "ece_after")
    headings = ["bag size", "exemplars", "false accept", "false reject", "ECE before", "ECE after"]
    rows = [
        [row["bag_size"], f"{row['exemplars']:,}", *(_figure(row[name]) for name in names)] for row in m["by_bag_size"]
    ]
    return aligned_table(headings, rows)


def _witnesses(point: OperatingPoint) -> list[str]:
    rule, sets = point.witness_rule, point.measured["witnesses"]
    if not isinstance(rule, ConformalRule) or sets is None:
        factor = rule.factor if isinstance(rule, StatedRule) else 0.0
        why = "the data have no known witnesses." if sets is None else sets["too_few"]
        return [
            f"Witnesses: instances of accepted bags with at least {factor:g} times an even share of the attention,",
            f"or of the drop of the logit without them. A fixed rule without a guarantee: {why}",
        ]
    lines = [
        f"Witnesses: instances with probability × share by {rule.by} × size of the bag >= {rule.threshold:.4g};",
        f"at least {100 * (1 - rule.epsilon):.4g}% of true witnesses are inside (conformal). Measured on held-out "
        "halves:",
    ]
    measured = sets["held_out"]
    warning = witness_warning(point)
    notes = [warning] if warning else []
    if measured is None:
        return [*lines, "too few witnesses to fit to one half and measure on the other.", *notes]
    names = ("coverage", "precision", "mean_size_positive", "mean_size_negative", "empty_positive", "empty_negative")
    headings = ["bag size", "witnesses", "coverage", "precision", "mean size +", "mean size −", "empty +", "empty −"]
    titled = [("all", measured), *((row["bag_size"], row) for row in measured["by_bag_size"])]
    rows = [
        [title, f"{row['witnesses']:,}", *(_figure(row[name], 3) for name in names)]
        for title, row in [*titled, ("default rule", sets["stated_rule"])]
    ]
    return [*lines, aligned_table(headings, rows), "+ and −: positive and negative exemplars.", *notes]


def witness_warning(point: OperatingPoint) -> str:
    """A warning if the witness sets hold nearly whole bags; else ""."""
    marked = point.nearly_whole_sets
    if marked is None:
        return ""
    true = point.measured["witnesses"]["shares_of_bags"]["true"]
    return (
        f"Warning: witness sets contain {marked:.0%} of a positive bag on average, although only {true:.0%} are "
        "witnesses, so they are not informative. The shares do not rank witnesses well enough for this guarantee: "
        "allow more misses (--epsilon), try other shares (--witnesses alone or shapley), or train a better verifier."
    )


def _parameters(document: dict[str, Any]) -> str:
    name = document.pop("name")
    if name == "isotonic":
        return f"isotonic, {len(document['logits'])} points"
    return ", ".join([name, *(f"{key} {value:.4g}" for key, value in document.items())])


def _span(interval: dict[str, Any]) -> str:
    return f"{interval['low']:.4f} – {interval['high']:.4f}"


def _figure(value: float | None, digits: int = 4) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


# ROC and DET curves with the operating point, and reliability by the size of the bag, as PNG and SVG.

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
    _mark(axes, rates["false_accept_rate"]["value"], 1 - rates["false_reject_rate"]["value"], calibration)
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
        _mark(axes, ndtri(here[0]), ndtri(here[1]), calibration)
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
        mean, positive_share, _ = reliability_points(label, probability[of])
        error = expected_calibration_error(label, probability[of])
        look = {**style, "marker": "o", "markersize": 4, "label": f"{name}  ECE {error:.3f}"}
        axes.plot(mean, positive_share, **look)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="probability", ylabel="share of positives")
    axes.set_title(f"{title} ({len(label):,})")
    axes.legend(loc="upper left")


def _mark(axes: "Axes", x: float, y: float, calibration: "Calibration") -> None:
    label = f"threshold  {calibration.point.threshold:.3f}"
    draw_dot(axes, x, y, line_styles(1)[0], label=label)


# The operating point on the model card of a verifier: README.md, which the hub shows.

BEGIN, END = "<!-- operating point of miv calibrate -->", "<!-- end of operating point -->"


def check_point_card(folder: Path) -> None:
    """Raise an error if the operating point could not be written to the card."""
    check_section(folder, BEGIN, END)


def write_point_card(folder: Path, point: OperatingPoint) -> None:
    """Write the goal, the thresholds and their errors to a verifier's card, replacing those of an earlier call."""
    m = point.measured
    rows = [("goal", point.goal), ("verdict yes from a probability of", f"{point.threshold:.4f}")]
    if point.lower_threshold is not None:
        unsure = m["unsure"]
        rows += [
            ("no below", f"{point.lower_threshold:.4f}"),
            (
                "unsure between them",
                f"{unsure['value']:.1%} of exemplars: {unsure['of_positives']:.1%} of positives, "
                f"{unsure['of_negatives']:.1%} of negatives",
            ),
        ]
    rows.append(("scaling", str(point.scaling.document()["name"])))
    for title, name in (("false accepts", "false_accept_rate"), ("false rejects", "false_reject_rate")):
        rate = m[name]
        rows.append(
            (title, f"{rate['value']:.4f}, at most {rate['at_most']:.4f} with {m['confidence']:.0%} confidence")
        )
    by, count = m["clusters"]["by"], m["clusters"]["count"]
    where = f" of {count:,} {cluster_words(by)}" if by is not None else ", counted as independent"
    rows.append(("measured on", f"{m['exemplars']:,} exemplars{where}, {m['positives']:,} positive"))
    table = "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows)])
    write_section(folder, BEGIN, END, "\n\n".join(["## Operating point", table, *m["notes"]]))
