"""Compute one cell: build its data once, train or resume training, and return the files to keep."""

import os
import platform
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock

from miv.data import ExemplarSet, load_splits
from miv.errors import MIVError
from miv.experiments.jobs import Job, JobFolders
from miv.experiments.results import METRICS, PREDICTIONS, RESULT, result_document
from miv.runtime.progress import Progress
from miv.tasks import build_once, task_options
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


def raw_folder(job: Job, given: Path | None) -> Path | None:
    """The folder of the raw files of a job; ``None`` if it needs none."""
    task, _ = job.tier.data(job.cell)
    expected = {option.name: option.default for option in task_options(task)}
    return (given or Path(expected["raw"])) if "raw" in expected else None


def check_raw(missing: Sequence[Job], given: Path | None) -> None:
    """Raise an error if the raw files are missing; they are downloaded only to a named folder."""
    if not missing:
        return
    task, _ = missing[0].tier.data(missing[0].cell)
    raw = raw_folder(missing[0], given)
    downloads = any(option.name == "download" for option in task_options(task))
    if raw is None or raw.is_dir() or (downloads and given is not None):
        return
    fetched = "; missing files are downloaded" if downloads else ""
    raise MIVError(
        f"{len(missing)} cells are missing, and there is no folder {raw} with the raw files of {task} to compute them "
        f"from. Pass that folder with --raw (docs/tasks.md describes it{fetched}), or show the cells that "
        "are finished with --report-only."
    )


def _open_sets(job: Job, places: JobFolders, progress: Progress) -> dict[str, ExemplarSet]:
    task, options = job.tier.data(job.cell)
    raw = raw_folder(job, places.raw)
    built = places.cache / "sets"
    built.mkdir(parents=True, exist_ok=True)
    with FileLock(built / f".{task}.lock"):  # cells side by side share their sets: one builds, the others wait
        folder = build_once(task, {**options, **({} if raw is None else {"raw": raw})}, built, progress)
    return load_splits(folder)


def _machine() -> dict[str, object]:
    import torch

    return {
        "system": platform.system(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "accelerator": "gpu" if torch.cuda.is_available() else "cpu",
    }
