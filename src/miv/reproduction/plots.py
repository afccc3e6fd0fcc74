"""Our figures with their errors next to the paper's, as one picture per experiment: PNG and SVG."""

from pathlib import Path

import numpy as np

from miv.evaluation.curves import QUIET, line_styles, picture
from miv.evaluation.evaluation import TITLES
from miv.reproduction.tables import Section, label, whose_figures


def plot_files(tier: str, task: str, experiment: str) -> list[str]:
    """The names of the files that ``write_plots`` writes for an experiment."""
    return [f"{tier}-{task}-{experiment}-figures.{suffix}" for suffix in ("png", "svg")]


def write_plots(section: Section, folder: Path) -> list[Path]:
    """Draw each metric by model, and return the SVG file; nothing if nothing is computed."""
    experiment, evidence = section.experiment, section.evidence
    if experiment is None or evidence is None or not any(figure.ours for figure in section.figures):
        return []
    path = folder / f"{evidence.tier_name}-{experiment.task}-{experiment.name}-figures"
    whose = "synthetic twin" if evidence.tier.is_twin else "ours"
    with picture(path, panels=len(experiment.metrics), size=(4.6, 1.2 + 0.36 * len(experiment.rows))) as axes:
        for panel, metric in zip(axes, experiment.metrics, strict=True):
            column = [figure for figure in section.figures if figure.metric == metric]
            for place, figure in enumerate(column):
                if figure.ours is not None:
                    error = np.nan_to_num(figure.ours.standard_error)
                    panel.errorbar(figure.ours.value, place - 0.12, xerr=error, fmt="o", capsize=2, label=whose,
                                   color=line_styles(1)[0]["color"])  # fmt: skip
                if figure.paper is not None:
                    panel.errorbar(figure.paper.mean, place + 0.12, xerr=figure.paper.standard_error or 0.0, fmt="s",
                                   markerfacecolor="none", capsize=2, color=QUIET,
                                   label=whose_figures(experiment.task))  # fmt: skip
            stars = [" (1 round)" * (figure.ours is not None and figure.ours.rounds == 1) for figure in column]
            names = [label(figure.row) + star for figure, star in zip(column, stars, strict=True)]
            panel.set_yticks(range(len(column)), names)
            panel.invert_yaxis()
            panel.set_title(TITLES[metric])
            handles, labels = panel.get_legend_handles_labels()
            once = dict(zip(labels, handles, strict=True))
            panel.legend(once.values(), once.keys(), fontsize=8)
    return [folder / f"{path.name}.svg"]
