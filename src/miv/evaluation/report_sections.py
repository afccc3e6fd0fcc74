"""The static parts of a report: tables and curves that need no script."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from miv.evaluation.baselines import Figures
from miv.evaluation.calibration_fits import expected_calibration_error
from miv.evaluation.curves import (
    PlottedModel,
    draw_history,
    draw_precision_recall,
    draw_reliability,
    draw_roc,
    draw_trade_off,
    figure_of,
    line_styles,
    read_history,
    svg_of,
)
from miv.evaluation.evaluation import TITLES, Evaluation, check_words, evaluate, goal_checks
from miv.evaluation.metrics import auroc, classification_metrics, group_table
from miv.evaluation.page import NONE, badge, legend, letter, picture, table
from miv.evaluation.report_data import ReportModel, ReportSource
from miv.evaluation.witnesses import RANKED_BY, WITNESS_METRICS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_GROUPS = 60
_BASELINE_NOTE = (
    " Rows marked plain are simple methods on the same data. They give a score, not a verdict, and a model should "
    "beat them. The letters name the models that provided the features."
)


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
    evaluations = [_at_threshold(model) for model in source.models]
    plain = _baseline_rows(source)
    measured = [evaluation.metrics for evaluation in evaluations] + [figures for _, figures in plain]
    shown = ("auroc", "accuracy", "f1", *WITNESS_METRICS)
    names = [name for name in shown if any(name in figures for figures in measured)]
    two = any(model.can_be_unsure for model in source.models)
    heads = ["Model", *(escape(title_of(name)) for name in names), "False accepts", "False rejects"]
    heads += ["Unsure"] if two else []
    best = {
        name: max(round(float(np.nan_to_num(figures.get(name, -1.0))), 3) for figures in measured)
        for name in names
        if sum(name in figures for figures in measured) > 1
    }
    rows = []
    label = source.exemplars.label == 1
    for number, (model, evaluation) in enumerate(zip(source.models, evaluations, strict=True)):
        cells = [_metric(evaluation.metrics, name, best.get(name)) for name in names]
        wrong = [_share(int((model.wrong & of).sum()), int(of.sum())) for of in (~label, label)]
        wrong += [_share(int(model.unsure.sum()), len(label))] if two else []
        rows.append([badge(number, model.name), *cells, *wrong])
    rows += [
        [head, *(_metric(figures, n, best.get(n)) for n in names), *([NONE] * (3 if two else 2))]
        for head, figures in plain
    ]
    caption = f"How well the models verify ({source.split}, {len(source.exemplars):,} exemplars)"
    chance = next((evaluation.witnesses for evaluation in evaluations if evaluation.witnesses), None)
    words = (
        "AUROC: how often a bag that holds the query’s class scores above one that does not; 0.5 is chance. "
        "Accuracy, F1, false accepts and false rejects are those of the verdicts at each model’s threshold ("
        + ", ".join(f"{letter(n)}: {thresholds_of(m)}" for n, m in enumerate(source.models))
        + ")."
    )
    if two:
        words += (
            " Between two thresholds a model is unsure, which is neither a false accept nor a false reject; accuracy "
            "and F1 count it as no."
        )
    for number, model in enumerate(source.models):
        if model.withheld is not None:
            count = int(model.withheld.sum())
            words += f" {letter(number)} is unsure on {count:,} out-of-distribution exemplar{'s' * (count != 1)}."
    if chance is not None:
        words += (
            " i-AUROC, i-AP, i-MRR and i-top1: does the attention rank true witnesses above the rest of their bag? "
            f"A random order gives 0.5, {chance['i_ap_chance']:.3f}, {chance['i_mrr_chance']:.3f} and "
            f"{chance['i_top1_chance']:.3f}."
        )
    words += _BASELINE_NOTE if plain else ""
    below = _rankings(evaluations, source.models) + _groups(evaluations, source.models)
    return table(heads, rows, caption) + f'<p class="note">{escape(words)}</p>' + below


def _at_threshold(model: ReportModel) -> Evaluation:
    """All metrics. Those that need a verdict use the model's own, so that the page has one decision rule."""
    answers, verdict = model.answers, model.verdict.astype(np.float64)
    evaluation = evaluate(answers)
    decided = classification_metrics(answers.label, verdict) | {"auroc": evaluation.classification["auroc"]}
    groups = None if answers.group is None else group_table(answers.label, verdict, answers.group)
    return replace(evaluation, classification=decided, groups=groups)


def _metric(figures: dict[str, float], name: str, best: float | None = None) -> str:
    """A figure, in bold if it is as good as the best of several."""
    value = figures.get(name)
    if value is None or np.isnan(value):
        return NONE
    return f"<b>{value:.3f}</b>" if best is not None and round(value, 3) >= best else f"{value:.3f}"


def _share(count: int, of: int) -> str:
    return f"{count / of:.1%} <small>({count:,} of {of:,})</small>" if of else "–"


