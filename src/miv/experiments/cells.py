"""Compute one cell: build its data once, train or resume training, and return the files to keep."""

import os
import platform

from miv.data import ExemplarSet
from miv.experiments.jobs import Job, JobFolders
from miv.experiments.raw_files import raw_folder
from miv.experiments.results import METRICS, PREDICTIONS, RESULT, result_document
from miv.runtime.progress import Progress
from miv.tasks import build_once
from miv.training.run import Machine, train
from miv.training.run_folder import RunFolder


def compute(job: Job, places: JobFolders, progress: Progress) -> dict[str, bytes]:
    """Train or resume the cell, and return the files of the finished cell by name."""
    sets = _open_sets(job, places, progress)
    run = RunFolder(job.work_folder(places.work))
    if not run.is_done():
        machine = Machine(places.cache / "features", accelerator="auto")
        task = job.description["data"]["task"]
        train(sets, job.settings, run.path, machine, data=task, resume=True, progress=progress)
    files = {PREDICTIONS: run.predictions("test").read_bytes(), METRICS: run.metrics.read_bytes()}
    return {RESULT: result_document(job, run.read(), run.read_evaluation(), _machine(), files), **files}


def _open_sets(job: Job, places: JobFolders, progress: Progress) -> dict[str, ExemplarSet]:
    task, options = job.tier.data(job.cell)
    raw = raw_folder(job, places.raw)
    return build_once(task, {**options, **({} if raw is None else {"raw": raw})}, places.cache / "sets", progress)


def _machine() -> dict[str, object]:
    import torch

    return {
        "system": platform.system(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "accelerator": "gpu" if torch.cuda.is_available() else "cpu",
    }
