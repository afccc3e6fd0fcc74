"""Finished cells on disk: one JSON document each, with settings, figures, their errors and the curve of training.

A document has no predictions and no weights, but the standard error of each figure over exemplars, and that of its
difference to every model that a table compares it with. A cell is ``<tier>/<task>/<cell>/round-<n>/result.json`` until
it is packed as a line of ``<tier>/<task>.jsonl``.
"""

import json
import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from filelock import FileLock

from miv.errors import MIVError
from miv.files.atomic import whole_file
from miv.files.json import read_json_object
from miv.files.tables import read_json_lines
from miv.reproduction.grids import CLASSIFICATION, EXPERIMENTS
from miv.reproduction.jobs import TIERS, Job, default_options
from miv.training.config import TrainingConfig

FORMAT, VERSION = "miv-result", 2
RESULT = "result.json"
_LOCK = ".lock"  # in the folder of results, held for a moment by whoever adds a cell
_REMEDY = "Remove the folder to compute the cell again."

# All that reports read, each by its path from the top.
_NEEDED = (
    *("description.data.task", "description.data.options.round", "config.pooling", "best.stage", "best.epoch"),
    *("seconds", "data.test", "paired", "history.validation_auroc"),
    *(f"test.{name}" for name in ("exemplars", "positives", "errors", "chance", "groups")),
    *(f"test.figures.{name}" for name in CLASSIFICATION),
)


@dataclass(frozen=True)
class Result:
    """A finished cell; ``path`` is the folder it has or had before it was packed."""

    job: Job
    path: Path
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
    folder, remedy = job.result_folder(results), _REMEDY
    if (folder / RESULT).is_file():
        document = read_json_object(folder / RESULT, remedy)
    else:
        task = job.task_folder(results)
        packed = read_packed(task).get(folder.relative_to(task).as_posix())
        if packed is None:
            return None
        document, remedy = packed, f"Restore {packed_file(task)}."
    check_document(folder / RESULT, document, remedy)
    difference = _difference({**document["description"], "config": document["config"]}, job.description)
    if difference:
        raise MIVError(f"{folder} was computed with different settings: {difference}. Move it away, or use --results.")
    return Result(job, folder, document)


def check_document(path: Path, document: Any, remedy: str) -> None:
    """Raise an error for an invalid or incomplete document; ``remedy`` ends the message."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise MIVError(f"{path} is not a result: its format is not {FORMAT!r}. {remedy}")
    if document.get("version") != VERSION:
        raise MIVError(f"{path} has version {document.get('version')!r}; this miv reads version {VERSION}. {remedy}")
    for names in _NEEDED:
        value: Any = document
        for name in names.split("."):
            if not isinstance(value, dict) or name not in value:
                raise MIVError(f"{path} is damaged: it lacks {names}. {remedy}")
            value = value[name]


def write_result(job: Job, results: Path, document: Mapping[str, Any]) -> Path:
    """Store a finished cell atomically; an existing one is not changed."""
    folder = job.result_folder(results)
    results.mkdir(parents=True, exist_ok=True)
    with FileLock(results / _LOCK):  # another command may have computed the same in a work folder of its own
        if find_result(job, results) is None:
            with whole_file(folder / RESULT) as temporary:
                temporary.write_text(json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    return folder


def packed_file(folder: Path) -> Path:
    """The file into which the cells below a folder are packed."""
    return folder.with_name(folder.name + ".jsonl")


def read_packed(folder: Path) -> Mapping[str, dict[str, Any]]:
    """The packed cells of a folder by their path in it, such as ``pma/round-0``."""
    path = packed_file(folder)
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


def pack_results(results: Path) -> dict[Path, int]:
    """Pack the cells of every tier and task into one file each; return how many were added to which file."""
    results.mkdir(parents=True, exist_ok=True)
    with FileLock(results / _LOCK):
        tasks = [results / tier / task for tier in TIERS for task in EXPERIMENTS]
        packed = {packed_file(task): _pack(task) for task in tasks if task.is_dir()}
    return {path: count for path, count in packed.items() if count}


def _pack(folder: Path) -> int:
    """Move every cell below a folder into the packed file, which is whole before a folder is removed."""
    cells = dict(read_packed(folder))
    paths = [path for path in folder.glob(f"*/round-*/{RESULT}") if not path.parts[-3].startswith(".")]
    for path in paths:
        document, name = read_json_object(path, _REMEDY), path.parent.relative_to(folder).as_posix()
        check_document(path, document, _REMEDY)
        if cells.setdefault(name, document) != document:
            raise MIVError(f"{path} and {packed_file(folder)} hold different results for one cell. Remove one of them.")
    if paths:
        with whole_file(packed_file(folder)) as temporary, temporary.open("w", encoding="utf-8") as file:
            for name in sorted(cells):
                line = {"cell": name, "result": cells[name]}
                file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
        for path in paths:
            shutil.rmtree(path.parent)
        for parent in (*{path.parent.parent for path in paths}, folder):
            if not any(parent.iterdir()):
                parent.rmdir()
    return len(paths)


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
