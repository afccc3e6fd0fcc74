"""Shared elements of the figures: dots with errors, lines, legends."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from miv.evaluation.curves import QUIET, line_styles
from miv.experiments.experiment_report import Section
from miv.experiments.paired import Estimate
from miv.experiments.published import Published

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PAPER: dict[str, Any] = {"color": QUIET, "marker": "s", "markerfacecolor": "none", "linestyle": "none", "capsize": 2}


def whose(section: Section) -> str:
    """The label of our figures in the legend."""
    return "synthetic twin" if section.evidence.tier.is_twin else "ours"


def colour(place: int) -> dict[str, Any]:
    """The colour of the line at a place."""
    return {"color": line_styles(place + 1)[place]["color"]}


def dot(axes: "Axes", figure: Estimate | None, place: float, label: str) -> None:
    """Our figure with its error."""
    if figure is not None:
        error = figure.standard_error if np.isfinite(figure.standard_error) else 0.0
        axes.errorbar(figure.value, place, xerr=error, fmt="o", capsize=2, label=label, **colour(0))


def paper_dot(axes: "Axes", figure: Published | None, place: float, label: str) -> None:
    """The paper's figure with its error."""
    if figure is not None:
        axes.errorbar(figure.mean, place, xerr=figure.standard_error or 0.0, label=label, **_PAPER)


def line(axes: "Axes", points: Sequence[tuple[float, Estimate | None]], label: str, style: dict[str, Any]) -> None:
    """Our figures with their errors, joined."""
    found = [(x, figure.value, figure.standard_error) for x, figure in points if figure is not None]
    if found:
        x, y, error = zip(*found, strict=True)
        axes.errorbar(x, y, yerr=np.nan_to_num(error), marker="o", markersize=4, capsize=2, label=label, **style)


def legend(axes: "Axes") -> None:
    """A legend with every name once."""
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    if once:
        axes.legend(once.values(), once.keys(), fontsize=8)
