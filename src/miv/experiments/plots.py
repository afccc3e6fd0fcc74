"""The paper's figures, and its tables as pictures, from finished cells: PNG and SVG."""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from miv.evaluation import attention_entropy
from miv.evaluation.pictures import QUIET, line_styles, picture
from miv.evaluation.report_text import TITLES
from miv.experiments.digits import accuracy, our_shares, paper_shares
from miv.experiments.grids import FOUR, LADDER, SIZES
from miv.experiments.paired import Estimate
from miv.experiments.published import Published
from miv.experiments.report import Section, whose_figures
from miv.experiments.results import METRICS, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PAPER: dict[str, Any] = {"color": QUIET, "marker": "s", "markerfacecolor": "none", "linestyle": "none", "capsize": 2}


def write_plots(section: Section, folder: Path) -> list[Path]:
    """Draw all pictures of an experiment into a folder and return those in SVG; none where nothing is computed."""
    if not any(verdict.ours for verdict in section.found):
        return []
    drawings: dict[str, Sequence[Callable[[Section, Path], None]]] = {
        "classification": (draw_figures, draw_learning_curves),
        "key_instance": (draw_figures, draw_entropy),
        "per_digit": (draw_digits,),
        "size_study": (draw_sizes,),
        "ablation": (draw_ladder,),
        "headed": (draw_figures,),
        "layernorm": (draw_figures,),
    }
    paths = []
    for draw in drawings[section.experiment.name]:
        names = (section.evidence.tier_name, section.experiment.task, section.experiment.name)
        path = folder / "-".join([*names, draw.__name__.removeprefix("draw_")])
        draw(section, path)
        paths.append(path.with_name(f"{path.name}.svg"))
    return [path for path in paths if path.is_file()]


def draw_figures(section: Section, path: Path) -> None:
    """Each metric by model, ours with its error beside the paper's."""
    metrics = section.experiment.metrics
    rows = section.experiment.rows
    with picture(path, panels=len(metrics), size=(4.6, 1.2 + 0.36 * len(rows))) as axes:
        for panel, metric in zip(axes, metrics, strict=True):
            mine = [verdict for verdict in section.found if verdict.metric == metric]
            for place, verdict in enumerate(mine):
                _dot(panel, verdict.ours, place - 0.12, _whose(section))
                _paper_dot(panel, verdict.paper, place + 0.12, whose_figures(section.experiment.task))
            panel.set_yticks(range(len(mine)), [f"{v.row.model} {v.row.variant}".strip() for v in mine])
            panel.invert_yaxis()
            panel.set_title(TITLES[metric])
            _legend(panel)


def draw_ladder(section: Section, path: Path) -> None:
    """From the baseline to full CAP, step by step."""
    models = list(dict.fromkeys(row.model for row in section.experiment.rows))
    steps = ["baseline", *LADDER]
    with picture(path, panels=len(FOUR), size=(5.4, 3.8)) as axes:
        for panel, metric in zip(axes, FOUR, strict=True):
            for model, style in zip(models, line_styles(len(models)), strict=True):
                mine = {v.row.variant: v for v in section.found if v.row.model == model and v.metric == metric}
                _line(
                    panel,
                    [(place, mine[step].ours) for place, step in enumerate(steps)],
                    f"{model}, {_whose(section)}",
                    style,
                )
                theirs = [(place, mine[step].paper) for place, step in enumerate(steps)]
                points = [(place, figure.mean) for place, figure in theirs if figure is not None]
                if points:
                    quiet = {**style, "linewidth": 1, "alpha": 0.6}
                    panel.plot(*zip(*points, strict=True), **quiet, marker="s", markerfacecolor="none", markersize=5,
                               label=f"{model}, {whose_figures(section.experiment.task)}")  # fmt: skip
            panel.set_xticks(range(len(steps)), [step.replace("_", "\n") for step in steps])
            panel.set_title(TITLES[metric])
            _legend(panel)


def draw_sizes(section: Section, path: Path) -> None:
    """Each metric by train size, one row of panels a mean bag size."""
    models = list(dict.fromkeys(row.model for row in section.experiment.rows))
    styles = dict(zip(models, line_styles(len(models)), strict=True))
    figures = {(v.row.model, v.row.variant, v.metric): v.ours for v in section.found}
    panels = [(metric, bag) for metric in FOUR for bag in SIZES]  # three to a row
    with picture(path, panels=len(panels), size=(4.6, 3.4)) as axes:
        for panel, (metric, bag) in zip(axes, panels, strict=True):
            for model in models:
                points = [(n, figures.get((model, f"bag_{bag}_exemplars_{n}", metric))) for n in SIZES[bag]]
                _line(panel, points, model, styles[model])
            panel.set_title(f"{TITLES[metric]}, bags of {bag}")
            panel.set_xlabel("train exemplars")
            _legend(panel)


