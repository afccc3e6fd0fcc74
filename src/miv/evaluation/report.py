"""``miv report``: the page of a report, and its parts that need no script."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import numpy as np

from miv.errors import MIVError
from miv.evaluation.baselines import Figures
from miv.evaluation.calibration_fits import expected_calibration_error
from miv.evaluation.curves import (
    PlottedModel,
    draw_precision_recall,
    draw_reliability,
    draw_roc,
    figure_of,
    line_styles,
    svg_of,
)
from miv.evaluation.evaluation import TITLES, Evaluation, check_words, evaluate, goal_checks
from miv.evaluation.metrics import auroc, classification_metrics
from miv.evaluation.page import NONE, badge, check_page_name, legend, letter, page_part, picture, table, whole_page
from miv.evaluation.report_data import ReportModel, ReportSource, gallery
from miv.evaluation.runs import recipe_rows
from miv.evaluation.witnesses import WITNESS_METRICS
from miv.files.atomic import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_EXEMPLARS = 20_000


def write_report(source: ReportSource, out: Path | str, *, exemplars: int = 2000, title: str = "") -> None:
    """Write the report of ``open_runs`` as one HTML file, atomically; the arguments are those of ``miv.report``."""
    out = Path(out)
    check_report(out, exemplars)
    page = render(source, exemplars, title or f"{source.data}, {source.split}")
    with whole_file(out) as temporary:
        temporary.write_text(page, encoding="utf-8", errors="replace")


def check_report(out: Path, exemplars: int) -> None:
    """Raise an error before the work starts if the page cannot be written."""
    if not 1 <= exemplars <= MOST_EXEMPLARS:
        raise MIVError(f"exemplars is {exemplars}. Expected 1 to {MOST_EXEMPLARS:,}.")
    check_page_name(out)


def render(source: ReportSource, exemplars: int, title: str) -> str:
    """Return the whole page as text."""
    data, models, total = gallery(source, exemplars), source.models, len(source.exemplars)
    shown = len(data["exemplar"])
    several = f"{len(models)} models"
    body = Template(page_part("report.html")).substitute(
        title=escape(title),
        answers="Each model’s answer" if len(models) > 1 else "The model’s answer",
        names=" and ".join(badge(n, m.name) for n, m in enumerate(models)) if len(models) < 3 else several,
        shown=f"All {total:,}" if shown == total else f"{shown:,} of {total:,}",
        results=results(source),
        curves=curves(source),
        calibration=calibration(source),
        recipes=recipes(source),
    )
    data_part = f'<script type="application/json" id="data">{_embedded(data)}</script>'
    return whole_page(f"{title}: miv report", body, page_part("report.css"), page_part("report.js"), data_part)


def _embedded(data: dict[str, Any]) -> str:
    """JSON that is safe inside a script element: every < is escaped."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


# The metrics of every model.


def _baseline_rows(source: ReportSource) -> list[tuple[str, dict[str, float]]]:
    """The baselines, each with its head; a method with the same figures for several models appears once."""
    owners: dict[tuple[str, Figures], list[int]] = {}
    for number, model in enumerate(source.models):
        for method, figures in model.reference.items():
            owners.setdefault((method, figures), []).append(number)
    return [
        (
            f"{escape(method)} <small>(plain, {', '.join(map(letter, numbers))})</small>",
            {name: value for name, value in asdict(figures).items() if value is not None},
        )
        for (method, figures), numbers in owners.items()
    ]


def title_of(metric: str) -> str:
    """The name of a metric as a heading."""
    title = TITLES.get(metric, metric.replace("_", " "))
    return title if title.startswith("i-") else title[:1].upper() + title[1:]


def thresholds_of(model: ReportModel) -> str:
    """The threshold, or both."""
    lower = model.point.lower_threshold
    return f"{model.point.threshold:.3g}" if lower is None else f"{lower:.3g} and {model.point.threshold:.3g}"


def results(source: ReportSource) -> str:
    """The metrics of every model, the best of each in bold, and the errors at its threshold."""
    models, label = source.models, source.exemplars.label == 1
    evaluations = [_at_threshold(model) for model in models]
    plain = _baseline_rows(source)
    measured = [evaluation.metrics for evaluation in evaluations] + [figures for _, figures in plain]
    shown = ("auroc", "accuracy", "f1", *WITNESS_METRICS)
    names = [name for name in shown if any(name in figures for figures in measured)]
    best = {
        name: max(round(float(np.nan_to_num(figures.get(name, -1.0))), 3) for figures in measured)
        for name in names
        if sum(name in figures for figures in measured) > 1
    }
    unsure = any(model.can_be_unsure for model in models)
    heads = ["Model", *(escape(title_of(name)) for name in names), "False accepts", "False rejects"]
    heads += ["Unsure"] * unsure
    rows = []
    for number, (model, figures) in enumerate(zip(models, measured, strict=False)):
        wrong = [_share(int((model.wrong & of).sum()), int(of.sum())) for of in (~label, label)]
        wrong += [_share(int(model.unsure.sum()), len(label))] * unsure
        rows.append([badge(number, model.name), *(_metric(figures, n, best.get(n)) for n in names), *wrong])
    for head, figures in plain:
        rows.append([head, *(_metric(figures, n, best.get(n)) for n in names), *([NONE] * (2 + unsure))])
    caption = f"How well the models verify ({source.split}, {len(source.exemplars):,} exemplars)"
    thresholds = ", ".join(f"{letter(n)}: {thresholds_of(m)}" for n, m in enumerate(models))
    words = [
        "AUROC: how often a bag that holds the query’s class scores above one that does not; 0.5 is chance. Accuracy, "
        f"F1, false accepts and false rejects are those of the verdicts at each model’s threshold ({thresholds})."
    ]
    if unsure:
        words.append(
            "Between two thresholds a model is unsure, which is neither a false accept nor a false reject; accuracy "
            "and F1 count it as no."
        )
    for number, model in enumerate(models):
        if model.withheld is not None:
            count = int(model.withheld.sum())
            words.append(f"{letter(number)} is unsure on {count:,} out-of-distribution exemplar{'s' * (count != 1)}.")
    chance = next((evaluation.witnesses for evaluation in evaluations if evaluation.witnesses), None)
    if chance is not None:
        words.append(
            "i-AUROC, i-AP and i-top1: does the attention rank true witnesses above the rest of their bag? "
            f"A random order gives 0.5, {chance['i_ap_chance']:.3f} and {chance['i_top1_chance']:.3f}."
        )
    if plain:
        words.append(
            "Rows marked plain are simple methods on the same data. They give a score, not a verdict, and a model "
            "should beat them. The letters name the models that provided the features."
        )
    note = f'<p class="note">{escape(" ".join(words))}</p>'
    return table(heads, rows, caption) + note


