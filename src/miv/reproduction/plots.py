"""The paper's figures, and its tables as pictures, from finished cells: PNG and SVG."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from miv.evaluation.curves import QUIET, line_styles, picture
from miv.evaluation.evaluation import TITLES
from miv.reproduction.comparison import CellEvidence, Comparison, Estimate
from miv.reproduction.grids import FOUR, LADDER, SIZES, Experiment
from miv.reproduction.published import published_digit
from miv.reproduction.tables import Section, digit_shares, label, whose_figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Draw = Callable[[Experiment, CellEvidence, Sequence[Comparison], Path], None]
_PAPER: dict[str, Any] = {"color": QUIET, "marker": "s", "markerfacecolor": "none", "linestyle": "none", "capsize": 2}


def write_plots(section: Section, folder: Path) -> list[Path]:
    """Draw all pictures of a section into a folder and return the SVG files; none if nothing is computed."""
    experiment, evidence = section.experiment, section.evidence
    if experiment is None or evidence is None or not any(figure.ours for figure in section.figures):
        return []
    paths = []
    for name, draw in _drawings(evidence.tier_name, experiment.task, experiment.name).items():
        draw(experiment, evidence, section.figures, folder / name)
        paths.append(folder / f"{name}.svg")
    return [path for path in paths if path.is_file()]


def plot_files(tier: str, task: str, experiment: str) -> list[str]:
    """The names of the files that ``write_plots`` may write for an experiment."""
    return [f"{name}.{suffix}" for name in _drawings(tier, task, experiment) for suffix in ("png", "svg")]


def _drawings(tier: str, task: str, experiment: str) -> dict[str, Draw]:
    """The pictures of an experiment: what draws them, by name."""
    drawings: dict[str, dict[str, Draw]] = {
        "classification": {"figures": draw_figures, "learning_curves": draw_learning_curves},
        "per_digit": {"digits": draw_digits},
        "size_study": {"sizes": draw_sizes},
        "ablation": {"ladder": draw_ladder},
    }
    some = drawings.get(experiment, {"figures": draw_figures})
    return {"-".join([tier, task, experiment, name]): draw for name, draw in some.items()}


def draw_figures(experiment: Experiment, evidence: CellEvidence, figures: Sequence[Comparison], path: Path) -> None:
    """Each metric by model, our figure with its error next to the paper's."""
    with picture(path, panels=len(experiment.metrics), size=(4.6, 1.2 + 0.36 * len(experiment.rows))) as axes:
        for panel, metric in zip(axes, experiment.metrics, strict=True):
            column = [figure for figure in figures if figure.metric == metric]
            for place, figure in enumerate(column):
                if figure.ours is not None:
                    error = np.nan_to_num(figure.ours.standard_error)
                    panel.errorbar(figure.ours.value, place - 0.12, xerr=error, fmt="o", capsize=2,
                                   label=_whose(evidence), color=line_styles(1)[0]["color"])  # fmt: skip
                if figure.paper is not None:
                    panel.errorbar(figure.paper.mean, place + 0.12, xerr=figure.paper.standard_error or 0.0,
                                   label=whose_figures(experiment.task), **_PAPER)  # fmt: skip
            stars = [" (1 round)" * (figure.ours is not None and figure.ours.rounds == 1) for figure in column]
            names = [label(figure.row) + star for figure, star in zip(column, stars, strict=True)]
            panel.set_yticks(range(len(column)), names)
            panel.invert_yaxis()
            panel.set_title(TITLES[metric])
            _legend(panel)


def draw_ladder(experiment: Experiment, evidence: CellEvidence, figures: Sequence[Comparison], path: Path) -> None:
    """From the baseline to full CAP, step by step."""
    models = list(dict.fromkeys(row.model for row in experiment.rows if row.variant))
    steps = ["baseline", *LADDER]
    with picture(path, panels=len(FOUR), size=(5.4, 3.8)) as axes:
        for panel, metric in zip(axes, FOUR, strict=True):
            for model, style in zip(models, line_styles(len(models)), strict=True):
                by_step = {f.row.variant: f for f in figures if f.row.model == model and f.metric == metric}
                ours = [(place, by_step[step].ours) for place, step in enumerate(steps)]
                _line(panel, ours, f"{model}, {_whose(evidence)}", style)
                theirs = [(place, by_step[step].paper) for place, step in enumerate(steps)]
                points = [(place, figure.mean) for place, figure in theirs if figure is not None]
                if points:
                    quiet = {**style, "linewidth": 1, "alpha": 0.6}
                    panel.plot(*zip(*points, strict=True), **quiet, marker="s", markerfacecolor="none", markersize=5,
                               label=f"{model}, {whose_figures(experiment.task)}")  # fmt: skip
            panel.set_xticks(range(len(steps)), [step.replace("_", "\n") for step in steps])
            panel.set_title(TITLES[metric])
            _legend(panel)


