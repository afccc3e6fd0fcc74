"""Saves the best weights, a checkpoint to resume from and the metrics of a run, and ends finished stages."""

import csv
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.errors import needs_extra
from miv.files.atomic import whole_file
from miv.files.json import NUMBER, check_shape
from miv.runtime import CTRL_C, TERMINATED, ProcessShare
from miv.training.optimisers import check_state

__all__ = ["AcceleratorRegistry", "Callback", "Checkpoint", "DDPStrategy", "LightningModule", "Logger"]
__all__ += ["LightningEnvironment", "MisconfigurationException", "TensorBoardLogger", "Trainer", "rank_zero_only"]

EpochMetrics = dict[str, float]

_SAVED = ("history", "step", "loss_sum", "seconds", "start", "start_logit")
# AUROC less a standard error of its difference to the start, which an epoch must exceed to be kept.
CLEAR_AUROC = "validation_clear_auroc"
_METRICS = {"*": NUMBER}
_SHAPE = {"history": [_METRICS], "step": int, "loss_sum": NUMBER, "seconds": NUMBER}
_SHAPE |= {"start?": _METRICS, "start_logit?": [NUMBER]}
START = -1  # stands for the start among the epochs of a stage


@dataclass
class StageState:
    """Progress of a stage."""

    history: list[EpochMetrics] = field(default_factory=list)  # the metrics of each finished epoch
    step: int = 0  # number of finished steps in the current epoch
    loss_sum: float = 0.0  # sum of the exemplar losses in these steps
    seconds: float = 0.0  # time spent so far
    start: EpochMetrics | None = None  # before the first epoch, if the start is a candidate for the best
    start_logit: list[float] | None = None  # (E,) of validation then, if epochs are compared with it per exemplar
    criterion: str = "validation_accuracy"  # selects the best epoch; derived from the settings, so not in a checkpoint
    keeps_last: bool = False  # whether the last epoch is kept because there is nothing to choose by; likewise derived

    @property
    def epoch(self) -> int:
        """The current epoch, counted from 0."""
        return len(self.history)

    @property
    def best(self) -> int | None:
        """The first epoch with the best criterion; ``START`` if none is better than the start."""
        if self.keeps_last:
            return self.epoch - 1 if self.history else None
        rows = {START: self.start} if self.start is not None else {}
        rows |= dict(enumerate(self.history))
        return max(rows, key=lambda epoch: (rows[epoch][self.criterion], -epoch)) if rows else None

    @property
    def best_value(self) -> float:
        """The criterion of the best finished epoch, or of the start."""
        rows = [*self.history, *([] if self.start is None else [self.start])]
        return max((row[self.criterion] for row in rows), default=0.0)

    def is_over(self, max_epochs: int, patience: int) -> bool:
        """Whether the maximum number of epochs or the patience is reached."""
        return self.best is not None and (self.epoch >= max_epochs or self.epoch - 1 - self.best >= patience)

    def document(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _SAVED}

    def restore(self, document: dict[str, Any]) -> None:
        """Restore the state from ``document``; a ``MIVError`` if it is not one."""
        check_shape(document, _SHAPE, "the state of the stage", "")
        # Later, odd values would fail far from the file that holds them.
        history, start = document["history"], document.get("start")
        for row in history if start is None else [*history, start]:
            if not self.keeps_last and self.criterion not in row:
                raise ValueError(f"an epoch lacks its metrics: {str(row)[:60]}")
        if any(row.keys() != history[0].keys() or not row.keys() >= {"learning_rate", "train_loss"} for row in history):
            raise ValueError("the epochs have different metrics")
        for name in _SAVED:
            setattr(self, name, document.get(name))  # older checkpoints have no start


with needs_extra("train", "Training", "Lightning"):
    from lightning.fabric.plugins.environments.lightning import LightningEnvironment
    from lightning.fabric.utilities.exceptions import MisconfigurationException
    from lightning.fabric.utilities.rank_zero import rank_zero_only
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.accelerators import AcceleratorRegistry
    from lightning.pytorch.callbacks import Callback, Checkpoint
    from lightning.pytorch.loggers import Logger, TensorBoardLogger
    from lightning.pytorch.strategies import DDPStrategy

with needs_extra("train", "Training", "TensorBoard"):  # the logger would fail only after the run has begun
    import tensorboard as tensorboard