def _rankings(evaluations: list[Evaluation], models: list[ReportModel]) -> str:
    """The witnesses by every way to rank instances: attention alone would count ties against one-hot attention."""
    rows = []
    for number, (model, evaluation) in enumerate(zip(models, evaluations, strict=True)):
        for by, figures in (evaluation.rankings or {}).items():
            cells = [_metric(figures, name) for name in WITNESS_METRICS]
            rows.append([badge(number, model.name), escape(RANKED_BY[by]), *cells])
    if not rows:
        return ""
    heads = ["Model", "Ranked by", *(TITLES[name] for name in WITNESS_METRICS)]
    title = "Witnesses, all models scored alike"
    words = (
        "Compare models by their own scores, or all by the first choice. By attention, the ties of a one-hot attention "
        "count against it."
    )
    inner = table(heads, rows, title, wide=False)
    return f'<details><summary>{title}</summary>{inner}<p class="note">{words}</p></details>'


def _groups(evaluations: list[Evaluation], models: list[ReportModel]) -> str:
    if any(evaluation.groups is None for evaluation in evaluations):
        return ""
    by_group = {row.group: row.exemplars for row in evaluations[0].groups or []}
    if not 1 < len(by_group) <= MOST_GROUPS:
        return ""
    rows = []
    for group, exemplars in by_group.items():
        accuracies = [next(r.accuracy for r in e.groups or [] if r.group == group) for e in evaluations]
        rows.append([escape(group), f"{exemplars:,}", *(f"{accuracy:.3f}" for accuracy in accuracies)])
    heads = ["Group", "Exemplars", *(badge(n, model.name) for n, model in enumerate(models))]
    inner = table(heads, rows, "Accuracy by group, at each model’s threshold", wide=False)
    return f"<details><summary>Accuracy by group ({len(by_group)} groups)</summary>{inner}</details>"


# The curves, drawn by Matplotlib.

# The colours of .m0 to .m9 in report.css.
_COLOURS = (
    *("#0b66a8", "#8a3ea5", "#0f7a63", "#b03a6b", "#6b6420"),
    *("#4a5568", "#3b3fb6", "#7a4a2b", "#47730e", "#0e7490"),
)


def curves(source: ReportSource) -> str:
    """ROC, precision-recall and error trade-off, with a dot at each model's threshold."""
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
            "False rejects by false accepts.": lambda axes: draw_trade_off(axes, plotted, "threshold"),
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


def history(source: ReportSource) -> str:
    """The metrics of every model by epoch."""
    parts = []
    for number, model in enumerate(source.models):
        if model.history is None:
            continue
        panels, changes = read_history(model.history)
        with figure_of(len(panels), (4.6, 3.6)) as (figure, axes):
            draw_history(axes, panels, changes)
            drawn = picture(svg_of(figure), f"{model.name}: {', '.join(map(title_of, panels))} by epoch")
        parts.append(f"<h3>{badge(number, model.name)}</h3>{drawn}")
    return "".join(parts) or '<p class="note">These runs kept no history.</p>'


def settings(source: ReportSource) -> str:
    """The settings of the runs: first those that differ, then those they share."""
    names = list(dict.fromkeys(name for model in source.models for name in model.config))
    differing = [n for n in names if any(m.config.get(n) != source.models[0].config.get(n) for m in source.models)]
    heads = ["Setting", *(badge(n, model.name) for n, model in enumerate(source.models))]
    facts = [
        ["seed", *(escape(str(m.about.get("seed", "–"))) for m in source.models)],
        ["seconds of training", *(escape(str(m.about.get("seconds", "–"))) for m in source.models)],
        ["operating point", *(escape(m.point.goal) for m in source.models)],
    ]
    rows = [[escape(n), *(_setting(m.config.get(n)) for m in source.models)] for n in differing]
    shared = [[escape(n), _setting(source.models[0].config.get(n))] for n in names if n not in differing]
    versions = source.models[0].about.get("versions") or {}
    libraries = ", ".join(f"{name} {version}" for name, version in versions.items())
    parts = [table(heads, [*facts, *rows], "The runs and their differences", wide=False)]
    if shared:
        inner = table(["Setting", "Value"], shared, "Settings that all runs share", wide=False)
        parts.append(f"<details><summary>Settings that all runs share ({len(shared)})</summary>{inner}</details>")
    if libraries:
        parts.append(f'<p class="note">Trained with {escape(libraries)}.</p>')
    return "".join(parts)


def _setting(value: Any) -> str:
    return f"<code>{escape(json.dumps(value, ensure_ascii=False))}</code>"


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
        for check in goal_checks(model.answers.with_queries_of(source.exemplars), model.point, withheld=model.withheld):
            mark = ' class="wrong"' if check["missed"] else ""
            items.append(f"<li>{badge(number, model.name)} <span{mark}>{escape(check_words(check))}</span></li>")
    return f'<ul class="note">{"".join(items)}</ul>' if items else ""
