"""Finished cells on disk: ``result.json``, the answers on test, the metrics by epoch. No weights.

A cell is a folder of its own, ``<tier>/<task>/<cell>/round-<n>``, until it is packed into ``<tier>/<task>.jsonl``.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from filelock import FileLock

from miv.errors import MIVError
from miv.evaluation import Predictions, witness_rankings
from miv.evaluation.influence import influence
from miv.evaluation.witnesses import RANKED_METRICS
from miv.experiments.grids import EXPERIMENTS
from miv.experiments.jobs import Job, default_options
from miv.experiments.packed_cells import pack_cells, packed_file, read_packed
from miv.experiments.result_checks import FORMAT, METRICS, PREDICTIONS, REMEDY, RESULT, check_document, check_files
from miv.experiments.tiers import TIERS
from miv.files.atomic import whole_folder
from miv.files.json import Floats, read_json_object
from miv.training.config import TrainingConfig

__all__ = [
    "METRICS",
    "PREDICTIONS",
    "RESULT",
    "Result",
    "find_result",
    "pack_results",
    "result_document",
    "write_result",
]

_LOCK = ".lock"  # in the folder of results, held for a moment by whoever adds a cell


@dataclass(frozen=True)
class Result:
    """A finished cell."""

    job: Job
    folder: Path
    document: dict[str, Any]
    files: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def evaluation(self) -> dict[str, Any]:
        """The metrics on test, as returned by ``Evaluation.document``."""
        return dict(self.document["metrics"]["test"])

    @cached_property
    def rankings(self) -> dict[str, dict[str, float]]:
        """The witness metrics of the answers on test by what ranks the instances; empty without attention."""
        # From the answers, because cells from before all rankings were measured have only the paper's.
        return (witness_rankings(self.predictions) or {}) if self.evaluation["witnesses"] else {}

    @property
    def chances(self) -> dict[str, float]:
        """The witness metrics of a random order; empty without attention."""
        found = self.rankings.get("attention", {})
        return {name: value for name, value in found.items() if name.endswith("_chance")}

    @cached_property
    def metrics(self) -> dict[str, float]:
        """The metrics that are available, by name: the paper's seven, and those of witnesses ranked in other ways."""
        found = dict(self.evaluation["classification"])
        ranked = self.rankings
        found |= {name: ranked[by][metric] for name, (by, metric) in RANKED_METRICS.items() if by in ranked}
        return {name: value for name, value in found.items() if value is not None and math.isfinite(value)}

    @property
    def commit(self) -> str | None:
        """The commit of the code that computed it, if it was recorded."""
        return (self.document.get("code") or {}).get("commit")

    @cached_property
    def predictions(self) -> Predictions:
        """The answers on test."""
        return Predictions.load(self.folder / PREDICTIONS, self.files[PREDICTIONS])

    @cached_property
    def _influences(self) -> dict[str, Floats]:
        return {}

    def influence_on(self, metric: str) -> Floats:
        """The influence of each exemplar on a metric, kept because a report compares a cell with many others."""
        if metric not in self._influences:
            self._influences[metric] = influence(self.predictions, metric)
        return self._influences[metric]


def find_result(job: Job, results: Path) -> Result | None:
    """The finished cell, if it exists; a damaged cell, or one with different settings, is an error."""
    folder, remedy = job.result_folder(results), REMEDY
    if (folder / RESULT).is_file():
        document = read_json_object(folder / RESULT, remedy)
        kept = (path for name in (PREDICTIONS, METRICS) if (path := folder / name).is_file())
        files: Mapping[str, bytes] = {path.name: path.read_bytes() for path in kept}
    else:
        task = job.task_folder(results)
        files = read_packed(task).get(folder.relative_to(task).as_posix(), {})
        if RESULT not in files:
            return None
        document, remedy = json.loads(files[RESULT]), f"Restore {packed_file(task)}."
    check_document(folder / RESULT, document, remedy)
    difference = _difference({**document["description"], "config": document["config"]}, job.description)
    if difference:
        raise MIVError(
            f"{folder} was computed with different settings: {difference}. It is neither used nor replaced. "
            "Use the same settings, move it away, or choose another folder with --results."
        )
    check_files(folder, files, document, remedy)
    return Result(job, folder, document, files)


def write_result(job: Job, results: Path, files: Mapping[str, bytes]) -> Path:
    """Store a finished cell atomically; an existing one is not changed."""
    folder = job.result_folder(results)
    results.mkdir(parents=True, exist_ok=True)
    with FileLock(results / _LOCK):  # another command may have computed the same in a folder of work of its own
        if find_result(job, results) is None:
            with whole_folder(folder) as temporary:
                for name, content in files.items():
                    (temporary / name).write_bytes(content)
    return folder


def pack_results(results: Path) -> dict[Path, int]:
    """Pack the cells of every tier and task into one file each; return how many were added to which file."""
    results.mkdir(parents=True, exist_ok=True)
    with FileLock(results / _LOCK):
        tasks = [results / tier / task for tier in TIERS for task in EXPERIMENTS]
        packed = {packed_file(task): pack_cells(task, _check_cell) for task in tasks if task.is_dir()}
    return {path: count for path, count in packed.items() if count}


def _check_cell(folder: Path, files: Mapping[str, bytes]) -> None:
    document = read_json_object(folder / RESULT, REMEDY)
    check_document(folder / RESULT, document, REMEDY)
    check_files(folder, files, document, REMEDY)


def result_document(
    job: Job,
    about: dict[str, Any],
    evaluations: dict[str, Any],
    machine: dict[str, Any],
    files: Mapping[str, bytes],
    code: Mapping[str, Any] | None = None,
) -> bytes:
    """``result.json``: the settings, the results, and their origin.

    Args:
        job: the job.
        about: the ``run.json`` of the training.
        evaluations: its ``evaluation.json``.
        machine: the machine it ran on.
        files: the other files of the cell, by name.
        code: the commit of the code, as ``source_commit`` gives it; ``None`` if it is not known.
    """
    asked = dict(job.description)
    document = {
        "format": FORMAT,
        "version": 1,
        "hash": job.digest,
        "config": asked.pop("config"),
        "description": asked,
        "twin": job.tier.is_twin,
        "metrics": evaluations,
        "best": about["best"],
        "seconds": about["seconds"],
        "stage_seconds": about.get("stage_seconds"),  # a run that ended before these were kept has none
        "seed": about["seed"],
        "data": about["data"]["fingerprints"],
        "start": about.get("start"),  # the verifier whose weights training began with, and their hash
        "versions": about["versions"],
        "code": None if code is None else dict(code),
        "machine": machine,
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
    }
    return (json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n").encode()


def _difference(found: dict[str, Any], wanted: dict[str, Any]) -> str:
    """How the descriptions differ, in words; empty if they are equal.

    A setting added after the cell was computed counts as its current default. So does an option of the task in older
    cells, which did not record them.
    """
    names = sorted({*found, *wanted} - {"config", "data"})
    parts = _differences({name: found.get(name) for name in names}, {name: wanted.get(name) for name in names})
    parts += _differences({**TrainingConfig().document(), **found["config"]}, wanted["config"])
    before, now = found["data"], wanted["data"]
    if before["task"] != now["task"]:
        parts.append(f"the task was {before['task']} and is {now['task']}")
    else:
        parts += _differences({**default_options(now["task"]), **before["options"]}, now["options"])
    return "; ".join(parts)


def _differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    names = sorted({*before, *now})
    return [
        f"{name} was {before.get(name)!r} and is {now.get(name)!r}"
        for name in names
        if before.get(name) != now.get(name)
    ]
