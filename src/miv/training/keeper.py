"""Saves the best weights, a checkpoint to resume from and the metrics of a run, and ends finished stages."""

import csv
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.io.whole_files import whole_file
from miv.runtime.processes import ProcessShare
from miv.runtime.stopping import CTRL_C, TERMINATED
from miv.training.lightning_parts import Checkpoint, Trainer
from miv.training.optimisers import check_state
from miv.training.stage_state import StageState

LAST, BEST = "last.ckpt", "best"
SAVED = "; everything is saved"
SAVE_SECONDS = 300.0  # interval between saves within a long epoch


class Keeper(Checkpoint):
    """Saves at the end of each epoch, at intervals within a long one, and on a request to stop.

    Best weights, checkpoint and early stopping are handled here, not in three Lightning callbacks: all
    follow from the state in ``last.ckpt``, which is replaced atomically, so a kill at any moment leaves them in
    agreement.
    """

    def __init__(self, folder: Path, epochs: int, patience: int, metrics: Callable[[StageState], None]) -> None:
        self.folder = folder
        self.epochs = epochs
        self.patience = patience
        self.write_metrics = metrics
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

    def on_train_batch_start(self, trainer: Trainer, module: Any, batch: Any, batch_idx: int) -> None:
        """Save between two steps when due."""
        due = time.monotonic() - self._saved > SAVE_SECONDS and trainer.is_global_zero
        interrupted, terminated, is_due = self._summed(due)
        if interrupted or terminated or is_due:  # all processes agree
            module.settle()
            self._save(trainer)
        if interrupted or terminated:
            raise Stopped(SAVED, TERMINATED if terminated else CTRL_C)

    def on_train_epoch_end(self, trainer: Trainer, module: Any) -> None:
        """Save; Lightning calls this after the module has measured the epoch, as for every ``Checkpoint``."""
        state: StageState = module.state
        if trainer.is_global_zero:
            self.folder.mkdir(parents=True, exist_ok=True)
            if state.best == state.epoch - 1:
                module.verifier.save_pretrained(self.folder / BEST)
        self._save(trainer)
        if trainer.is_global_zero:
            self.write_metrics(state)
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

    Not a ``KeyboardInterrupt``, on which Lightning exits with code 1, and not an ``Exception``, because it may
    be raised anywhere and no library may catch it as its own error.
    """

    def __init__(self, saved: str, exit_code: int) -> None:
        super().__init__(saved)
        self.exit_code = exit_code


def write_metrics(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write the metrics of all epochs as CSV, atomically."""
    with whole_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
