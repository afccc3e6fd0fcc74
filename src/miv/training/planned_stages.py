"""The stages of a run: which there are, and one after the other."""

import hashlib
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch

from miv.backbones import Backbone
from miv.backbones.cache import embed_pool
from miv.errors import MIVError
from miv.evaluation.runs import RunFolder
from miv.files.atomic import sha256_of, whole_folder
from miv.files.cache import cache_lock, discard, ignoring_cache_errors
from miv.files.json import read_json_object, write_json
from miv.poolings import POOLINGS
from miv.runtime import Progress
from miv.training.checkpoint import BEST, LAST, StageState
from miv.training.config import TrainingConfig
from miv.training.fitting import choose_form, fit_scale
from miv.training.forms import set_form
from miv.training.machine import Machine
from miv.training.stage_module import Sets, SplitFeatures
from miv.training.stages import CONTRAST, FROZEN, Stage, read_state, run_stage
from miv.verifier.network import Verifier

# Share the contrast stage, which does not depend on the pooling, among runs that differ only in pooling.

_HASHES = "sha256.json"  # of the files of a stage in the cache
# Settings that do not affect this stage; all others, including future ones, are part of the key.
_CONTRAST_SINCE = "0.1.0"  # the miv version whose contrast stages are still the same; raise it when one changes
_ELSEWHERE = (
    *("pooling", "pooling_options", "heads", "backbone", "backbone_options", "batch_size", "grouping", "patience"),
    *("learning_rates", "max_epochs", "frozen_stage", "frozen_patience", "frozen_max_epochs", "frozen_learning_rates"),
    *("full_stage", "select_by", "start", "pull", "align_epochs", "align_learning_rate"),
    *("recipe", "recipes", "without"),
)


@contextmanager
def contrast_once(
    folder: Path, cache: Path, config: TrainingConfig, backbone: Backbone, sets: Sets, progress: Progress
) -> Iterator[None]:
    """Copy a finished stage from the cache to ``folder`` before the block, or from there to the cache after it.

    A finished stage replaces an unfinished one in ``folder`` but not a finished one, which later stages depend on.
    """
    kept = cache / "contrast" / _key(config, backbone, sets)
    with cache_lock(kept.with_suffix(".lock"), progress, "the contrast stage"):
        if _is_whole(kept, config) and not _is_over(folder, config):
            with whole_folder(folder) as temporary:
                shutil.copytree(kept, temporary, dirs_exist_ok=True, ignore=shutil.ignore_patterns(_HASHES))
            with progress.step(f"Reusing the contrast stage of an earlier run from {kept}"):
                pass
        yield
        with ignoring_cache_errors(kept.parent):
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


def _key(config: TrainingConfig, backbone: Backbone, sets: Sets) -> str:
    stage = config.for_stage("contrast")
    settings = {name: value for name, value in vars(stage).items() if name not in _ELSEWHERE}
    settings |= {"rates": stage.learning_rates, "epochs": stage.max_epochs, "batch": stage.batch_size}
    data = [sets[split].fingerprint for split in ("train", "validation")]
    made_of = {"settings": settings, "backbone": backbone.fingerprint(), "sets": data}
    made_of["versions"] = [_CONTRAST_SINCE, torch.__version__]
    return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()


VERIFIER_STAGES = (FROZEN, "all")  # the stages that end with a verifier


def stages_of(config: TrainingConfig, verifier: Verifier) -> list[Stage]:
    """The stages that train by gradient descent; a recipe that is fitted at once needs none after ``contrast``."""
    learns = any(True for _ in verifier.backbone.parameters())
    first = [Stage(CONTRAST, 2, False, config.contrast_epochs)] if learns and config.contrast_epochs else []
    if not trains_by_epochs(config):
        return first
    if not learns or not config.full_stage:
        # The best of many epochs is often better than the start by chance alone.
        must_be_clear = verifier.pooling.starts_as_nearest and config.start == "similar" and config.select_by == "auroc"
        return [*first, Stage(FROZEN, 0, True, config.patience, fits_start=True, must_be_clear=must_be_clear)]
    frozen = [Stage(FROZEN, 0, True, config.frozen_patience, fits_start=True)] if config.frozen_stage else []
    return [*first, *frozen, Stage("all", 1, False, config.patience, fits_start=not frozen)]


def trains_by_epochs(config: TrainingConfig) -> bool:
    """Whether weights learn by gradient descent after the start; what a recipe cannot express always does."""
    can_be_fitted = POOLINGS[config.pooling].make.starts_as_nearest and config.start == "similar"
    return config.recipe in ("epochs", "paper") or not can_be_fitted


def run_stages(
    stages: list[Stage],
    verifier: Verifier,
    config: TrainingConfig,
    sets: Sets,
    run: RunFolder,
    machine: Machine,
    progress: Progress,
    *,
    is_new: bool,
) -> dict[str, StageState]:
    """Train the stages in order; a new verifier with the start "similar" starts from the selected recipe."""
    device = verifier.device
    states: dict[str, StageState] = {}
    for stage in stages:
        features = embed_splits(verifier, sets, machine.cache, progress) if stage.frozen else None
        has_begun, fitting = (run.checkpoints(stage.name) / LAST).is_file(), 0.0
        if stage.fits_start and is_new and not has_begun and config.start == "similar":
            known = features or embed_splits(verifier, sets, machine.cache, progress)
            began = time.monotonic()
            if verifier.pooling.starts_as_nearest:
                set_form(verifier.pooling, choose_form(verifier, sets, known, config).form)
            else:
                fit_scale(verifier, sets["train"], known["train"], config.seed)
            fitting = time.monotonic() - began
        shared = contrast_once(run.checkpoints(CONTRAST), machine.cache, config, verifier.backbone, sets, progress)
        with shared if stage.name == CONTRAST else nullcontext():
            states[stage.name] = run_stage(stage, verifier, config, sets, run, machine, states, features, fitting)
        verifier.to(device)  # Lightning leaves it in main memory
    return states


def embed_splits(verifier: Verifier, sets: Sets, cache: Path, progress: Progress) -> SplitFeatures:
    """The features of train and validation."""
    return {
        split: embed_pool(verifier.backbone, sets[split].pool, cache, progress) for split in ("train", "validation")
    }
