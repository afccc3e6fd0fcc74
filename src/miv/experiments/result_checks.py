"""Whether the files of a finished cell are whole, and of that cell."""

import math
from functools import lru_cache
from pathlib import Path
from typing import Any

from miv.errors import MIVError
from miv.evaluation import Predictions, auroc
from miv.io.whole_files import sha256_of

FORMAT = "miv-result"
RESULT, PREDICTIONS, METRICS = "result.json", "predictions.parquet", "metrics.csv"
REMEDY = "Remove the folder, and the cell is computed again."

# All that reports read, each by its way from the top.
_NEEDED: tuple[tuple[str, ...], ...] = (
    ("description", "data", "task"),
    ("description", "data", "options", "round"),
    ("config", "pooling"),
    ("best", "stage"),
    ("best", "epoch"),
    ("seconds",),
    ("data", "test"),
    *(("metrics", "test", name) for name in ("exemplars", "positives", "witnesses", "groups")),
    *(("metrics", "test", "classification", name) for name in ("auroc", "accuracy", "precision", "recall", "f1")),
)


def check_document(path: Path, document: dict[str, Any]) -> None:
    """Refuse a ``result.json`` that is none, or lacks something."""
    if document.get("format") != FORMAT:
        raise MIVError(f"{path} is not a result: its format is not {FORMAT!r}. {REMEDY}")
    for way in _NEEDED:
        value: Any = document
        for name in way:
            if not isinstance(value, dict) or name not in value:
                raise MIVError(f"{path} is damaged: it lacks {'.'.join(way)}. {REMEDY}")
            value = value[name]


def check_files(folder: Path, document: dict[str, Any]) -> None:
    """Refuse files beside ``result.json`` that are missing, damaged or of another cell."""
    for name in (PREDICTIONS, METRICS):
        if not (folder / name).is_file():
            raise MIVError(f"{folder / name} is missing. {REMEDY}")
    if "sha256" not in document:  # the cell is older than that
        test = document["metrics"]["test"]
        counts = test["exemplars"], test["positives"]
        _check_answers(folder / PREDICTIONS, _age(folder / PREDICTIONS), *counts, test["classification"]["auroc"])
        return
    for name in (PREDICTIONS, METRICS):
        if sha256_of(folder / name) != document["sha256"].get(name):
            raise MIVError(f"{folder / name} is damaged, or of another cell: its SHA-256 is another. {REMEDY}")


def _age(path: Path) -> int:
    return path.stat().st_mtime_ns


@lru_cache(maxsize=1000)  # a command asks several times for a cell, and this takes longer than a hash
def _check_answers(path: Path, age: int, exemplars: int, positives: int, area: float | None) -> None:
    """Without a hash: whether these are the answers that were measured."""
    try:
        answers = Predictions.load(path)
    except MIVError as error:
        raise MIVError(f"{path} is damaged ({error}) {REMEDY}") from error
    found = len(answers), int(answers.label.sum())
    if found != (exemplars, positives):
        raise MIVError(
            f"{path} is of another cell: it has {found[0]} exemplars, {found[1]} of them positive, and {RESULT} says "
            f"{exemplars} and {positives}. {REMEDY}"
        )
    measured = auroc(answers.label, answers.logit)
    if area is not None and not math.isclose(measured, area, abs_tol=1e-6):
        raise MIVError(
            f"{path} is of another cell: its AUROC is {measured:.6f}, and {RESULT} says {area:.6f}. {REMEDY}"
        )
