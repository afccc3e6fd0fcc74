"""A complete training run: its stages in order, and the files it saves."""

import sys
from contextlib import ExitStack, nullcontext
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from miv.backbones.backbone_base import check_kind
from miv.backbones.cut_texts import warn_of_cut_texts
from miv.backbones.feature_cache import embed_pool
from miv.backbones.features import Features
from miv.data import ExemplarSet, InstancePool
from miv.data.instance_form import InstanceForm
from miv.errors import MIVError, StoppedByUser
from miv.evaluation import Evaluation, evaluate
from miv.inference.prediction import predict
from miv.io.json_files import write_json
from miv.io.whole_files import whole_folder
from miv.models.verifier import Verifier
from miv.poolings.pooling_base import POOLINGS
from miv.poolings.similar import AlignedNorm
from miv.runtime.processes import ProcessShare
from miv.runtime.progress import Progress, SilentProgress
from miv.training.config import TrainingConfig
from miv.training.contrast_cache import contrast_once
from miv.training.earlier_verifier import EarlierVerifier
from miv.training.fine_tuning import settle_backbone_rate
from miv.training.fits import fit_all
from miv.training.keeper import BEST, LAST
from miv.training.machine import Machine, is_first_process, set_threads
from miv.training.pilot import ENOUGH, can_divide, halves
from miv.training.precision import settle_precision
from miv.training.reference_fit import fit_reference_rule
from miv.training.run_folder import RunFolder
from miv.training.run_lock import locked, refuse_if_locked
from miv.training.stage_module import SplitFeatures
from miv.training.stage_state import START, StageState
from miv.training.stages import ALIGN, CONTRAST, FROZEN, Stage, run_stage
from miv.training.text_choice import check_pooling
from miv.training.token_share import told_share
from miv.training.token_start import start_tokens
from miv.training.warnings_of_runs import warn_of_run

__all__ = ["Machine", "StoppedByUser", "complete", "create_verifier", "is_first_process", "set_threads", "train"]

_HEADS = (FROZEN, "all")  # the stages that end with a verifier
DEFAULT_BACKBONES = {"image": "compact_cnn", "features": "features"}


def train(
    sets: dict[str, ExemplarSet],
    config: TrainingConfig,
    out: Path,
    machine: Machine,
    *,
    data: str = "",
    data_options: dict[str, Any] | None = None,
    start_from: str | Path | EarlierVerifier | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    held: ExitStack | None = None,
) -> dict[str, Evaluation]:
    """Train on ``train`` and ``validation``, and evaluate the best weights on every other split and ``validation``.

    Args:
        sets: the exemplars by split.
        config: the settings.
        out: the folder of the run; see ``miv.training.run_folder``.
        machine: what to run on.
        data: name of the data, for the record.
        data_options: options the data were built with, if ``data`` is a task.
        start_from: verifier to start from: a run, a verifier folder, a name on the hub, or one that ships with the
            package such as ``miv/digits``. Pooling, backbone and their options then come
            from this verifier. By default weights are random, or those of a pretrained backbone.
        resume: resume the run in ``out``, or start it if there is none.
        progress: receives the progress of embedding.
        held: keeps the lock on the folder of the run; by default the lock ends with this call.
    """
    with ExitStack() as until_return:
        lock, progress = held or until_return, progress or SilentProgress()
        return _train(sets, config, out, machine, lock, data, data_options or {}, start_from, resume, progress)