LAST, BEST = "last.ckpt", "best"
SAVED = "; everything is saved"
SAVE_SECONDS = 300.0  # interval between saves within a long epoch


class CheckpointCallback(Checkpoint):
    """Saves at the end of each epoch, at intervals within a long one, and on a request to stop.

    Best weights and early stopping follow from the state in ``last.ckpt``, which is replaced atomically, so a kill at
    any moment leaves them in agreement.
    """

    def __init__(
        self,
        folder: Path,
        epochs: int,
        patience: int,
        begin: Callable[[StageState], None],
        record: Callable[[StageState], None],
    ) -> None:
        self.folder, self.epochs, self.patience, self.begin, self.record = folder, epochs, patience, begin, record
        self.has_restored = False  # from then on, a failure is not one of the checkpoint
        self._interrupts = 0
        self._terminated = False
        self._saved = time.monotonic()

    def on_train_start(self, trainer: Trainer, module: Any) -> None:
        """Check what was restored, and save the start if it is a candidate for the best epoch."""
        for optimiser in trainer.optimizers:
            check_state(optimiser)  # Lightning restores it unchecked
        self.has_restored = True
        self._listen_for_terminate()  # Lightning has just registered a handler that ends with code 0, without saving
        if module.measure_start() and trainer.is_global_zero:
            module.verifier.save_pretrained(self.folder / BEST)
        self.begin(module.state)

    def on_train_batch_start(self, trainer: Trainer, module: Any, batch: Any, batch_idx: int) -> None:
        due = time.monotonic() - self._saved > SAVE_SECONDS and trainer.is_global_zero
        if self._summed(due).any():  # all processes agree
            module.settle()
            self._save(trainer)
            self.stop_if_asked()

    def on_train_epoch_end(self, trainer: Trainer, module: Any) -> None:
        """Save; Lightning calls this after the module has measured the epoch, as for every ``Checkpoint``."""
        state: StageState = module.state
        if trainer.is_global_zero:
            self.folder.mkdir(parents=True, exist_ok=True)
            if state.best == state.epoch - 1:
                module.verifier.save_pretrained(self.folder / BEST)
        self._save(trainer)
        if trainer.is_global_zero:
            self.record(state)
        trainer.should_stop = state.is_over(self.epochs, self.patience)

    def _save(self, trainer: Trainer) -> None:
        path = self.folder / LAST
        if trainer.is_global_zero:
            with whole_file(path) as temporary:
                trainer.save_checkpoint(temporary)
        else:
            trainer.save_checkpoint(path)  # only the first process writes; the others wait
        self._saved = time.monotonic()

    def stop_if_asked(self) -> None:
        """Stop at a point where everything is saved; a request on one process stops all."""
        interrupted, terminated, _ = self._summed(False)
        if interrupted or terminated:
            raise Stopped(SAVED, TERMINATED if terminated else CTRL_C)

    def _summed(self, due: bool) -> NDArray[np.int64]:
        """How many processes were interrupted and terminated, and for how many a save is due."""
        return ProcessShare.of_this_process().sum(np.array([self._interrupts, self._terminated, due], np.int64))

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Stop after the current step on SIGTERM and on the first Ctrl-C, and immediately on the second Ctrl-C."""
        if threading.current_thread() is not threading.main_thread():  # signals are up to the caller
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            signal.signal(signal.SIGINT, self._interrupt)
            self._listen_for_terminate()
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _listen_for_terminate(self) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._terminate)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self._interrupts += 1
        if self._interrupts > 1:
            raise Stopped("; steps since the last save will be repeated", CTRL_C)

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        self._terminated = True  # a second one changes nothing: `timeout` sends two, and SIGKILL follows anyway


class Stopped(BaseException):
    """Leaves the training loop on a request to stop, and says what was saved.

    Not a ``KeyboardInterrupt``, on which Lightning exits with code 1, nor an ``Exception``, which libraries may catch.
    """

    def __init__(self, saved: str, exit_code: int) -> None:
        super().__init__(saved)
        self.exit_code = exit_code


def write_metrics(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write the metrics of all epochs as CSV, atomically."""
    with whole_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        names = dict.fromkeys(name for row in rows for name in row)  # those of a damaged checkpoint may differ
        writer = csv.DictWriter(file, list(names))
        writer.writeheader()
        writer.writerows(rows)
