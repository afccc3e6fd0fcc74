"""A whole training: its stages one after the other, and what is kept of it."""

import logging
import os
import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.loggers import TensorBoardLogger

from miv.backbones.base import check_kind
from miv.errors import MivError
from miv.evaluation import Evaluation, evaluate
from miv.exemplars import ExemplarSet, InstancePool
from miv.feature_cache import embed_pool
from miv.instance_form import InstanceForm
from miv.json_files import write_json
from miv.poolings.base import POOLINGS
from miv.prediction import predict
from miv.processes import Share
from miv.progress import Progress, SilentProgress
from miv.training.config import TrainingConfig
from miv.training.contrast import ContrastModule
from miv.training.contrast_cache import contrast_once
from miv.training.keeper import BEST, LAST, Keeper, Stopped, write_metrics
from miv.training.module import Features, StageData, StageModule
from miv.training.progress import EpochProgress
from miv.training.run_folder import RunFolder
from miv.training.state import StageState
from miv.verifier import Verifier

CONTRAST = "contrast"
DEFAULT_BACKBONES = {"image": "compact_cnn", "features": "features"}


@dataclass(frozen=True)
class Stage:
    """A part of a training: ``contrast`` trains the backbone, ``frozen`` all else, ``all`` everything."""

    name: str
    number: int
    frozen: bool
    patience: int


@dataclass(frozen=True)
class Machine:
    """What a training runs on; it does not change what is learnt.

    Args:
        devices: processes on this machine.
        nodes: machines.
        accelerator: cpu, gpu, or auto.
        workers: extra processes that prepare batches.
        cache: folder of the feature cache.
        quiet: say nothing of the epochs on standard error.
    """

    cache: Path
    devices: int = 1
    nodes: int = 1
    accelerator: str = "cpu"
    workers: int = 0
    quiet: bool = False


class StoppedByUser(MivError):  # noqa: N818 - nothing went wrong
    """Ctrl-C: all that was done is saved."""


