"""Share the contrast stage, which does not depend on the pooling, among runs that differ only in pooling."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import torch
from filelock import FileLock, Timeout

from miv.backbones import Backbone
from miv.data import ExemplarSet
from miv.io.whole_files import whole_folder
from miv.runtime.progress import Progress
from miv.training.config import TrainingConfig
from miv.training.keeper import LAST
from miv.training.stages import read_state

# Settings that do not affect this stage; all others, including future ones, are part of the key.
_CONTRAST_SINCE = "0.1.0"  # the miv version whose contrast stages are still the same; raise it when one changes
_ELSEWHERE = (
    *("pooling", "pooling_options", "heads", "backbone", "backbone_options", "batch_size", "grouping", "patience"),
    *("learning_rates", "max_epochs", "frozen_stage", "frozen_patience", "frozen_max_epochs", "frozen_learning_rates"),
    *("full_stage", "select_by", "start", "pull", "align_epochs", "align_learning_rate"),
)


@contextmanager
def contrast_once(
    folder: Path,
    cache: Path,
    config: TrainingConfig,
    backbone: Backbone,
    sets: dict[str, ExemplarSet],
    progress: Progress,
) -> Iterator[None]:
    """Copy a finished stage from the cache to ``folder`` before the block, or from there to the cache after it.

    A finished stage replaces an unfinished one in ``folder`` but not a finished one, which later stages depend on.
    A process that needs a stage another process is computing prints a message and waits.
    """
    kept = cache / "contrast" / _key(config, backbone, sets)
    kept.parent.mkdir(parents=True, exist_ok=True)
    with _waiting_for(kept.with_suffix(".lock"), progress):
        if kept.is_dir() and not _is_over(folder, config):
            with whole_folder(folder) as temporary:
                shutil.copytree(kept, temporary, dirs_exist_ok=True)
            with progress.step(f"Reusing the contrast stage of an earlier run from {kept}"):
                pass
        yield
        if not kept.is_dir():
            with whole_folder(kept) as temporary:
                shutil.copytree(folder, temporary, dirs_exist_ok=True)


@contextmanager
def _waiting_for(path: Path, progress: Progress) -> Iterator[None]:
    lock = FileLock(path)  # released when the process ends for any reason
    try:
        lock.acquire(timeout=0)
    except Timeout:
        with progress.step(f"Waiting for another process to finish the contrast stage ({path})"):
            lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _is_over(folder: Path, config: TrainingConfig) -> bool:
    state = read_state(folder / LAST, config.for_stage("contrast").criterion, keeps_last=True)
    return state is not None and state.is_over(config.contrast_epochs, config.contrast_epochs)


def _key(config: TrainingConfig, backbone: Backbone, sets: dict[str, ExemplarSet]) -> str:
    stage = config.for_stage("contrast")
    settings = {one.name: getattr(stage, one.name) for one in fields(stage) if one.name not in _ELSEWHERE} | {
        "rates": stage.learning_rates,
        "epochs": stage.max_epochs,
        "batch": stage.batch_size,
    }
    made_of = {
        "settings": settings,
        "backbone": backbone.fingerprint(),
        "sets": [sets[split].fingerprint for split in ("train", "validation")],
        "versions": [_CONTRAST_SINCE, torch.__version__],
    }
    return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()