def _train(
    sets: dict[str, ExemplarSet],
    config: TrainingConfig,
    out: Path,
    machine: Machine,
    held: ExitStack,
    data: str,
    data_options: dict[str, Any],
    start_from: str | Path | EarlierVerifier | None,
    resume: bool,
    progress: Progress,
) -> dict[str, Evaluation]:
    """Train; the lock on the folder of the run is entered into ``held``."""
    for split in ("train", "validation"):
        if split not in sets:
            raise MIVError(f"The split {split!r} is missing. Training needs train and validation.")
        label = sets[split].label
        # If validation is small, a trial on halves of train chooses the epochs instead.
        chooses = split == "train" or len(label) >= ENOUGH
        if config.start == "similar" and chooses and label.min() == label.max():
            raise MIVError(
                f"All {len(label):,} exemplars of {split} have the label {int(label[0])}. Training needs bags that "
                "contain something of the query's class, and bags that do not."
            )
    for name in ("contrast_epochs", "align_epochs"):
        if getattr(config, name) and machine.processes > 1:
            raise MIVError(
                f"{name} is {getattr(config, name)} with {machine.processes} processes. That stage compares all "
                f"exemplars of a batch, so it needs one process: remove --devices and --nodes, or set {name} to 0."
            )
    device = machine.find_device()
    start = EarlierVerifier.read(start_from) if isinstance(start_from, str | Path) else start_from
    config = complete(config if start is None else start.adopted(config), sets["train"].pool)
    config = settle_backbone_rate(config, is_trained=start is not None)
    config = settle_precision(config, device, quiet=machine.quiet or not is_first_process())
    started = None if start is None else start.document()
    run = RunFolder(out)
    if is_first_process():
        refuse_if_locked(run.path)
        run.check(config, sets, data, started, resume=resume)
    verifier = (create_verifier(config, sets["train"].pool) if start is None else start.copy()).to(device)
    if start is None and isinstance(verifier.backbone, Features) and verifier.backbone.standardise:
        verifier.backbone.fit(sets["train"].pool.values[sets["train"].used])
    verifier.backbone.train_only_last(config.trainable_layers)
    for exemplars in sets.values():
        (verifier.backbone if start is None else start).check(exemplars.pool)
    if is_first_process():  # features may come from the cache, and a stage that embeds in batches does not report them
        warn_of_cut_texts(verifier.backbone, [exemplars.pool for exemplars in sets.values()])
    if is_first_process():  # not earlier: invalid settings must leave no files behind
        held.enter_context(locked(run.path))
        run.check(config, sets, data, started, resume=resume)  # another process may have begun in the meantime
        run.begin_or_go_on(config, sets, data, data_options, started)
    if run.is_done():
        cache = machine.cache if (run.read().get("best") or {}).get("stage") == FROZEN else None
        return _evaluate(Verifier.from_pretrained(run.verifier).to(device), sets, run, progress, cache)
    states = _run_stages(
        _planned(config, verifier, sets, run, machine, progress), verifier, config, sets, run, machine, progress
    )
    # Ties go to the earlier stage. Stages before these make features, not a verifier.
    best = max((name for name in states if name in _HEADS), key=lambda name: states[name].best_value)
    verifier = Verifier.from_pretrained(run.checkpoints(best) / BEST).to(device)
    # The cache may already have the features of the first stage's backbone, from another run.
    cache = machine.cache if best == FROZEN else None
    _fit_references(verifier, sets, cache, progress)
    evaluations = _evaluate(verifier, sets, run, progress, cache)
    if ProcessShare.of_this_process().rank == 0:
        with whole_folder(run.verifier) as temporary:
            verifier.save_pretrained(temporary)
        seconds = {name: state.seconds for name, state in states.items()}
        run.finish(seconds, {"stage": best, "epoch": _best_epoch(states, best)})
        of_heads = {name: state for name, state in states.items() if name in _HEADS}
        warn_of_run(of_heads, evaluations["validation"], sets["validation"])
    return evaluations


