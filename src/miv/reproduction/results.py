"""Finished cells on disk: one JSON document each, with settings, figures and their errors.

A document has no predictions and no weights, but the standard error of each figure over exemplars, and that of its
difference to every model that was there before it. A cell is a line of ``<tier>/<task>.jsonl``.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from filelock import FileLock

from miv.errors import MIVError
from miv.files.atomic import whole_file
from miv.files.tables import read_json_lines
from miv.reproduction.grids import CLASSIFICATION
from miv.reproduction.jobs import Job, default_options
from miv.training.config import TrainingConfig

FORMAT, VERSION = "miv-result", 2
_LOCK = ".lock"  # in the folder of results, held for a moment by whoever adds a cell

# All that reports read, each by its path from the top.
_NEEDED = (
    *("description.data.task", "description.data.options.round", "config.pooling", "best.stage", "best.epoch"),
    *("seconds", "data.test", "paired"),
    *(f"test.{name}" for name in ("exemplars", "positives", "errors", "chance", "groups")),
    *(f"test.figures.{name}" for name in CLASSIFICATION),
)


@dataclass(frozen=True)
class Result:
    """A finished cell."""

    job: Job
    document: dict[str, Any]

    @property
    def round(self) -> int:
        return self.job.cell.round

    @property
    def metrics(self) -> dict[str, float]:
        """The figures on test by name: the paper's seven, and those of witnesses ranked in other ways."""
        return {name: value for name, value in self.document["test"]["figures"].items() if value is not None}

    def error_of(self, metric: str) -> float:
        """The standard error of a figure over exemplars; NaN if it is not defined."""
        error = self.document["test"]["errors"].get(metric)
        return math.nan if error is None else float(error)

    def error_of_difference(self, other: "Result", metric: str) -> float | None:
        """The standard error over exemplars of the difference to another cell; ``None`` if neither cell has it."""
        for cell, partner in ((self, other), (other, self)):
            error = cell.document["paired"].get(partner.job.cell.setup.name, {}).get(metric)
            if error is not None:
                return float(error)
        return None


def find_result(job: Job, results: Path) -> Result | None:
    """The finished cell, if it exists; a damaged cell, or one with different settings, is an error."""
    path = job.result_file(results)
    document = read_cells(path).get(job.result_name)
    if document is None:
        return None
    check_document(f"{path}, {job.result_name}", document)
    # Settings that no longer exist do not count.
    known = {name: value for name, value in document["config"].items() if name in job.description["config"]}
    before = {**document["description"], "config": known}
    difference = _difference(before, job.description)
    if difference:
        raise MIVError(
            f"{path}: {job.result_name} was computed with different settings: {difference}. Remove its line, or use "
            "--results."
        )
    return Result(job, document)


def check_document(what: str, document: dict[str, Any]) -> None:
    """Raise an error for an invalid or incomplete document; ``what`` says where it is."""
    remedy = "Remove its line to compute the cell again."
    if document.get("format") != FORMAT:
        raise MIVError(f"{what} is not a result: its format is not {FORMAT!r}. {remedy}")
    if document.get("version") != VERSION:
        raise MIVError(f"{what} has version {document.get('version')!r}; this miv reads version {VERSION}. {remedy}")
    for names in _NEEDED:
        value: Any = document
        for name in names.split("."):
            if not isinstance(value, dict) or name not in value:
                raise MIVError(f"{what} is damaged: it lacks {names}. {remedy}")
            value = value[name]


def write_result(job: Job, results: Path, document: Mapping[str, Any]) -> None:
    """Add a finished cell to its file atomically, in the order of the names; an existing one is not changed."""
    results.mkdir(parents=True, exist_ok=True)
    with FileLock(results / _LOCK):  # another command may have computed the same in a work folder of its own
        if find_result(job, results) is not None:
            return
        path = job.result_file(results)
        cells = {**read_cells(path), job.result_name: document}
        with whole_file(path) as temporary, temporary.open("w", encoding="utf-8") as file:
            for name in sorted(cells):
                line = {"cell": name, "result": cells[name]}
                file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n")


def read_cells(path: Path) -> Mapping[str, dict[str, Any]]:
    """The cells of a file by name, such as ``pma/round-0``; none if there is no file."""
    if not path.is_file():
        return {}
    state = path.stat()
    return _read(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=16)
def _read(path: Path, _modified: int, _size: int) -> Mapping[str, dict[str, Any]]:
    cells: dict[str, dict[str, Any]] = {}
    for number, line in read_json_lines(path):
        name, document = line.get("cell"), line.get("result")
        if not isinstance(name, str) or not isinstance(document, dict):
            raise MIVError(f'{path}, line {number}: expected {{"cell": NAME, "result": {{…}}}}. Restore the file.')
        if name in cells:
            raise MIVError(f"{path}, line {number}: the cell {name} is there twice. Remove one of the lines.")
        cells[name] = document
    return cells


def _difference(before: dict[str, Any], wanted: dict[str, Any]) -> str:
    """How the descriptions differ, in words; what is not in the first counts as its current default."""
    task, defaults = wanted["data"]["task"], TrainingConfig().document()
    pairs = (
        [{name: value for name, value in one.items() if name not in ("config", "data")} for one in (before, wanted)],
        [defaults | before["config"], wanted["config"]],
        [{"the task": one["data"]["task"]} for one in (before, wanted)],
        [default_options(task) | before["data"]["options"], wanted["data"]["options"]],
    )
    return "; ".join(
        f"{name} was {old.get(name)!r} and is {new.get(name)!r}"
        for old, new in pairs
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    )