def train(
    sets: dict[str, ExemplarSet],
    config: TrainingConfig,
    out: Path,
    machine: Machine,
    *,
    data: str = "",
    data_options: dict[str, Any] | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> dict[str, Evaluation]:
    """Train on ``train`` and ``validation``, and evaluate the best weights on every other split and ``validation``.

    Args:
        sets: the exemplars by split.
        config: the settings.
        out: the folder of the run; see ``miv.training.run_folder``.
        machine: what to run on.
        data: what the data are called, for the record.
        data_options: what they were built with, where ``data`` is a task.
        resume: go on with the run in ``out``, or begin it if there is none yet.
        progress: is told of embedding.
    """
    for split in ("train", "validation"):
        if split not in sets:
            raise MivError(f"There is no split {split!r}. A training needs train and validation.")
    if config.contrast_epochs and machine.devices * machine.nodes > 1:
        raise MivError(
            f"contrast_epochs is {config.contrast_epochs} with {machine.devices * machine.nodes} processes. That stage "
            "compares all exemplars of a batch, so it needs one process: leave out --devices and --nodes, or the stage."
        )
    config = complete(config, sets["train"].pool)
    run = RunFolder(out)
    if is_first_process():
        run.check(config, sets, data, resume=resume)
    verifier = create_verifier(config, sets["train"].pool)
    for exemplars in sets.values():
        verifier.backbone.check(exemplars.pool)
    if is_first_process() and not run.exists():
        # Only now: settings that make no verifier leave nothing behind.
        run.begin(config, sets, data, data_options or {})
    progress = progress or SilentProgress()
    states: dict[str, StageState] = {}
    best = ""
    if not run.verifier.is_dir():
        for stage in stages_of(config, verifier):
            shared = contrast_once(run.checkpoints(CONTRAST), machine.cache, config, verifier.backbone, sets)
            with shared if stage.name == CONTRAST else nullcontext():
                states[stage.name] = _run_stage(stage, verifier, config, sets, run, machine, states, progress)
            _read_best(run, stage, verifier)
        # A contrast stage makes a backbone, not a verifier. The earlier one of equals.
        best = max((name for name in states if name != CONTRAST), key=lambda name: states[name].best_accuracy)
        verifier = Verifier.from_pretrained(run.checkpoints(best) / BEST)
    else:
        verifier = Verifier.from_pretrained(run.verifier)
    evaluations = {}
    for split in [split for split in sets if split != "train"]:
        # The backbone of the first stage is the one that the cache has, or may have from another training.
        known = embed_pool(verifier.backbone, sets[split].pool, machine.cache, progress) if best == "frozen" else None
        predictions = predict(verifier, sets[split], known, progress)
        evaluations[split] = evaluate(predictions)
        if Share.of_this_process().rank == 0:
            predictions.save(run.predictions(split))
    if Share.of_this_process().rank == 0:
        write_json(run.evaluation, {split: found.document() for split, found in evaluations.items()})
        if states:
            verifier.save_pretrained(run.verifier)
            seconds = sum(state.seconds for state in states.values())
            run.finish(seconds, {"stage": best, "epoch": _best_epoch(states, best)})
    return evaluations


def complete(config: TrainingConfig, pool: InstancePool) -> TrainingConfig:
    """Fill in the backbone where the settings leave it to the data."""
    changes: dict[str, object] = {}
    if config.backbone is None:
        if pool.kind not in DEFAULT_BACKBONES:
            raise MivError(
                f"The instances are of kind {pool.kind!r}. Say which backbone: --backbone hf:<name or folder>."
            )
        changes["backbone"] = DEFAULT_BACKBONES[pool.kind]
    return config.changed(changes)


def create_verifier(config: TrainingConfig, pool: InstancePool) -> Verifier:
    """Make the verifier that is to be trained, its first weights drawn from the seed."""
    torch.manual_seed(config.seed)
    backbone = config.backbone or DEFAULT_BACKBONES[pool.kind]
    has_heads = "heads" in POOLINGS[config.pooling].options
    pooling_options = {**({"heads": config.heads} if has_heads else {}), **config.pooling_options}
    channels = None
    if backbone == "features":
        check_kind(pool, "features")
        channels = int(pool.values.shape[1])
    form = InstanceForm.of(pool)
    instances = None if form is None else form.document()
    return Verifier(config.pooling, backbone, channels, pooling_options, config.backbone_options, instances)


def stages_of(config: TrainingConfig, verifier: Verifier) -> list[Stage]:
    """The stages: where the backbone has nothing to learn, or is not to, the last is as patient as all would be."""
    learns = any(True for _ in verifier.backbone.parameters())
    first = [Stage(CONTRAST, 2, False, config.contrast_epochs)] if learns and config.contrast_epochs else []
    if not learns or not config.full_stage:
        return [*first, Stage("frozen", 0, True, config.patience)]
    frozen = [Stage("frozen", 0, True, config.frozen_patience)] if config.frozen_stage else []
    return [*first, *frozen, Stage("all", 1, False, config.patience)]


def _run_stage(
    stage: Stage,
    verifier: Verifier,
    config: TrainingConfig,
    sets: dict[str, ExemplarSet],
    run: RunFolder,
    machine: Machine,
    before: dict[str, StageState],
    progress: Progress,
) -> StageState:
    features: Features | None = None
    config = config.for_stage(stage.name)
    if stage.frozen:
        verifier.backbone.freeze()
        needed = ("train", "validation")
        features = {split: embed_pool(verifier.backbone, sets[split].pool, machine.cache, progress) for split in needed}
    else:
        verifier.backbone.unfreeze()
    if stage.name == CONTRAST:
        module: StageModule = ContrastModule(verifier, config, stage.number, sets)
    else:
        module = StageModule(verifier, config, stage.number, sets, features)
    last = run.checkpoints(stage.name) / LAST
    if last.is_file():
        module.state.restore(torch.load(last, map_location="cpu", weights_only=True)["stage"])
        if module.state.is_over(config.max_epochs, stage.patience):
            return module.state
    epochs_before = sum(state.epoch for state in before.values())
    best_before = max((one.best_accuracy for name, one in before.items() if name != CONTRAST), default=-1.0)
    lines = EpochProgress(stage.name, epochs_before, best_before)
    logger = TensorBoardLogger(run.path, name="tensorboard", version=stage.name)

    def record(state: StageState) -> None:
        stages = {**before, stage.name: state}
        rows = [(name, row) for name, one in stages.items() for row in one.history]
        write_metrics(run.metrics, [{"stage": name, "epoch": n, **row} for n, (name, row) in enumerate(rows, start=1)])
        logger.log_metrics(state.history[-1], step=epochs_before + state.epoch)
        if not machine.quiet:
            lines.report(module)

    keeper = Keeper(run.checkpoints(stage.name), stage.patience, record)
    trainer = _trainer(machine, [keeper] if machine.quiet else [keeper, lines], logger)
    torch.manual_seed(config.seed)
    try:
        with keeper.listening(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="lightning")  # advice for other ways of training
            trainer.fit(
                module,
                StageData(module, machine.workers),
                ckpt_path=last if last.is_file() else None,
                weights_only=True,
            )
    except Stopped:
        raise StoppedByUser(
            f"Stopped in stage {stage.name!r}, epoch {epochs_before + module.state.epoch + 1}; everything is saved. "
            f"Go on with the same command and --resume."
        ) from None
    trainer.strategy.barrier()
    return module.state


def _trainer(machine: Machine, callbacks: list[Keeper | EpochProgress], logger: TensorBoardLogger) -> Trainer:
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    logging.getLogger("lightning.fabric").setLevel(logging.ERROR)
    several = machine.devices * machine.nodes > 1
    return Trainer(
        accelerator=machine.accelerator,
        devices=machine.devices,
        num_nodes=machine.nodes,
        strategy="ddp" if several else "auto",
        max_epochs=-1,  # the keeper decides
        callbacks=list(callbacks),
        logger=logger,
        limit_val_batches=0,
        use_distributed_sampler=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def _best_epoch(states: dict[str, StageState], stage: str) -> int:
    """The best epoch of a stage, counted from 1 over all stages."""
    names = list(states)
    before = sum(states[name].epoch for name in names[: names.index(stage)])
    return before + (states[stage].best or 0) + 1


def _read_best(run: RunFolder, stage: Stage, verifier: Verifier) -> None:
    best = Verifier.from_pretrained(run.checkpoints(stage.name) / BEST)
    if stage.name == CONTRAST:  # perhaps that of a run with another pooling
        verifier.backbone.load_state_dict(best.backbone.state_dict())
    else:
        verifier.load_state_dict(best.state_dict())


def set_threads(threads: int, processes: int) -> None:
    """Let this process use so many threads; 0 shares the cores among the processes of the machine."""
    if threads or processes > 1:
        torch.set_num_threads(threads or max(1, len(os.sched_getaffinity(0)) // processes))


def is_first_process() -> bool:
    """Whether this process is not one that another started to share its work."""
    return int(os.environ.get("LOCAL_RANK", 0)) == 0 and int(os.environ.get("NODE_RANK", 0)) == 0
