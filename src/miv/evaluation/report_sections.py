"""The static parts of a report: tables and curves that need no script."""

import json
from dataclasses import asdict, replace
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.evaluation.baselines import Figures
from miv.evaluation.calibration_fits import bag_size_classes, expected_calibration_error, reliability_points
from miv.evaluation.curves import read_history
from miv.evaluation.error_curve import ErrorCurve
from miv.evaluation.evaluation import TITLES, Evaluation, check_words, evaluate, goal_checks
from miv.evaluation.goals import EqualErrors
from miv.evaluation.metrics import auroc, classification_metrics, group_table
from miv.evaluation.page import NONE, Axis, Line, badge, chart, legend, letter, nice_axis, table
from miv.evaluation.report_source import ReportModel, ReportSource
from miv.evaluation.witnesses import RANKED_BY, WITNESS_METRICS

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


def curves(source: ReportSource) -> str:
    """ROC and precision-recall curves, with a dot at each model's threshold."""
    label = source.exemplars.label
    if not 0 < label.sum() < len(label):
        return '<p class="note">The labels are all the same, so there is no curve to draw.</p>'
    from sklearn.metrics import average_precision_score, precision_recall_curve, roc_curve

    roc = [Line("chance", [(0, 0), (1, 1)])]
    precision_recall = [Line("chance", [(0, float(label.mean())), (1, float(label.mean()))])]
    areas, averages = [], []
    for number, model in enumerate(source.models):
        logit, yes = model.answers.logit, model.verdict
        false_share, true_share, _ = roc_curve(label, logit)
        recall_here = float(yes[label == 1].mean())
        mark = (float(yes[label == 0].mean()), recall_here)
        roc.append(
            Line(model.name, list(zip(false_share.tolist(), true_share.tolist(), strict=True)), number, mark=mark)
        )
        precision, recall, _ = precision_recall_curve(label, logit, drop_intermediate=True)
        points = [(r, p) for r, p in zip(recall[::-1].tolist(), precision[::-1].tolist(), strict=True) if r > 0]
        mark_there = (recall_here, float(label[yes].mean())) if yes.any() else None
        precision_recall.append(Line(model.name, points, number, mark=mark_there))
        areas.append(f"{model.name} {auroc(label, logit):.3f}")
        averages.append(f"{model.name} {average_precision_score(label, logit):.3f}")
    note = "The dot is the model’s threshold; the dotted line is chance."
    return (
        legend(model.name for model in source.models)
        + '<div class="charts">'
        + chart("ROC", "Area under the curve: " + ", ".join(areas) + ".", Axis("negatives answered yes"),
                Axis("positives answered yes"), roc, note)
        + chart("Precision and recall", "Average precision: " + ", ".join(averages) + ".",
                Axis("positives answered yes"), Axis("yes answers that are right"), precision_recall)
        + "</div>"
    )  # fmt: skip


def history(source: ReportSource) -> str:
    """Validation metrics by epoch."""
    panels: dict[str, list[Line]] = {}
    for number, model in enumerate(source.models):
        if model.history is None:
            continue
        for metric, by_split in read_history(model.history)[0].items():
            for split, points in by_split.items():
                title = f"{title_of(metric)}, {split}"
                panels.setdefault(title, []).append(Line(model.name, points, number, dots=len(points) < 40))
    if not panels:
        return '<p class="note">These runs kept no history.</p>'
    charts = []
    for title, lines in panels.items():
        x = nice_axis("epoch", [p[0] for line in lines for p in line.points], whole=True)
        y = nice_axis(
            title.split(",")[0].lower() if title[1:2].islower() else title.split(",")[0],
            [p[1] for line in lines for p in line.points],
        )
        last = ", ".join(f"{line.name} ends at {line.points[-1][1]:.3f}" for line in lines)
        charts.append(chart(title, f"{last}.", x, y, lines))
    return f'{legend(model.name for model in source.models)}<div class="charts">{"".join(charts)}</div>'


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

_RATES = (0.001, 0.01, 0.05, 0.1, 0.2, 0.4)  # ticks of the error trade-off
_FEW = 50  # minimum number of exemplars for a reliability curve of one bag size


def calibration(source: ReportSource) -> str:
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
    letters = legend(model.name for model in source.models)
    return f'{made}{_goals(source)}{note}{letters}<div class="charts">{"".join(charts)}</div>'


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
        mean, positive_share, _ = reliability_points(label, model.probability[of])
        pairs = list(zip(mean.tolist(), positive_share.tolist(), strict=True))
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
    lines, said, label = [Line("equal errors", [(low, low), (high, high)])], [], source.exemplars.label == 1
    for number, model in enumerate(source.models):
        curve = ErrorCurve.of(model.probability, source.exemplars.label)
        accepted, rejected = float(model.verdict[~label].mean()), float(model.rejected[label].mean())
        unsure = f", {model.unsure.mean():.1%} unsure" if model.can_be_unsure else ""
        place = "thresholds" if model.can_be_unsure else "threshold"
        here = f"and at its {place} {accepted:.1%} accepted, {rejected:.1%} rejected{unsure}"
        dot = accepted, float((~model.verdict[label]).mean())
        mark = (float(ndtri(dot[0])), float(ndtri(dot[1]))) if all(0 < rate < 0.5 for rate in dot) else None
        accepts, rejects = curve.false_accept_rate, curve.false_reject_rate
        said.append(f"{model.name} {float(EqualErrors().rate(curve)):.1%}, {here}")
        inside = (accepts > 0) & (rejects > 0) & (accepts < 0.5) & (rejects < 0.5)  # 0 and 1 are infinitely far away
        pairs = zip(ndtri(accepts[inside]).tolist(), ndtri(rejects[inside]).tolist(), strict=True)
        lines.append(Line(model.name, list(pairs), number, mark=mark))
    return chart(
        "Error trade-off (DET)",
        f"False rejects against false accepts as the threshold changes. Equal error rates: {'; '.join(said)}.",
        Axis("negatives accepted", low, high, ticks),
        Axis("positives rejected", low, high, ticks),
        lines,
        "Closer to the lower left is better; the dot is the threshold.",
    )