def _at_threshold(model: ReportModel) -> Evaluation:
    """All metrics. Those that need a verdict use the model's own, so that the page has one decision rule."""
    evaluation = evaluate(model.answers)
    decided = classification_metrics(model.answers.label, model.verdict.astype(np.float64))
    return replace(evaluation, classification=decided | {"auroc": evaluation.classification["auroc"]})


def _metric(figures: dict[str, float], name: str, best: float | None = None) -> str:
    """A figure, in bold if it is as good as the best of several."""
    value = figures.get(name)
    if value is None or np.isnan(value):
        return NONE
    return f"<b>{value:.3f}</b>" if best is not None and round(value, 3) >= best else f"{value:.3f}"


def _share(count: int, of: int) -> str:
    return f"{count / of:.1%} <small>({count:,} of {of:,})</small>" if of else "–"


# The curves, drawn by Matplotlib.

# The colours of .m0 to .m9 in report.css.
_COLOURS = (
    *("#0b66a8", "#8a3ea5", "#0f7a63", "#b03a6b", "#6b6420"),
    *("#4a5568", "#3b3fb6", "#7a4a2b", "#47730e", "#0e7490"),
)


def curves(source: ReportSource) -> str:
    """ROC and precision-recall, with a dot at each model's threshold."""
    label, styles = source.exemplars.label, line_styles(len(source.models), _COLOURS)
    if not 0 < label.sum() < len(label):
        return '<p class="note">The labels are all the same, so there is no curve to draw.</p>'
    plotted = [
        PlottedModel(letter(number), label, model.answers.logit, model.verdict, styles[number])
        for number, model in enumerate(source.models)
    ]
    areas = ", ".join(f"{model.name} {auroc(label, model.answers.logit):.3f}" for model in source.models)
    return _charts(
        source,
        {
            f"ROC curves. Areas under the curve: {areas}.": lambda axes: draw_roc(axes, plotted, "threshold"),
            "Precision by recall.": lambda axes: draw_precision_recall(axes, plotted, "threshold"),
        },
    )


def _charts(source: ReportSource, drawn: Mapping[str, Callable[["Axes"], None]]) -> str:
    """Pictures by their descriptions in words."""
    parts = []
    for words, draw in drawn.items():
        with figure_of(size=(4.6, 4.4)) as (figure, [axes]):
            draw(axes)
            parts.append(picture(svg_of(figure), words))
    return f'{legend(model.name for model in source.models)}<div class="charts">{"".join(parts)}</div>'


def recipes(source: ReportSource) -> str:
    """The recipes that each run compared on held-out exemplars."""
    parts = []
    for number, model in enumerate(source.models):
        if model.recipes and model.recipes["rows"]:
            headings, cells, note = recipe_rows(model.recipes)
            rows = [[escape(cell) for cell in row] for row in cells]
            parts.append(table(headings, rows, f"Recipes compared in training: {letter(number)}, {model.name}"))
            parts.append(f'<p class="note">{escape(note)}</p>')
    return "".join(parts) or '<p class="note">These runs compared no recipes.</p>'


# Is the score a probability, and what does the threshold cost? Measured on the split of the report.


def calibration(source: ReportSource) -> str:
    """Operating point and reliability of every model."""
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
    styles = line_styles(len(source.models), _COLOURS)
    lines = {letter(n): (m.probability, styles[n]) for n, m in enumerate(source.models)}
    words = "Share of positives by probability. On the dotted line, a probability of 80 % is right in 80 of 100 cases."
    made = table(heads, rows, f"Operating points, and their calibration on {source.split}")
    shown = _charts(source, {words: lambda axes: draw_reliability(axes, "Reliability", label, lines)})
    return f"{made}{_goals(source)}{note}{shown}"


def _goals(source: ReportSource) -> str:
    """Whether the rates that the models promise hold on this split."""
    items = []
    for number, model in enumerate(source.models):
        for check in goal_checks(model.answers, model.point, withheld=model.withheld):
            mark = ' class="wrong"' if check["missed"] else ""
            items.append(f"<li>{badge(number, model.name)} <span{mark}>{escape(check_words(check))}</span></li>")
    return f'<ul class="note">{"".join(items)}</ul>' if items else ""