def draw_sizes(experiment: Experiment, _evidence: CellEvidence, figures: Sequence[Comparison], path: Path) -> None:
    """Each metric by train size, with one row of panels per metric and one panel per mean bag size."""
    models = list(dict.fromkeys(row.model for row in experiment.rows))
    styles = dict(zip(models, line_styles(len(models)), strict=True))
    ours = {(figure.row.model, figure.row.variant, figure.metric): figure.ours for figure in figures}
    panels = [(metric, bag) for metric in FOUR for bag in SIZES]  # three to a row
    with picture(path, panels=len(panels), size=(4.6, 3.4)) as axes:
        for panel, (metric, bag) in zip(axes, panels, strict=True):
            for model in models:
                points = [(n, ours.get((model, f"bag_{bag}_exemplars_{n}", metric))) for n in SIZES[bag]]
                _line(panel, points, model, styles[model])
            panel.set_title(f"{TITLES[metric]}, bags of {bag}")
            panel.set_xlabel("train exemplars")
            _legend(panel)


def draw_digits(experiment: Experiment, evidence: CellEvidence, _figures: Sequence[Comparison], path: Path) -> None:
    """The accuracy by digit."""
    ours = {digit: some[0] + some[1] for digit, some in digit_shares(evidence.of(experiment.rows[0].setup)).items()}
    with picture(path, size=(6.4, 3.6)) as [axes]:
        places = np.arange(len(ours))
        axes.bar(places - 0.2, list(ours.values()), 0.38, label=_whose(evidence), color=line_styles(1)[0]["color"])
        if evidence.may_compare_figures:
            paper = [sum(published_digit(digit, kind) or 0.0 for kind in ("tp", "tn")) for digit in ours]
            axes.bar(places + 0.2, paper, 0.38, color=QUIET, label=whose_figures(experiment.task))
        axes.set_xticks(places, list(ours))
        axes.set_ylim(0.5, None)
        axes.set_title("Accuracy of CAP-VEMA by digit")
        axes.set_xlabel("digit")
        axes.legend()


def draw_learning_curves(
    experiment: Experiment, evidence: CellEvidence, _figures: Sequence[Comparison], path: Path
) -> None:
    """Validation AUROC by epoch, one line per model, for the first round that all models have; nothing without one."""
    rows = [row for row in experiment.rows if evidence.of(row.setup)]
    rounds = evidence.common_rounds(rows)
    if not rounds:
        return
    with picture(path, size=(7.2, 4.6)) as [axes]:
        for row, style in zip(rows, line_styles(len(rows)), strict=True):
            [result] = evidence.of(row.setup, rounds[:1])
            history = result.document["history"]
            axes.plot(history["epoch"], history["validation_auroc"], **style, label=row.model)
        axes.set_title(f"Validation AUROC by epoch, all stages, round {rounds[0]}")
        axes.set_xlabel("epoch")
        axes.legend(ncols=2)


def _whose(evidence: CellEvidence) -> str:
    """The label of our figures in the legend."""
    return "synthetic twin" if evidence.tier.is_twin else "ours"


def _line(axes: "Axes", points: Sequence[tuple[float, Estimate | None]], name: str, style: dict[str, Any]) -> None:
    """Our figures with their errors, joined."""
    known = [(x, figure.value, figure.standard_error) for x, figure in points if figure is not None]
    if known:
        x, y, error = zip(*known, strict=True)
        axes.errorbar(x, y, yerr=np.nan_to_num(error), marker="o", markersize=4, capsize=2, label=name, **style)


def _legend(axes: "Axes") -> None:
    """A legend with every name once."""
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    if once:
        axes.legend(once.values(), once.keys(), fontsize=8)
