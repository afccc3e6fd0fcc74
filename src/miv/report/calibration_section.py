"""Is the score a probability, and what does the threshold cost? Measured on the split of the report."""

from html import escape

import numpy as np
from numpy.typing import NDArray

from miv.calibration.error_curve import ErrorCurve
from miv.calibration.reliability import bag_size_classes, expected_calibration_error, reliability_points
from miv.evaluation.goal_checks import check_words, goal_checks
from miv.report.charts import Axis, Line, chart
from miv.report.marks import badge
from miv.report.report_sources import ReportModel, ReportSource
from miv.report.sections import legend, table, thresholds_of

_RATES = (0.001, 0.01, 0.05, 0.1, 0.2, 0.4)  # ticks of the error trade-off
_FEW = 50  # minimum number of exemplars for a reliability curve of one bag size


def calibration_section(source: ReportSource) -> str:
    """Reliability, error trade-off and operating point of every model."""
    label = source.exemplars.label
    if not 0 < label.sum() < len(label):
        return '<p class="note">The labels are all the same, so there is nothing to calibrate.</p>'
    rows = []
    for number, model in enumerate(source.models):
        error = expected_calibration_error(label, model.probability)
        rows.append(
            [
                badge(number, model.name),
                escape("not calibrated" if model.point.is_default else model.point.goal),
                thresholds_of(model),
                escape(str(model.point.scaling.document()["name"])),
                f"{error:.3f}",
            ]
        )
    heads = ["Model", "Goal", "Threshold", "Scaling", "Calibration error (ECE)"]
    note = ""
    if any(model.point.is_default for model in source.models):
        note = (
            '<p class="note"><code>miv calibrate RUN DATA</code> makes the score a probability and chooses a threshold '
            "for your goal, on validation data. The report then uses it.</p>"
        )
    charts = [_reliability("Reliability, all bags", source, np.ones(len(label), bool)), _trade_off(source)]
    names, place = bag_size_classes(source.exemplars.bag_sizes)
    for number, name in enumerate(names):
        chosen = place == number
        if len(names) > 1 and chosen.sum() >= _FEW:
            charts.append(_reliability(f"Reliability, bags of {name}", source, chosen))
    made = table(heads, rows, f"Operating points, and their calibration on {source.split}")
    return f'{made}{_goals(source)}{note}{legend(source)}<div class="charts">{"".join(charts)}</div>'


def _goals(source: ReportSource) -> str:
    """Whether the rates that the models promise hold on this split."""
    items = []
    for number, model in enumerate(source.models):
        for check in goal_checks(model.answers.with_queries_of(source.exemplars), model.point, withheld=model.withheld):
            mark = ' class="wrong"' if check["missed"] else ""
            items.append(f"<li>{badge(number, model.name)} <span{mark}>{escape(check_words(check))}</span></li>")
    return f'<ul class="note">{"".join(items)}</ul>' if items else ""


def _reliability(title: str, source: ReportSource, of: NDArray[np.bool_]) -> str:
    label = source.exemplars.label[of]
    lines = [Line("ideal", [(0, 0), (1, 1)])]
    said = []
    for number, model in enumerate(source.models):
        points = reliability_points(label, model.probability[of])
        pairs = list(zip(points.probability.tolist(), points.positive_share.tolist(), strict=True))
        lines.append(Line(model.name, pairs, number, dots=True))
        said.append(f"{model.name} {expected_calibration_error(label, model.probability[of]):.3f}")
    note = (
        "On the dotted line, a probability of 80 % is right in 80 of 100 cases." if title.endswith("all bags") else ""
    )
    summary = f"Calibration error: {', '.join(said)}."
    return chart(title, summary, Axis("probability of yes"), Axis("truly yes"), lines, note)


def _trade_off(source: ReportSource) -> str:
    """False rejects against false accepts, with normal quantiles on both axes (DET)."""
    from scipy.special import ndtri

    ticks = [(float(ndtri(rate)), f"{rate:.1%}".replace(".0%", "%")) for rate in _RATES]
    low, high = float(ndtri(0.0007)), float(ndtri(0.5))
    lines = [Line("equal errors", [(low, low), (high, high)])]
    said = []
    for number, model in enumerate(source.models):
        curve = ErrorCurve.of(model.probability, source.exemplars.label)
        accepts, rejects = curve.false_accept_rate, curve.false_reject_rate
        said.append(f"{model.name} {_equal_errors(accepts, rejects):.1%}, {_errors_here(model, source)}")
        inside = (accepts > 0) & (rejects > 0) & (accepts < 0.5) & (rejects < 0.5)  # 0 and 1 are infinitely far away
        pairs = zip(ndtri(accepts[inside]).tolist(), ndtri(rejects[inside]).tolist(), strict=True)
        lines.append(Line(model.name, list(pairs), number, mark=_here(model, source)))
    return chart(
        "Error trade-off (DET)",
        f"False rejects against false accepts as the threshold changes. Equal error rates: {'; '.join(said)}.",
        Axis("negatives accepted", low, high, ticks),
        Axis("positives rejected", low, high, ticks),
        lines,
        "Closer to the lower left is better; the dot is the threshold.",
    )


def _equal_errors(accepts: NDArray[np.float64], rejects: NDArray[np.float64]) -> float:
    nearest = int(np.abs(accepts - rejects).argmin())
    return float(accepts[nearest] + rejects[nearest]) / 2


def _errors_here(model: ReportModel, source: ReportSource) -> str:
    label = source.exemplars.label == 1
    accepts, rejects = float(model.verdict[~label].mean()), float(model.rejected[label].mean())
    if not model.can_be_unsure:
        return f"and at its threshold {accepts:.1%} accepted, {rejects:.1%} rejected"
    return f"and at its thresholds {accepts:.1%} accepted, {rejects:.1%} rejected, {model.unsure.mean():.1%} unsure"


def _here(model: ReportModel, source: ReportSource) -> tuple[float, float] | None:
    from scipy.special import ndtri

    label, yes = source.exemplars.label == 1, model.verdict
    rates = float(yes[~label].mean()), float((~yes[label]).mean())
    return (float(ndtri(rates[0])), float(ndtri(rates[1]))) if all(0 < rate < 0.5 for rate in rates) else None
