"""Learning curves: the metrics of a run by epoch, from its CSV file, as a picture."""

import csv
import math
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from miv.data import SPLITS
from miv.errors import MIVError
from miv.evaluation.evaluation_text import TITLES
from miv.evaluation.pictures import QUIET, line_styles, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Points = list[tuple[float, float]]  # epoch and value


def write_learning_curves(metrics: Path | str, folder: Path | str) -> list[Path]:
    """Draw the metrics of a run and return the paths of ``learning_curves.png`` and ``.svg``.

    Args:
        metrics: a CSV file with a column ``epoch``, and for each split and metric a column such as ``train_loss`` or
            ``validation/accuracy``; a cell may be empty. If there is a column ``stage``, a line marks each change.
            Other columns are ignored.
        folder: output folder; created if missing.
    """
    panels, changes = read_history(Path(metrics))
    path = Path(folder) / "learning_curves"
    with picture(path, panels=len(panels), size=(4.6, 3.6)) as axes:
        for panel, (metric, lines) in zip(axes, panels.items(), strict=True):
            _draw(panel, metric, lines, changes)
    return [path.with_name(f"{path.name}.{suffix}") for suffix in ("png", "svg")]


def read_history(path: Path) -> tuple[dict[str, dict[str, Points]], dict[float, str]]:
    """Return the points of each metric and split, and the stages after the first with their first epochs."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            names = reader.fieldnames or []
            rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise MIVError(f"{path} cannot be read as CSV: {error}. Expected the metrics of a run.") from error
    columns = {name: found for name in names if (found := _split_and_metric(name))}
    if "epoch" not in names or not columns:
        listing = ", ".join(names) or "none"
        raise MIVError(f"{path} has the columns {listing}. Expected epoch, and others such as train_loss.")
    panels: dict[str, dict[str, Points]] = defaultdict(dict)
    changes: dict[float, str] = {}
    stage = None
    for line, row in enumerate(rows, start=2):
        epoch = _number(path, line, "epoch", row["epoch"])
        if epoch is None:
            continue
        if row.get("stage") and row["stage"] != stage:
            if stage is not None:
                changes[epoch] = row["stage"]
            stage = row["stage"]
        for name, (split, metric) in columns.items():
            value = _number(path, line, name, row[name])
            if value is not None:
                panels[metric].setdefault(split, []).append((epoch, value))
    if not panels:
        raise MIVError(f"{path} has no figures yet. Expected at least one epoch.")
    return panels, changes


def _split_and_metric(name: str) -> tuple[str, str] | None:
    for split in SPLITS:
        if name.startswith((f"{split}_", f"{split}/")):
            return split, name[len(split) + 1 :]
    return None


def _number(path: Path, line: int, name: str, cell: str | None) -> float | None:
    """Return the number in a cell; ``None`` if it is empty or the metric was undefined."""
    if not cell:
        return None
    try:
        value = float(cell)
    except ValueError:
        raise MIVError(f"{path}, line {line}: {name} is {cell[:40]!r}. Expected a number.") from None
    return value if math.isfinite(value) else None


def _draw(axes: "Axes", metric: str, lines: dict[str, Points], changes: dict[float, str]) -> None:
    from matplotlib.ticker import MaxNLocator

    styles = dict(zip(SPLITS, line_styles(len(SPLITS)), strict=True))  # a split looks the same in every panel
    for split in SPLITS:
        if split in lines:
            points = lines[split]
            marker = "o" if len(points) < 30 else None
            axes.plot(*zip(*points, strict=True), **styles[split], marker=marker, markersize=4, label=split)
    for epoch, stage in changes.items():
        axes.axvline(epoch, color=QUIET, linewidth=1, linestyle=":")
        axes.annotate(f"stage {stage}", (epoch, 1), (4, -2), xycoords=("data", "axes fraction"),
                      textcoords="offset points", va="top", fontsize=8, color=QUIET)  # fmt: skip
    axes.set_title(TITLES.get(metric, metric.replace("_", " ")))
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend()
