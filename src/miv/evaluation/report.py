"""``miv report``: the page of a report, and its parts that need no script."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from os import PathLike
from pathlib import Path
from string import Template

import numpy as np

from miv.errors import MIVError
from miv.evaluation.baselines import Figures
from miv.evaluation.calibration_fits import expected_calibration_error
from miv.evaluation.evaluation import TITLES, check_words, evaluate, goal_checks
from miv.evaluation.metrics import classification_metrics
from miv.evaluation.page import (
    NONE,
    QUIET,
    badge,
    figure_of,
    letter,
    line_styles,
    page_part,
    svg_part,
    table,
    whole_page,
)
from miv.evaluation.report_data import ReportModel, ReportSource, gallery, open_runs
from miv.evaluation.runs import recipe_rows
from miv.evaluation.witnesses import WITNESS_METRICS
from miv.files.atomic import refuse_existing, whole_file
from miv.runtime import RichProgress, SilentProgress
from miv.verifier.display import check_page

MOST_EXEMPLARS = 20_000
StrPath = str | PathLike[str]


def report(
    runs: StrPath | Sequence[StrPath],
    out: StrPath = "report.html",
    *,
    split: str = "test",
    data: StrPath | None = None,
    exemplars: int = 2000,
    title: str = "",
    cache: StrPath | None = None,
    overwrite: bool = False,
    verbose: bool = False,
) -> Path:
    """Write the results of runs as one self-contained HTML page, and return its path.

    Args:
        runs: folders of runs that were evaluated on the same data.
        out: the HTML file.
        split: the split to show.
        data: folder of splits; by default the data recorded in the first run.
        exemplars: maximum number of exemplars to show, the most confident errors first.
        title: title of the page; by default the data and the split.
        overwrite: whether to replace an existing file; otherwise it is an error.
        cache: as in ``miv.evaluate``.
        verbose: whether to show progress on standard error.
    """
    _check(Path(out), exemplars)  # before the work
    refuse_existing(Path(out), overwrite=overwrite)
    paths = [Path(run) for run in ([runs] if isinstance(runs, str | PathLike) else runs)]
    options = {name: None if given is None else Path(given) for name, given in (("data", data), ("cache", cache))}
    source = open_runs(paths, split=split, **options, progress=RichProgress() if verbose else SilentProgress())
    write_report(source, Path(out), exemplars=exemplars, title=title)
    return Path(out)


def write_report(source: ReportSource, out: Path | str, *, exemplars: int = 2000, title: str = "") -> None:
    """Write the report of ``open_runs`` as one HTML file, atomically; the arguments are those of ``miv.report``."""
    _check(Path(out), exemplars)
    data, models, total = gallery(source, exemplars), source.models, len(source.exemplars)
    shown, several = len(data["exemplar"]), f"{len(models)} models"
    title = title or f"{source.data}, {source.split}"
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
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")  # safe in a script element
    data_part = f'<script type="application/json" id="data">{text}</script>'
    page = whole_page(f"{title}: miv report", body, page_part("report.css"), page_part("report.js"), data_part)
    with whole_file(Path(out)) as temporary:
        temporary.write_text(page, encoding="utf-8", errors="replace")


def _check(out: Path, exemplars: int) -> None:
    if not 1 <= exemplars <= MOST_EXEMPLARS:
        raise MIVError(f"exemplars is {exemplars}. Expected 1 to {MOST_EXEMPLARS:,}.")
    check_page(out)


# The metrics of every model.


def _baseline_rows(source: ReportSource) -> dict[str, dict[str, float]]:
    """The baselines by their heads; a method with the same figures for several models appears once."""
    owners: dict[tuple[str, Figures], str] = {}
    for number, model in enumerate(source.models):
        for row in model.reference.items():
            owners[row] = f"{owners[row]}, {letter(number)}" if row in owners else letter(number)
    return {
        f"{escape(method)} <small>(plain, {letters})</small>": {
            k: v for k, v in asdict(figures).items() if v is not None
        }
        for (method, figures), letters in owners.items()
    }


def thresholds_of(model: ReportModel) -> str:
    """The threshold, or both."""
    lower = model.point.lower_threshold
    return f"{model.point.threshold:.3g}" if lower is None else f"{lower:.3g} and {model.point.threshold:.3g}"


def results(source: ReportSource) -> str:
    """The metrics of every model, the best of each in bold, and the errors at its threshold."""
    models, label = source.models, source.exemplars.label == 1
    evaluations, plain = [evaluate(model.answers) for model in models], _baseline_rows(source)
    # Figures that need a verdict are those of the model's own, so that the page has one decision rule.
    decided = [classification_metrics(label, model.verdict.astype(np.float64)) for model in models]
    measured = [
        own.metrics | at_threshold | {"auroc": own.metrics["auroc"]}
        for own, at_threshold in zip(evaluations, decided, strict=True)
    ]
    measured += plain.values()
    shown = ("auroc", "accuracy", "f1", *WITNESS_METRICS)
    names = [name for name in shown if any(name in figures for figures in measured)]
    of_several = [name for name in names if sum(name in figures for figures in measured) > 1]
    best = {name: max(round(np.nan_to_num(row.get(name, -1.0)), 3) for row in measured) for name in of_several}
    unsure = any(model.can_be_unsure for model in models)
    heads = ["Model", *(TITLES[name] for name in names), "False accepts", "False rejects", *["Unsure"] * unsure]
    rows = []
    for number, (model, figures) in enumerate(zip(models, measured, strict=False)):
        wrong = [_share(int((model.wrong & of).sum()), int(of.sum())) for of in (~label, label)]
        wrong += [_share(int(model.unsure.sum()), len(label))] * unsure
        rows.append([badge(number, model.name), *(_metric(figures, n, best.get(n)) for n in names), *wrong])
    for head, figures in plain.items():
        rows.append([head, *(_metric(figures, n, best.get(n)) for n in names), *([NONE] * (2 + unsure))])
    caption = f"How well the models verify ({source.split}, {len(source.exemplars):,} exemplars)"
    thresholds = ", ".join(f"{letter(n)}: {thresholds_of(m)}" for n, m in enumerate(models))
    words = [
        "AUROC: how often a bag that holds the query’s class scores above one that does not; 0.5 is chance. Accuracy, "
        f"F1, false accepts and false rejects are those of the verdicts at each model’s threshold ({thresholds})."
    ]
    if unsure:
        words.append("Unsure is neither a false accept nor a false reject; accuracy and F1 count it as no.")
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
            "Rows marked plain are simple methods on the features of the models named. A model should beat them."
        )
    note = f'<p class="note">{escape(" ".join(words))}</p>'
    return table(heads, rows, caption) + note


def _metric(figures: dict[str, float], name: str, best: float | None = None) -> str:
    """A figure, in bold if it is as good as the best of several."""
    value = figures.get(name)
    if value is None or np.isnan(value):
        return NONE
    return f"<b>{value:.3f}</b>" if best is not None and round(value, 3) >= best else f"{value:.3f}"


def _share(count: int, of: int) -> str:
    return f"{count / of:.1%} <small>({count:,} of {of:,})</small>" if of else "–"


# The colours of .m0 to .m9 in report.css.
_COLOURS = (
    *("#0b66a8", "#8a3ea5", "#0f7a63", "#b03a6b", "#6b6420"),
    *("#4a5568", "#3b3fb6", "#7a4a2b", "#47730e", "#0e7490"),
)


def curves(source: ReportSource) -> str:
    """ROC and reliability, with a dot at each model's threshold."""
    from sklearn.calibration import calibration_curve
    from sklearn.metrics import roc_curve

    label, models = source.exemplars.label, source.models
    if not 0 < label.sum() < len(label):
        return '<p class="note">The labels are all the same, so there is no curve to draw.</p>'
    size, charts = (4.6, 4.4), []
    with figure_of(1, size) as (first, [roc]), figure_of(1, size) as (second, [reliable]):
        for number, (model, look) in enumerate(zip(models, line_styles(len(models), _COLOURS), strict=True)):
            false_share, true_share, _ = roc_curve(label, model.answers.logit)
            roc.plot(false_share, true_share, **look, label=letter(number))
            shares = [[model.verdict[label == value].mean()] for value in (0, 1)]
            roc.plot(*shares, color=look["color"], marker="o", zorder=5)
            share, mean = calibration_curve(label, model.probability, n_bins=10, strategy="quantile")
            reliable.plot(mean, share, **look, marker="o", markersize=4, label=letter(number))
        roc.set(title="ROC", xlabel="negatives answered yes", ylabel="positives answered yes")
        reliable.set(title="Reliability", xlabel="probability", ylabel="share of positives")
        for axes, figure in ((roc, first), (reliable, second)):
            axes.plot([0, 1], [0, 1], color=QUIET, linewidth=1, linestyle=":")
            axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
            axes.legend()
            charts.append(svg_part(figure, f"{axes.get_title('left')}: {axes.get_ylabel()} by {axes.get_xlabel()}."))
    words = "Large dots: thresholds. Dotted lines: chance, and probabilities that are right as often as they say."
    names = "".join(f"<li>{badge(number, model.name)}</li>" for number, model in enumerate(models))
    return f'<ul class="legend">{names}</ul><div class="charts">{"".join(charts)}</div><p class="note">{words}</p>'


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
    """Operating point and calibration error of every model, and whether the rates that it promises hold."""
    label, items = source.exemplars.label, []
    if not 0 < label.sum() < len(label):
        return '<p class="note">The labels are all the same, so there is nothing to calibrate.</p>'
    for number, model in enumerate(source.models):
        goal = "not calibrated" if model.point.is_default else model.point.goal
        words = f"{goal}: threshold {thresholds_of(model)}, scaling {model.point.scaling.document()['name']}"
        error = f"calibration error (ECE) {expected_calibration_error(label, model.probability):.3f}"
        items.append(f"<li>{badge(number, model.name)} {escape(f'{words}, {error}')}</li>")
        for check in goal_checks(model.answers, model.point, withheld=model.withheld):
            mark = ' class="wrong"' if check["missed"] else ""
            items.append(f"<li>{badge(number)} <span{mark}>{escape(check_words(check))}</span></li>")
    note = (
        '<p class="note"><code>miv calibrate RUN DATA</code> makes the score a probability and chooses a threshold '
        "for your goal, on validation data. The report then uses it.</p>"
    )
    some = any(model.point.is_default for model in source.models)
    return f'<ul class="note">{"".join(items)}</ul>{note if some else ""}'