def _run_stages(
    stages: list[Stage],
    verifier: Verifier,
    config: TrainingConfig,
    sets: dict[str, ExemplarSet],
    run: RunFolder,
    machine: Machine,
    progress: Progress,
    known: SplitFeatures | None = None,
) -> dict[str, StageState]:
    """Train the stages in order; ``known`` are the features of a frozen backbone, otherwise computed here."""
    device = verifier.device
    states: dict[str, StageState] = {}
    for stage in stages:
        features = known or (_embed(verifier, sets, machine.cache, progress) if stage.frozen else None)
        has_begun = (run.checkpoints(stage.name) / LAST).is_file()
        if stage.fits_start and not has_begun and isinstance(verifier.pooling.norm, AlignedNorm):
            fitted = features or _embed(verifier, sets, machine.cache, progress)
            only_scale = _only_scale(verifier, states)
            share = fit_all(verifier, sets, fitted, config.seed, only_scale=only_scale, with_head=stage.name in _HEADS)
            if share is not None and is_first_process() and not machine.quiet and not run.is_pilot:
                print(told_share(share), file=sys.stderr, flush=True)
        shared = contrast_once(run.checkpoints(CONTRAST), machine.cache, config, verifier.backbone, sets, progress)
        with shared if stage.name == CONTRAST else nullcontext():
            states[stage.name] = run_stage(stage, verifier, config, sets, run, machine, states, features)
        verifier.to(device)  # Lightning leaves it in main memory
    return states


def _only_scale(verifier: Verifier, states: dict[str, StageState]) -> bool:
    """Whether the rest of the start is already fitted or needs no fit: `nearest` is the plain cosine."""
    return ALIGN in states or not verifier.pooling.learns


def _planned(
    config: TrainingConfig,
    verifier: Verifier,
    sets: dict[str, ExemplarSet],
    run: RunFolder,
    machine: Machine,
    progress: Progress,
) -> list[Stage]:
    """The stages; if validation is too small to choose epochs, a trial on halves of train chooses them."""
    stages = stages_of(config, verifier)
    nothing_held_out = sets["validation"] is sets["train"]
    # After a contrast stage, which has seen all of train, no half is unseen.
    if config.start == "paper" or not all(stage.frozen for stage in stages):
        return stages
    # Without unseen data to choose by, keep the start.
    without_trial = [replace(stage, take=0) for stage in stages] if nothing_held_out else stages
    few = nothing_held_out or len(sets["validation"]) < ENOUGH
    if not few or not can_divide(sets["train"]):
        return without_trial
    is_told = is_first_process() and not machine.quiet
    if is_told:
        why = "Nothing is held out" if nothing_held_out else f"Validation has only {len(sets['validation'])} exemplars"
        print(f"{why}. Choosing the number of epochs in a trial on halves of train.", file=sys.stderr, flush=True)
    features = _embed(verifier, sets, machine.cache, progress)
    divided, known = halves(sets, features, config.seed)
    if any(half.label.min() == half.label.max() for half in divided.values()):
        return without_trial  # too few for a trial
    trial = deepcopy(verifier)
    doubtful = [
        replace(stage, must_be_clear=True) for stage in stages
    ]  # half of train is held out, and the best of many
    states = _run_stages(doubtful, trial, config, divided, run.pilot, machine, progress, known)
    planned = [replace(stage, take=(states[stage.name].best or 0) + 1) for stage in stages]
    if is_told:
        chosen = ", ".join(f"{stage.take} of {stage.name}" for stage in planned)
        then = "Training on all of train."
        if not any(stage.take for stage in planned):
            then = "None was better than the start, so the start fitted on all of train is kept."
        print(f"Epochs chosen by the trial: {chosen}. {then}", file=sys.stderr, flush=True)
    return planned


def _embed(verifier: Verifier, sets: dict[str, ExemplarSet], cache: Path, progress: Progress) -> SplitFeatures:
    return {
        split: embed_pool(verifier.backbone, sets[split].pool, cache, progress) for split in ("train", "validation")
    }


