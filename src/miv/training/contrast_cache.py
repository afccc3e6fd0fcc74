"""Share the contrast stage, which does not depend on the pooling, among runs that differ only in pooling."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import torch

from miv.backbones import Backbone
from miv.data import ExemplarSet
from miv.errors import MIVError
from miv.io.cache_folder import discard, going_on_without, one_at_a_time
from miv.io.json_files import read_json_object, write_json
from miv.io.whole_files import sha256_of, whole_folder
from miv.models.verifier import Verifier
from miv.runtime.progress import Progress
from miv.training.config import TrainingConfig
from miv.training.keeper import BEST, LAST
from miv.training.stages import read_state

_HASHES = "sha256.json"  # of the files of a stage in the cache
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
    A process that needs a stage another process is computing prints a message and waits. A damaged stage in the cache
    is computed again.
    """
    kept = cache / "contrast" / _key(config, backbone, sets)
    with one_at_a_time(kept.with_suffix(".lock"), progress, "the contrast stage"):
        if _is_whole(kept, config) and not _is_over(folder, config):
            with whole_folder(folder) as temporary:
                shutil.copytree(kept, temporary, dirs_exist_ok=True, ignore=shutil.ignore_patterns(_HASHES))
            with progress.step(f"Reusing the contrast stage of an earlier run from {kept}"):
                pass
        yield
        with going_on_without(kept.parent):
            if not kept.is_dir():
                with whole_folder(kept) as temporary:
                    shutil.copytree(folder, temporary, dirs_exist_ok=True)
                    write_json(temporary / _HASHES, _hashes(temporary))


def _is_whole(kept: Path, config: TrainingConfig) -> bool:
    """Whether the cache has a finished stage that is as it was written; a damaged one is discarded."""
    try:
        if not kept.is_dir():
            return False
        # Older versions wrote no hashes.
        if (kept / _HASHES).exists() and read_json_object(kept / _HASHES, "") != _hashes(kept):
            raise MIVError("its files do not match their hashes")
        if not _is_over(kept, config):
            raise MIVError("its stage is not finished")
        Verifier.from_pretrained(kept / BEST)
    except (MIVError, OSError) as error:
        discard(kept, error, "The contrast stage is computed again.")
        return False
    return True


def _hashes(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != _HASHES]
    return {path.relative_to(folder).as_posix(): sha256_of(path) for path in files}


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