def draw_digits(section: Section, path: Path) -> None:
    """The accuracy by digit."""
    ours = accuracy(our_shares(section.evidence.of(section.experiment.rows[0].setup)))
    paper = accuracy(paper_shares()) if section.evidence.may_compare_figures else {}
    with picture(path, size=(6.4, 3.6)) as [axes]:
        places = np.arange(len(ours))
        axes.bar(places - 0.2, list(ours.values()), 0.38, label=_whose(section), **_colour(0))
        if paper:
            axes.bar(
                places + 0.2,
                [paper[digit] for digit in ours],
                0.38,
                color=QUIET,
                label=whose_figures(section.experiment.task),
            )
        axes.set_xticks(places, list(ours))
        axes.set_ylim(0.5, None)
        axes.set_title("Accuracy of CAP-VEMA by digit")
        axes.set_xlabel("digit")
        axes.legend()


def draw_learning_curves(section: Section, path: Path) -> None:
    """Validation AUROC by epoch, a line a model, of the first round that is there."""
    rows = [row for row in section.experiment.rows if section.evidence.of(row.setup)]
    with picture(path, size=(7.2, 4.6)) as [axes]:
        for row, style in zip(rows, line_styles(len(rows)), strict=True):
            epochs, values = _history(section.evidence.of(row.setup)[0])
            axes.plot(epochs, values, **style, label=row.model)
        axes.set_title("Validation AUROC by epoch, all stages")
        axes.set_xlabel("epoch")
        axes.legend(ncols=2)


def draw_entropy(section: Section, path: Path) -> None:
    """The entropy of attention by bag size, beside log N, that of even attention; positives and negatives apart."""
    rows = [row for row in section.experiment.rows if section.evidence.of(row.setup)]
    with picture(path, panels=len(rows), size=(4.0, 3.4)) as axes:
        for panel, row in zip(axes, rows, strict=True):
            for (words, label), style in zip((("positive", 1), ("negative", 0)), line_styles(2), strict=True):
                sizes, means = _entropy_by_size(section.evidence.of(row.setup), label)
                panel.plot(np.log(sizes), means, **style, marker="o", markersize=3, label=words)
            low, high = panel.get_xlim()
            panel.plot([low, high], [low, high], color=QUIET, linewidth=1, linestyle=":", label="even: log N")
            panel.set_title(row.model)
            panel.set_xlabel("log N")
            panel.set_ylabel("entropy of attention")
            _legend(panel)


_FEW = 10  # exemplars below which a mean by bag size is noise


def _entropy_by_size(results: Sequence[Result], label: int) -> tuple[np.ndarray, np.ndarray]:
    sizes, entropies = [], []
    for result in results:
        answers = result.predictions
        if answers.attention is not None:
            chosen = answers.label == label
            sizes.append(answers.bag_sizes[chosen])
            entropies.append(attention_entropy(answers.ptr, answers.attention)[chosen])
    size, entropy = np.concatenate(sizes), np.concatenate(entropies)
    known, counts = np.unique(size, return_counts=True)
    kept = known[counts >= min(_FEW, counts.max())]
    return kept, np.array([entropy[size == one].mean() for one in kept])


def _history(result: Result) -> tuple[list[int], list[float]]:
    with (result.folder / METRICS).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [int(row["epoch"]) for row in rows], [float(row["validation_auroc"]) for row in rows]


def _whose(section: Section) -> str:
    return "synthetic twin" if section.evidence.tier.is_twin else "ours"


def _colour(place: int) -> dict[str, Any]:
    return {"color": line_styles(place + 1)[place]["color"]}


def _dot(axes: "Axes", figure: Estimate | None, place: float, label: str) -> None:
    if figure is not None:
        error = figure.standard_error if np.isfinite(figure.standard_error) else 0.0
        axes.errorbar(figure.value, place, xerr=error, fmt="o", capsize=2, label=label, **_colour(0))


def _paper_dot(axes: "Axes", figure: Published | None, place: float, label: str) -> None:
    if figure is not None:
        axes.errorbar(figure.mean, place, xerr=figure.standard_error or 0.0, label=label, **_PAPER)


def _line(axes: "Axes", points: Sequence[tuple[float, Estimate | None]], label: str, style: dict[str, Any]) -> None:
    found = [(x, figure.value, figure.standard_error) for x, figure in points if figure is not None]
    if found:
        x, y, error = zip(*found, strict=True)
        axes.errorbar(x, y, yerr=np.nan_to_num(error), marker="o", markersize=4, capsize=2, label=label, **style)


def _legend(axes: "Axes") -> None:
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    if once:
        axes.legend(once.values(), once.keys(), fontsize=8)