def _fit_references(verifier: Verifier, sets: dict[str, ExemplarSet], cache: Path | None, progress: Progress) -> None:
    """Fit the rule for several references, on validation, or on train if validation has single queries only."""
    exemplars = sets["validation"] if sets["validation"].has_references else sets["train"]
    if exemplars.has_references:
        known = None if cache is None else embed_pool(verifier.backbone, exemplars.pool, cache, progress)
        fit_reference_rule(verifier, exemplars, known, progress)


def _evaluate(
    verifier: Verifier, sets: dict[str, ExemplarSet], run: RunFolder, progress: Progress, cache: Path | None = None
) -> dict[str, Evaluation]:
    """Predict every split but ``train``, and save predictions and metrics; with a cache, reuse its features."""
    evaluations = {}
    for split in [split for split in sets if split != "train"]:
        known = None if cache is None else embed_pool(verifier.backbone, sets[split].pool, cache, progress)
        predictions = predict(verifier, sets[split], known, progress)
        evaluations[split] = evaluate(predictions)
        if ProcessShare.of_this_process().rank == 0:
            predictions.save(run.predictions(split))
    if ProcessShare.of_this_process().rank == 0:
        write_json(run.evaluation, {split: found.document() for split, found in evaluations.items()})
    return evaluations


def complete(config: TrainingConfig, pool: InstancePool) -> TrainingConfig:
    """Choose the backbone for the data if the settings do not name one."""
    return config.changed({"backbone": _backbone(config, pool)})


def create_verifier(config: TrainingConfig, pool: InstancePool) -> Verifier:
    """Create the verifier to train, with weights initialised from the seed."""
    torch.manual_seed(config.seed)
    backbone = _backbone(config, pool)
    check_pooling(backbone, config.pooling)
    has_heads = "heads" in POOLINGS[config.pooling].options
    pooling_options = {**({"heads": config.heads} if has_heads else {}), **config.pooling_options}
    channels = None
    if backbone == "features":
        check_kind(pool, "features")
        channels = int(pool.values.shape[1])
    form = InstanceForm.of(pool)
    instances = None if form is None else form.document()
    verifier = Verifier(
        config.pooling,
        backbone,
        channels,
        pooling_options,
        config.backbone_options,
        instances,
        config.start,
        query_backbone=config.query_backbone,
    )
    start_tokens(verifier)
    return verifier


def _backbone(config: TrainingConfig, pool: InstancePool) -> str:
    if config.backbone is not None:
        return config.backbone
    if pool.kind not in DEFAULT_BACKBONES:
        raise MIVError(f"Instances of kind {pool.kind!r} need a backbone. Add --backbone hf:<name or folder>.")
    return DEFAULT_BACKBONES[pool.kind]


def stages_of(config: TrainingConfig, verifier: Verifier) -> list[Stage]:
    """The stages; if the backbone is not trained, the last stage uses the patience of the full stage."""
    learns = any(True for _ in verifier.backbone.parameters())
    first = [Stage(CONTRAST, 2, False, config.contrast_epochs)] if learns and config.contrast_epochs else []
    if config.align_epochs and not first and verifier.pooling.learns:
        # Small gains of a map cost witnesses, because their ranks get worse before the verdicts do.
        first = [Stage(ALIGN, 3, True, config.align_epochs, fits_start=True, must_be_clear=True)]
    take = None if verifier.pooling.learns else 0
    if not learns or not config.full_stage:
        return [*first, Stage(FROZEN, 0, True, config.patience, take, fits_start=True)]
    frozen = [Stage(FROZEN, 0, True, config.frozen_patience, take, fits_start=True)] if config.frozen_stage else []
    return [*first, *frozen, Stage("all", 1, False, config.patience, fits_start=not frozen)]


def _best_epoch(states: dict[str, StageState], stage: str) -> int:
    """The best epoch of a stage, counted from 1 over all stages; 0 is the start of the stage."""
    names = list(states)
    before = sum(states[name].epoch for name in names[: names.index(stage)])
    best = states[stage].best
    return 0 if best is None or best == START else before + best + 1
