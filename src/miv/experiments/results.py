"""Finished cells on disk: ``result.json``, the answers on test, the metrics by epoch. No weights."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from miv.errors import MivError
from miv.evaluation import Predictions
from miv.experiments.jobs import Job
from miv.files import whole_folder
from miv.json_files import read_json_object
from miv.training.config import TrainingConfig

FORMAT = "miv-result"
RESULT, PREDICTIONS, METRICS = "result.json", "predictions.parquet", "metrics.csv"


@dataclass(frozen=True)
class Result:
    """A finished cell."""

    job: Job
    folder: Path
    document: dict[str, Any]

    @property
    def evaluation(self) -> dict[str, Any]:
        """What was measured on test, as ``Evaluation.document`` gives it."""
        return dict(self.document["metrics"]["test"])

    @property
    def metrics(self) -> dict[str, float]:
        """The seven figures of the paper's tables that there are, by name."""
        witnesses = self.evaluation["witnesses"] or {}
        found = {**self.evaluation["classification"], **{name: witnesses.get(name) for name in ("i_auroc", "i_ap")}}
        return {name: value for name, value in found.items() if value is not None}

    @cached_property
    def predictions(self) -> Predictions:
        """The answers on test."""
        return Predictions.load(self.folder / PREDICTIONS)


def find_result(job: Job, results: Path) -> Result | None:
    """The finished cell, if it is there; one that was computed otherwise is refused."""
    folder = job.result_folder(results)
    if not (folder / RESULT).is_file():
        return None
    document = read_json_object(folder / RESULT, "Remove the folder, and the cell is computed again.")
    if document.get("format") != FORMAT or not isinstance(document.get("description"), dict):
        raise MivError(f"{folder / RESULT} is not a result: its format is not {FORMAT!r}. Move it away.")
    difference = _difference(document["description"], job.description)
    if difference:
        raise MivError(
            f"{folder} was computed otherwise than is asked for now: {difference}. It is neither used nor replaced. "
            "Ask for what it was, move it away, or choose another folder by --results."
        )
    return Result(job, folder, document)


def write_result(job: Job, results: Path, files: Mapping[str, bytes]) -> Path:
    """Put a finished cell in its place, whole or not at all; one that is there already stays as it is."""
    folder = job.result_folder(results)
    if find_result(job, results) is None:
        with whole_folder(folder) as temporary:
            for name, content in files.items():
                (temporary / name).write_bytes(content)
    return folder


def result_document(job: Job, about: dict[str, Any], evaluations: dict[str, Any], machine: dict[str, Any]) -> bytes:
    """``result.json``: what was asked for, what came out, and on what it rests.

    Args:
        job: what was asked for.
        about: the ``run.json`` of the training.
        evaluations: its ``evaluation.json``.
        machine: what it ran on.
    """
    document = {
        "format": FORMAT,
        "version": 1,
        "hash": job.digest,
        "description": job.description,
        "twin": job.tier.is_twin,
        "metrics": evaluations,
        "best": about["best"],
        "seconds": about["seconds"],
        "seed": about["seed"],
        "data": about["data"]["fingerprints"],
        "config": job.settings.document(),
        "versions": about["versions"],
        "machine": machine,
    }
    return (json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n").encode()


def _difference(found: dict[str, Any], wanted: dict[str, Any]) -> str:
    """In what the descriptions differ, in words; empty where they do not."""
    defaults = TrainingConfig().document()
    parts = []
    for name in sorted({*found, *wanted} - {"config", "data"}):
        if found.get(name) != wanted.get(name):
            parts.append(f"{name} was {found.get(name)!r} and is {wanted.get(name)!r}")
    before, now = {**defaults, **found.get("config", {})}, {**defaults, **wanted["config"]}
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            parts.append(f"{name} was {before.get(name)!r} and is {now.get(name)!r}")
    if found.get("data") != wanted["data"]:
        parts.append(f"the data were {found.get('data')} and are {wanted['data']}")
    return "; ".join(parts)
