"""Every number in the paper's tables, from the file that comes with the package."""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from miv.reproduction.grids import LADDER, WITNESSES, Experiment, Row

# A figure with three decimals is off by up to half of the last one: the deviation of that.
ROUNDING = 0.001 / 12**0.5
# Which task's figures stand beside ours.
STANDS_IN = {"claims": "fever", "fever-dev": "fever"}


@dataclass(frozen=True)
class Published:
    """A figure of the paper: mean over three rounds, and its standard error if the paper gives one."""

    mean: float
    standard_error: float | None


@cache
def read_published() -> dict[tuple[str, str, str, str, str], Published]:
    """All published figures by table, task, model, variant and metric."""
    text = (files("miv.reproduction") / "published_results.csv").read_text(encoding="utf-8")
    figures = {}
    for row in csv.DictReader(text.splitlines()):
        key = (row["table"], row["task"], row["model"], row["variant"], row["metric"])
        error = row["standard_error"]
        figures[key] = Published(float(row["mean"]), float(error) if error else None)
    return figures


def published(experiment: Experiment, row: Row, metric: str) -> Published | None:
    """The paper's figure for a row; ``None`` if the paper has none.

    The plain model is in several tables of the paper, but only the main ones have its errors. For an ablation step the
    paper gives what it adds; the figure is then the sum up to that step, and its error is unknown.
    """
    figures = read_published()
    task = STANDS_IN.get(experiment.task, experiment.task)
    if not row.setup.pooling_options and experiment.name != "size_study":
        table = "key_instance" if metric in WITNESSES else "classification"
        return figures.get((table, task, row.setup.pooling, "", metric))
    if experiment.name == "ablation":
        steps = list(LADDER)[: list(LADDER).index(row.variant) + 1]
        parts = [figures.get(("ablation", task, row.model, step, metric)) for step in ("baseline", *steps)]
        return Published(round(sum(part.mean for part in parts if part), 3), None) if all(parts) else None
    return figures.get((experiment.name, task, row.model, row.variant, metric))


def published_step(task: str, model: str, step: str, metric: str) -> float | None:
    """What a step of the ablation adds, as the paper prints it."""
    figure = read_published().get(("ablation", STANDS_IN.get(task, task), model, step, metric))
    return None if figure is None else figure.mean


def published_digit(digit: str, kind: str) -> float | None:
    """The share of ``tp``, ``tn``, ``fp`` or ``fn`` among the exemplars of a digit."""
    figure = read_published().get(("per_digit", "qmnist", "cap_vema", f"digit_{digit}", kind))
    return None if figure is None else figure.mean
