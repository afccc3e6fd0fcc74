"""Check that the files of a finished cell are intact and belong to it."""

import hashlib
import math
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from miv.errors import MissingLibrary, MIVError
from miv.evaluation import Predictions, auroc

FORMAT = "miv-result"
RESULT, PREDICTIONS, METRICS = "result.json", "predictions.parquet", "metrics.csv"
REMEDY = "Remove the folder to compute the cell again."

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


def check_document(path: Path, document: Any, remedy: str) -> None:
    """Raise an error for an invalid or incomplete ``result.json``; ``remedy`` ends the message."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise MIVError(f"{path} is not a result: its format is not {FORMAT!r}. {remedy}")
    for way in _NEEDED:
        value: Any = document
        for name in way:
            if not isinstance(value, dict) or name not in value:
                raise MIVError(f"{path} is damaged: it lacks {'.'.join(way)}. {remedy}")
            value = value[name]


def check_files(folder: Path, files: Mapping[str, bytes], document: dict[str, Any], remedy: str) -> None:
    """Raise an error if files next to ``result.json`` are missing, damaged or from another cell."""
    for name in (PREDICTIONS, METRICS):
        if name not in files:
            raise MIVError(f"{folder / name} is missing. {remedy}")
    if "sha256" not in document:  # the cell is older than that
        test = document["metrics"]["test"]
        counts = test["exemplars"], test["positives"]
        area = test["classification"]["auroc"]
        _check_answers(folder / PREDICTIONS, files[PREDICTIONS], *counts, area, remedy)
        return
    for name in (PREDICTIONS, METRICS):
        if hashlib.sha256(files[name]).hexdigest() != document["sha256"].get(name):
            raise MIVError(f"{folder / name} is damaged or belongs to another cell: its SHA-256 differs. {remedy}")


@lru_cache(maxsize=1000)  # a command asks several times for a cell, and this takes longer than a hash
def _check_answers(path: Path, content: bytes, exemplars: int, positives: int, area: float | None, remedy: str) -> None:
    """Without a hash, check that these are the answers that were measured."""
    try:
        answers = Predictions.load(path, content)
    except MissingLibrary:  # then nothing is known about the file
        raise
    except MIVError as error:
        raise MIVError(f"{path} is damaged ({error}) {remedy}") from error
    found = len(answers), int(answers.label.sum())
    if found != (exemplars, positives):
        raise MIVError(
            f"{path} belongs to another cell: it has {found[0]} exemplars, {found[1]} of them positive, but {RESULT} "
            f"says {exemplars} and {positives}. {remedy}"
        )
    measured = auroc(answers.label, answers.logit)
    if area is not None and not math.isclose(measured, area, abs_tol=1e-6):
        raise MIVError(
            f"{path} belongs to another cell: its AUROC is {measured:.6f}, but {RESULT} says {area:.6f}. {remedy}"
        )
