"""Run one training stage to its end, resuming where it stopped."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from miv.data import ExemplarSet
from miv.errors import MIVError, StoppedByUser
from miv.models.verifier import Verifier
from miv.runtime.processes import ProcessShare
from miv.training.align import AlignModule
from miv.training.config import TrainingConfig
from miv.training.contrast import ContrastModule
from miv.training.epoch_progress import BY_NEAREST, EpochProgress
from miv.training.keeper import BEST, LAST, Keeper, Stopped, write_metrics
from miv.training.lightning_parts import TensorBoardLogger
from miv.training.machine import Machine
from miv.training.run_folder import RunFolder
from miv.training.stage_data import StageData
from miv.training.stage_module import SplitFeatures, StageModule
from miv.training.stage_state import CLEAR_AUROC, EpochMetrics, StageState

CONTRAST, ALIGN, FROZEN = "contrast", "align", "frozen"


@dataclass(frozen=True)
class Stage:
    """A training stage.

    ``contrast`` trains the backbone, ``align`` a map of its features, ``frozen`` all but the backbone, and ``all``
    everything.

    Args:
        name: name of the stage.
        number: gives each stage its own random numbers.
        frozen: whether the backbone is frozen.
        patience: number of epochs without improvement after which the stage ends.
        take: exact number of epochs, keeping the last; ``None`` chooses the best on ``validation``.
        must_be_clear: whether an epoch must beat the start by a standard error of the AUROC to be kept.
        fits_start: whether scale, intercept and sharpness are first fitted to the train bags.
    """

    name: str
    number: int
    frozen: bool
    patience: int
    take: int | None = None
    fits_start: bool = False
    must_be_clear: bool = False

    def epochs(self, config: TrainingConfig) -> int:
        """Maximum number of epochs for the settings of the stage."""
        return config.max_epochs if self.take is None else self.take

    def criterion(self, config: TrainingConfig) -> str:
        """The metric that selects the best epoch, for the settings of the stage."""
        return CLEAR_AUROC if self.must_be_clear else config.criterion

    @property
    def keeps_last(self) -> bool:
        """Whether the last epoch is kept without choosing."""
        return self.name == CONTRAST or self.take is not None  # contrast has no verdicts to choose by


def run_stage(
    stage: Stage,
    verifier: Verifier,
    config: TrainingConfig,
    sets: dict[str, ExemplarSet],
    run: RunFolder,
    machine: Machine,
    before: dict[str, StageState],
    features: SplitFeatures | None,
    fitting: float,
) -> StageState:
    """Train to the end of the stage, load its best weights into the verifier, and return the final state.

    A finished stage is not run again; ``before`` holds the earlier stages, ``features`` the features of
    a frozen backbone, and ``fitting`` the seconds that the fit of the start took.
    """
    config = config.for_stage(stage.name)
    folder = run.checkpoints(stage.name)
    state = read_state(folder / LAST, stage.criterion(config), keeps_last=stage.keeps_last) or StageState()
    if stage.take == 0 or not state.is_over(stage.epochs(config), stage.patience):
        module = _module(stage, verifier, config, sets, features, machine)
        module.state.seconds = fitting  # a checkpoint replaces it
        state = _keep_start(module, folder) if stage.take == 0 else _go_on(stage, module, run, machine, before)
    if ProcessShare.of_this_process().rank == 0:
        record_metrics(
            run, {**before, stage.name: state}
        )  # the process may have been killed between checkpoint and metrics
    best = Verifier.from_pretrained(folder / BEST)
    if stage.name == CONTRAST:  # may come from a run with another pooling
        verifier.backbone.load_state_dict(best.backbone.state_dict())
    else:
        verifier.load_state_dict(best.state_dict())
    return state


def _go_on(
    stage: Stage, module: StageModule, run: RunFolder, machine: Machine, before: dict[str, StageState]
) -> StageState:
    config = module.config
    module.state.keeps_last = stage.keeps_last
    module.state.criterion = stage.criterion(config)
    epochs_before = sum(state.epoch for state in before.values())
    best_before = max((state.best_value for name, state in before.items() if name not in BY_NEAREST), default=-1.0)
    lines = EpochProgress(stage.name, epochs_before, best_before, "held out" if run.is_pilot else "validation")
    logger = TensorBoardLogger(run.path, name="tensorboard", version=stage.name)

    def record(state: StageState) -> None:
        record_metrics(run, {**before, stage.name: state})
        logger.log_metrics(state.history[-1], step=epochs_before + state.epoch)
        if not machine.quiet:
            lines.report(module)

    keeper = Keeper(run.checkpoints(stage.name), stage.epochs(config), stage.patience, record)
    trainer = machine.trainer([keeper] if machine.quiet else [keeper, lines], logger)
    last = run.checkpoints(stage.name) / LAST
    resumes = last.is_file()
    torch.manual_seed(config.seed)
    try:
        with keeper.listening(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="lightning")  # irrelevant advice
            trainer.fit(
                module,
                StageData(module, machine.workers),
                ckpt_path=last if resumes else None,
                weights_only=True,
            )
            keeper.stop_if_asked()  # after the last epoch no further step checks for a request to stop
    except Stopped as stopped:
        raise StoppedByUser(
            f"Stopped in stage {stage.name!r}, epoch {epochs_before + module.state.epoch + 1}{stopped}. "
            "Resume with the same command and --resume.",
            stopped.exit_code,
        ) from None
    except (MIVError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # Lightning and optimisers raise many types on odd checkpoints
        if not resumes or keeper.has_restored:
            raise
        raise _damaged(last, error) from error
    trainer.strategy.barrier()
    return module.state


def _keep_start(module: StageModule, folder: Path) -> StageState:
    """Save the verifier unchanged: a stage without epochs."""
    module.state.start = module.measure()
    share = ProcessShare.of_this_process()
    if share.rank == 0:
        module.verifier.save_pretrained(folder / BEST)
    share.wait()  # the others load it
    return module.state


def _module(
    stage: Stage,
    verifier: Verifier,
    config: TrainingConfig,
    sets: dict[str, ExemplarSet],
    features: SplitFeatures | None,
    machine: Machine,
) -> StageModule:
    if stage.frozen:
        verifier.backbone.freeze()
        if stage.name == ALIGN and features is not None:
            return AlignModule(verifier, config, stage.number, sets, features)
        return StageModule(verifier, config, stage.number, sets, features)
    verifier.backbone.unfreeze()
    memory = machine.step_memory(verifier.device)
    if stage.name == CONTRAST:
        return ContrastModule(verifier, config, stage.number, sets, None, memory)
    return StageModule(verifier, config, stage.number, sets, None, memory)


def record_metrics(run: RunFolder, states: dict[str, StageState]) -> None:
    """Write the metrics of all epochs, counted from 1 over all stages."""
    rows = [(name, row) for name, state in states.items() for row in state.history]
    numbered = [{"stage": name, "epoch": number, **_shown(row)} for number, (name, row) in enumerate(rows, start=1)]
    # If the start is best, nothing was trained: show the start.
    starts = [
        {"stage": name, "epoch": 0, "learning_rate": "", "train_loss": "", **_shown(state.start)}
        for name, state in states.items()
        if state.start is not None
    ]
    if numbered or starts:
        write_metrics(run.metrics, numbered or starts)


def _shown(row: EpochMetrics) -> EpochMetrics:
    """The metrics of all stages."""
    return {name: value for name, value in row.items() if name != CLEAR_AUROC}


def read_state(path: Path, criterion: str, *, keeps_last: bool = False) -> StageState | None:
    """The state of a stage from its checkpoint; ``None`` if there is no checkpoint yet."""
    if not path.is_file():
        return None
    state = StageState(criterion=criterion, keeps_last=keeps_last)
    try:
        document: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        state.restore(document["stage"])
        state.best_value  # noqa: B018 - a KeyError for metrics of another kind
    except Exception as error:  # torch raises many types on damaged files
        raise _damaged(path, error) from error
    return state


def _damaged(path: Path, error: Exception) -> MIVError:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return MIVError(
        f"{path} is damaged ({reason}), so the run cannot resume. Copy it again, or train again with another --out."
    )
