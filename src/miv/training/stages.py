"""Run one training stage to its end, resuming where it stopped."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from miv.backbones.cache import embed_instances
from miv.bags import Bags
from miv.data import ExemplarSet
from miv.data.batches import Batch, InstanceLookup, embedded, make_batch
from miv.errors import MIVError, StoppedByUser
from miv.evaluation import Predictions
from miv.evaluation.baselines import cosines
from miv.evaluation.runs import RunFolder
from miv.runtime import ProcessShare
from miv.training.checkpoint import (
    BEST,
    CLEAR_AUROC,
    LAST,
    CheckpointCallback,
    EpochMetrics,
    StageState,
    Stopped,
    TensorBoardLogger,
    write_metrics,
)
from miv.training.config import TrainingConfig
from miv.training.machine import Machine
from miv.training.stage_module import Batches, BatchSampler, Part, Sets, SplitFeatures, StageModule, draw_positives
from miv.verifier.network import Verifier


def train_loader(module: StageModule) -> DataLoader[tuple[Batch, float]]:
    """The training batches of a stage, with each distinct instance once."""
    train, backbone, features = module.sets["train"], module.verifier.backbone, module.features
    seed, values = (module.config.seed, module.stage), train.pool.values
    order = BatchSampler(module.state, module.draw_batches, module.steps, seed)
    lookup = (lambda rows: backbone.prepare(values[rows])) if features is None else embedded(features["train"])
    return DataLoader(_Batches(train, lookup), None, sampler=order)


@dataclass(frozen=True, eq=False)
class _Batches(Dataset[tuple[Batch, float]]):
    exemplars: ExemplarSet
    lookup: InstanceLookup

    def __getitem__(self, part: Part) -> tuple[Batch, float]:
        chosen, factor = part
        return make_batch(self.exemplars, chosen, self.lookup), factor


TEMPERATURE = 0.1  # of the contrast loss


def contrast_losses(batch: Batch, temperature: float = TEMPERATURE) -> Tensor:
    r"""How well each query ``(B,)`` finds its own bag among all targets of the batch (MIL-NCE, Miech et al. 2020).

    .. math:: \ell_b = -\log \frac{\sum_{n \in b} \exp\{\cos(q_b, t_n) / \tau\}}{\sum_n \exp\{\cos(q_b, t_n) / \tau\}}

    All exemplars of the batch are positive. A target in several bags counts once. Several references of a query ask
    with their mean direction.
    """
    directions = functional.normalize(batch.instances, dim=1)  # (U, C)
    query, _ = batch.with_instances(directions).queries_and_bags()
    if isinstance(query, Bags):  # several references ask with their mean direction
        query = functional.normalize(query.mean(query.values), dim=1)
    similarity = query @ directions.T / temperature  # (B, U)
    owner = torch.repeat_interleave(torch.arange(len(batch), device=batch.ptr.device), batch.ptr.diff())  # (T,)
    own = torch.zeros_like(similarity, dtype=torch.bool).index_put((owner, batch.bag), torch.tensor(True))  # (B, U)
    in_no_bag = ~own.any(dim=0)  # (U,), queries
    nothing = torch.finfo(similarity.dtype).min  # not -inf: a row of -inf has NaN gradients
    among_all = similarity.masked_fill(in_no_bag, nothing).logsumexp(dim=1)
    return among_all - similarity.masked_fill(~own, nothing).logsumexp(dim=1)


class ContrastModule(StageModule):
    """Steps over batches of positive exemplars of one group, so that the group does not identify a bag.

    A query is compared with all bags of its batch, so processes cannot divide a batch.
    """

    def count_drawn(self) -> tuple[int, int]:
        batches = self.draw_batches(np.random.default_rng(0))
        return sum(len(batch) for batch in batches), len(batches)

    def draw_batches(self, random: Generator) -> Batches:
        return draw_positives(self.sets["train"], self.config.batch_size, random)

    def losses(self, batch: Batch) -> Tensor:
        return contrast_losses(batch)

    def answer(self, exemplars: ExemplarSet) -> Predictions:
        """Predict by the target nearest to the query: yes for the half of the bags with the nearest targets."""
        nearest = cosines(exemplars, embed_instances(self.verifier.backbone, exemplars.pool, exemplars.used)).nearest
        return Predictions.of(exemplars, (nearest - np.median(nearest)) / TEMPERATURE, None)


CONTRAST, FROZEN = "contrast", "frozen"
WORDS = {
    CONTRAST: "train the backbone to find the bag of a query among others; figures are those of the nearest target",
    FROZEN: "train the head; the backbone stays as it is",
    "all": "train the backbone and the head together",
}


@dataclass(frozen=True)
class Stage:
    """``contrast`` trains the backbone, ``frozen`` all but the backbone, and ``all`` everything."""

    name: str  # name of the stage
    number: int  # gives each stage its own random numbers
    frozen: bool  # whether the backbone is frozen
    patience: int  # number of epochs without improvement after which the stage ends
    fits_start: bool = False  # whether a recipe is first fitted to the train bags
    must_be_clear: bool = False  # whether an epoch must beat the start by a standard error of the AUROC to be kept

    @property
    def keeps_last(self) -> bool:
        """Whether the last epoch is kept: ``contrast`` has no verdicts to choose by."""
        return self.name == CONTRAST

    def new_state(self, config: TrainingConfig) -> StageState:
        """The state before the first epoch."""
        criterion = CLEAR_AUROC if self.must_be_clear else config.criterion
        return StageState(criterion=criterion, keeps_last=self.keeps_last)


class EpochLines:
    """One line per epoch on standard error, counted over the whole run; ``*`` marks the best so far."""

    def __init__(self, stage: Stage, before: dict[str, StageState], say: Callable[[str], None]) -> None:
        self.stage, self._say, self._began = stage, say, time.monotonic()
        self._epochs_before = sum(state.epoch for state in before.values())
        self._best_before = max((state.best_value for name, state in before.items() if name != CONTRAST), default=-1.0)
        star = "" if stage.keeps_last else " * marks the best so far."
        self._say(f"Stage {stage.name}: {WORDS[stage.name]}.{star}")

    def begin(self, state: StageState) -> None:
        """Print the metrics of the start, if they were measured."""
        self._began = time.monotonic()
        if state.start is not None and not state.epoch and not state.step:
            is_best = state.start[state.criterion] > self._best_before
            self._say(f"{self.stage.name:<6} start      {self._figures(state.start)}{' *' if is_best else ''}")

    def report(self, state: StageState) -> None:
        """Print the last epoch."""
        row, seconds, self._began = state.history[-1], time.monotonic() - self._began, time.monotonic()
        is_best = not self.stage.keeps_last and state.best == state.epoch - 1
        is_best = is_best and row[state.criterion] > self._best_before
        self._say(
            f"{self.stage.name:<6} epoch {self._epochs_before + state.epoch:>3}  loss {row['train_loss']:.4f}  "
            f"{self._figures(row)}  {seconds:5.1f} s{' *' if is_best else ''}"
        )

    def _figures(self, row: EpochMetrics) -> str:
        loss, accuracy, auroc = (row[f"validation_{name}"] for name in ("loss", "accuracy", "auroc"))
        of = "nearest loss" if self.stage.keeps_last else "loss"  # there is no head yet
        return f"validation {of} {loss:.4f}  accuracy {accuracy:.4f}  AUROC {auroc:.4f}"


def run_stage(
    stage: Stage,
    verifier: Verifier,
    config: TrainingConfig,
    sets: Sets,
    run: RunFolder,
    machine: Machine,
    before: dict[str, StageState],
    features: SplitFeatures | None,
    fitting: float,
) -> StageState:
    """Train to the end of the stage, unless it is finished, and load its best weights into the verifier.

    ``before`` holds the earlier stages, ``features`` those of a frozen backbone, ``fitting`` the seconds of the fit.
    """
    config = config.for_stage(stage.name)
    folder = run.checkpoints(stage.name)
    state = stage.new_state(config)
    read_state(folder / LAST, state)
    if not state.is_over(config.max_epochs, stage.patience):
        make = ContrastModule if stage.name == CONTRAST else StageModule
        if stage.frozen:
            verifier.backbone.freeze()
        else:
            verifier.backbone.unfreeze()
        state = stage.new_state(config)
        state.seconds = fitting  # a checkpoint replaces it
        known = features if stage.frozen else None
        module = make(verifier, config, stage.number, sets, known, machine.step_memory(verifier.device), state)
        state = _go_on(stage, module, run, machine, before)
    if ProcessShare.of_this_process().rank == 0:
        # The process may have been killed between checkpoint and metrics.
        record_metrics(run, {**before, stage.name: state})
    verifier.load_state_dict(Verifier.from_pretrained(folder / BEST).state_dict())
    return state


def _go_on(
    stage: Stage, module: StageModule, run: RunFolder, machine: Machine, before: dict[str, StageState]
) -> StageState:
    config = module.config
    epochs_before = sum(state.epoch for state in before.values())
    lines = EpochLines(stage, before, machine.say)
    logger = TensorBoardLogger(run.path, name="tensorboard", version=stage.name)

    def record(state: StageState) -> None:
        record_metrics(run, {**before, stage.name: state})
        logger.log_metrics(state.history[-1], step=epochs_before + state.epoch)
        lines.report(state)

    folder = run.checkpoints(stage.name)
    checkpoints = CheckpointCallback(folder, config.max_epochs, stage.patience, lines.begin, record)
    trainer = machine.trainer([checkpoints], logger)
    last = folder / LAST
    resumes = last.is_file()
    torch.manual_seed(config.seed)
    try:
        with checkpoints.listening(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="lightning")  # irrelevant advice
            trainer.fit(module, train_loader(module), ckpt_path=last if resumes else None, weights_only=True)
            checkpoints.stop_if_asked()  # after the last epoch no further step checks for a request to stop
    except Stopped as stopped:
        place = f"stage {stage.name!r}, epoch {epochs_before + module.state.epoch + 1}{stopped}"
        words = f"Stopped in {place}. Resume with the same command and --resume."
        raise StoppedByUser(words, stopped.exit_code) from None
    except (MIVError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # Lightning and optimisers raise many types on odd checkpoints
        if not resumes or checkpoints.has_restored:
            raise
        raise _damaged(last, error) from error
    trainer.strategy.barrier()
    return module.state


def record_metrics(run: RunFolder, states: dict[str, StageState]) -> None:
    """Write the metrics of all epochs, counted from 1 over all stages; those of the start if nothing was trained."""
    rows: list[dict[str, Any]] = [{"stage": name, **row} for name, state in states.items() for row in state.history]
    first = 1 if rows else 0
    before = {"learning_rate": "", "train_loss": ""}
    rows = rows or [{"stage": name, **before, **one.start} for name, one in states.items() if one.start is not None]
    for number, row in enumerate(rows, first):
        row.pop(CLEAR_AUROC, None)
        rows[number - first] = {"stage": row.pop("stage"), "epoch": number, **row}
    if rows:
        write_metrics(run.metrics, rows)


def read_state(path: Path, state: StageState) -> None:
    """Restore the state of a stage from its checkpoint, if there is one."""
    if not path.is_file():
        return
    try:
        document: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        state.restore(document["stage"])
        state.best_value  # noqa: B018 - a KeyError for metrics of another kind
    except Exception as error:  # torch raises many types on damaged files
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> MIVError:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return MIVError(
        f"{path} is damaged ({reason}), so the run cannot resume. Copy it again, or train again with another --out."
    )
