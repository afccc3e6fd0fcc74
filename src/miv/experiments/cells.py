"""Computes one cell: builds its data once, trains or goes on training, and hands over what is worth keeping."""

import os
import platform
from pathlib import Path

from filelock import FileLock

from miv.errors import MivError
from miv.exemplars import ExemplarSet, load_splits
from miv.experiments.jobs import Job, Places
from miv.experiments.results import METRICS, PREDICTIONS, RESULT, result_document
from miv.experiments.tiers import resolve_backbone
from miv.progress import Progress
from miv.tasks import build_once, task_options
from miv.training.run import Machine, train
from miv.training.run_folder import RunFolder


def compute(job: Job, places: Places, progress: Progress) -> dict[str, bytes]:
    """Train the cell, or go on with it, and return the files of the finished cell by name."""
    sets = _open_sets(job, places, progress)
    config = job.settings
    if config.backbone is not None:
        config = config.changed({"backbone": resolve_backbone(config.backbone)})
    run = RunFolder(job.work_folder(places.work))
    if not (run.exists() and run.read()["done"]):
        machine = Machine(places.cache / "features", accelerator="auto")
        train(sets, config, run.path, machine, data=job.description["data"]["task"], resume=True, progress=progress)
    return {
        RESULT: result_document(job, run.read(), run.read_evaluation(), _machine()),
        PREDICTIONS: run.predictions("test").read_bytes(),
        METRICS: run.metrics.read_bytes(),
    }


def raw_folder(job: Job, given: Path | None) -> Path | None:
    """Where the raw files of a job are expected; ``None`` where it needs none."""
    task, _ = job.tier.data(job.cell)
    expected = {option.name: option.default for option in task_options(task)}
    return (given or Path(expected["raw"])) if "raw" in expected else None


def check_raw(job: Job, given: Path | None) -> None:
    """Refuse to begin where the raw files are missing and no task can download them."""
    raw = raw_folder(job, given)
    task, _ = job.tier.data(job.cell)
    downloads = any(option.name == "download" for option in task_options(task))
    if raw is not None and not raw.is_dir() and not downloads:
        raise MivError(
            f"There is no folder {raw}, where the raw files of {task} are expected; docs/tasks.md says which. "
            "Name another by --raw, or show what is computed already by --report-only."
        )


def _open_sets(job: Job, places: Places, progress: Progress) -> dict[str, ExemplarSet]:
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
