"""The paper's figures, and its tables as pictures, from finished cells: PNG and SVG."""

from collections.abc import Callable, Sequence
from pathlib import Path

from miv.evaluation.curves import line_styles, picture
from miv.evaluation.evaluation import TITLES
from miv.experiments.experiment_report import Section
from miv.experiments.grids import FOUR, LADDER, SIZES
from miv.experiments.plot_marks import dot, legend, line, paper_dot, whose
from miv.experiments.plots_of_runs import draw_digits, draw_entropy, draw_learning_curves
from miv.experiments.report_tables import label, whose_figures


def write_plots(section: Section, folder: Path) -> list[Path]:
    """Draw all pictures of an experiment into a folder and return the SVG files; none if nothing is computed."""
    if not any(verdict.ours for verdict in section.found):
        return []
    paths = []
    for name, draw in _drawings(section.evidence.tier_name, section.experiment.task, section.experiment.name).items():
        draw(section, folder / name)
        paths.append(folder / f"{name}.svg")
    return [path for path in paths if path.is_file()]


def plot_files(tier: str, task: str, experiment: str) -> list[str]:
    """The names of the files that ``write_plots`` may write for an experiment."""
    return [f"{name}.{suffix}" for name in _drawings(tier, task, experiment) for suffix in ("png", "svg")]


def _drawings(tier: str, task: str, experiment: str) -> dict[str, Callable[[Section, Path], None]]:
    """The pictures of an experiment: what draws them, by name."""
    drawings: dict[str, Sequence[Callable[[Section, Path], None]]] = {
        "classification": (draw_figures, draw_learning_curves),
        "key_instance": (draw_figures, draw_entropy),
        "per_digit": (draw_digits,),
        "size_study": (draw_sizes,),
        "ablation": (draw_ladder,),
        "headed": (draw_figures,),
        "layernorm": (draw_figures,),
    }
    return {
        "-".join([tier, task, experiment, draw.__name__.removeprefix("draw_")]): draw for draw in drawings[experiment]
    }


def draw_figures(section: Section, path: Path) -> None:
    """Each metric by model, our figure with its error next to the paper's."""
    metrics = section.experiment.metrics
    rows = section.experiment.rows
    with picture(path, panels=len(metrics), size=(4.6, 1.2 + 0.36 * len(rows))) as axes:
        for panel, metric in zip(axes, metrics, strict=True):
            mine = [verdict for verdict in section.found if verdict.metric == metric]
            for place, verdict in enumerate(mine):
                dot(panel, verdict.ours, place - 0.12, whose(section))
                paper_dot(panel, verdict.paper, place + 0.12, whose_figures(section.experiment.task))
            one_round = [v.ours is not None and v.ours.rounds == 1 for v in mine]
            names = [f"{label(v.row)}{' (1 round)' * one}" for v, one in zip(mine, one_round, strict=True)]
            panel.set_yticks(range(len(mine)), names)
            panel.invert_yaxis()
            panel.set_title(TITLES[metric])
            legend(panel)


def draw_ladder(section: Section, path: Path) -> None:
    """From the baseline to full CAP, step by step."""
    models = list(dict.fromkeys(row.model for row in section.experiment.rows if row.variant))
    steps = ["baseline", *LADDER]
    common = section.evidence.common_rounds(section.experiment.rows)
    rounds = f"round{'s' if len(common) > 1 else ''} {', '.join(map(str, common))}"
    with picture(path, panels=len(FOUR), size=(5.4, 3.8)) as axes:
        for panel, metric in zip(axes, FOUR, strict=True):
            for model, style in zip(models, line_styles(len(models)), strict=True):
                mine = {v.row.variant: v for v in section.found if v.row.model == model and v.metric == metric}
                line(
                    panel,
                    [(place, mine[step].ours) for place, step in enumerate(steps)],
                    f"{model}, {whose(section)}",
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
            panel.set_xlabel(rounds)
            legend(panel)


def draw_sizes(section: Section, path: Path) -> None:
    """Each metric by train size, with one row of panels per mean bag size."""
    models = list(dict.fromkeys(row.model for row in section.experiment.rows))
    styles = dict(zip(models, line_styles(len(models)), strict=True))
    figures = {(v.row.model, v.row.variant, v.metric): v.ours for v in section.found}
    panels = [(metric, bag) for metric in FOUR for bag in SIZES]  # three to a row
    with picture(path, panels=len(panels), size=(4.6, 3.4)) as axes:
        for panel, (metric, bag) in zip(axes, panels, strict=True):
            for model in models:
                points = [(n, figures.get((model, f"bag_{bag}_exemplars_{n}", metric))) for n in SIZES[bag]]
                line(panel, points, model, styles[model])
            panel.set_title(f"{TITLES[metric]}, bags of {bag}")
            panel.set_xlabel("train exemplars")
            legend(panel)
