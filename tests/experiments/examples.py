"""Finished cells whose figures can be checked by eye, made without a training."""

from collections.abc import Sequence
from pathlib import Path

from miv.evaluation import Predictions, evaluate
from miv.experiments.grids import Cell, Setup
from miv.experiments.jobs import Job
from miv.experiments.results import METRICS, PREDICTIONS, RESULT, Result, find_result, result_document, write_result

CURVE = b"stage,epoch,validation_auroc\nfrozen,1,0.5\nall,2,0.6\n"


def job_of(model: str = "baseline", number: int = 0, *, tier: str = "cpu", task: str = "qmnist") -> Job:
    return Job(Cell(task, Setup(model, model), number), tier)


def files_of(job: Job, answers: Predictions, folder: Path, test: str = "") -> dict[str, bytes]:
    """The files of a finished cell that gave these answers."""
    path = folder / "answers.parquet"
    answers.save(path)
    about = {
        "best": {"stage": "all", "epoch": 1},
        "seconds": 60.0,
        "seed": job.cell.round,
        "data": {"fingerprints": {"test": test or f"test of round {job.cell.round}"}},
        "versions": {},
    }
    measured = evaluate(answers).document()
    files = {PREDICTIONS: path.read_bytes(), METRICS: CURVE}
    return {RESULT: result_document(job, about, {"validation": measured, "test": measured}, {}, files), **files}


def finish(job: Job, answers: Predictions, results: Path, test: str = "") -> Result:
    """Put a finished cell among the results."""
    results.mkdir(parents=True, exist_ok=True)
    write_result(job, results, files_of(job, answers, results, test))
    found = find_result(job, results)
    assert found is not None
    return found


def answers_of(logit: Sequence[float], label: Sequence[int], found: Sequence[bool] | None = None) -> Predictions:
    """Answers for bags of two, the first of which is the witness of a positive.

    Args:
        logit: of each exemplar.
        label: of each exemplar.
        found: whether most of the attention is on the first; its i-AUROC is then 1, else 0.
    """
    attention = None
    if found is not None:
        attention = [share for one in found for share in ((0.9, 0.1) if one else (0.1, 0.9))]
    witness = [place == 0 and one == 1 for one in label for place in range(2)]
    return Predictions(logit, label, range(0, 2 * len(label) + 1, 2), attention, witness)
