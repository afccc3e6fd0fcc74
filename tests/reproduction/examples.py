"""Finished cells whose figures can be checked by eye, made without a training."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from miv.evaluation import Predictions, evaluate
from miv.evaluation.runs import RunFolder
from miv.reproduction.cells import cell_document
from miv.reproduction.grids import Cell, Setup
from miv.reproduction.jobs import Job
from miv.reproduction.results import Result, find_result, write_result


def job_of(model: str = "baseline", number: int = 0, *, tier: str = "cpu", task: str = "qmnist") -> Job:
    return Job(Cell(task, Setup(model, model), number), tier)


def document_of(job: Job, answers: Predictions, work: Path, test: str = "") -> dict[str, Any]:
    """The document of a cell that gave these answers, after a training in ``work`` that was not done."""
    run = RunFolder(job.work_folder(work))
    run.predictions("test").parent.mkdir(parents=True, exist_ok=True)
    answers.save(run.predictions("test"))
    about = {
        "format": "miv-run",
        "version": 1,
        "done": True,
        "best": {"stage": "all", "epoch": 1},
        "seconds": 60.0,
        "seed": job.cell.round,
        "data": {"name": job.cell.task, "fingerprints": {"test": test or f"test of round {job.cell.round}"}},
        "versions": {},
    }
    (run.path / "run.json").write_text(json.dumps(about))
    return cell_document(job, about, evaluate(answers).document(), answers, work)


def finish(job: Job, answers: Predictions, results: Path, test: str = "") -> Result:
    """Put a finished cell among the results; its predictions stay in a work folder beside them."""
    write_result(job, results, document_of(job, answers, results.with_name(f"{results.name}-work"), test))
    result = find_result(job, results)
    assert result is not None
    return result


def answers_of(logit: Sequence[float], label: Sequence[int], found: Sequence[bool] | None = None) -> Predictions:
    """Answers for bags of two; the first is the witness of a positive, with most of the attention if ``found``."""
    attention = None
    if found is not None:
        attention = [share for first in found for share in ((0.9, 0.1) if first else (0.1, 0.9))]
    witness = [place == 0 and value == 1 for value in label for place in range(2)]
    return Predictions(logit, label, range(0, 2 * len(label) + 1, 2), attention, witness)
