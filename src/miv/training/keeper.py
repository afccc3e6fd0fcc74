"""Keeps a run: its best weights, a checkpoint to go on from, its metrics; and ends a stage when it is over."""

import csv
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from miv.io.whole_files import whole_file
from miv.runtime.processes import ProcessShare
from miv.training.lightning_parts import Checkpoint, Trainer
from miv.training.stage_state import StageState

LAST, BEST = "last.ckpt", "best"
SAVED = "; everything is saved"
SAVE_SECONDS = 300.0  # a long epoch is saved on the way at this interval


class Keeper(Checkpoint):
    """Saves at the end of each epoch, now and then within a long one, and when asked to stop.

    Best weights, checkpoint and the decision to stop are one thing here, not three callbacks of Lightning: all
    follow from the state in ``last.ckpt``, which is replaced in one step, so a kill at any moment leaves them in
    agreement.
    """

    def __init__(self, folder: Path, epochs: int, patience: int, metrics: Callable[[StageState], None]) -> None:
        self.folder = folder
        self.epochs = epochs
        self.patience = patience
        self.write_metrics = metrics
        self._asked = False
        self._saved = time.monotonic()

    def on_train_start(self, trainer: Trainer, module: Any) -> None:
        """Keep the start, where it is a candidate for the best."""
        if module.measure_start() and trainer.is_global_zero:
            module.verifier.save_pretrained(self.folder / BEST)

    def on_train_batch_start(self, trainer: Trainer, module: Any, batch: Any, batch_idx: int) -> None:
        """Save between two steps where that is due."""
        due = time.monotonic() - self._saved > SAVE_SECONDS and trainer.is_global_zero
        asked, save = ProcessShare.of_this_process().sum(np.array([self._asked, self._asked or due], np.int64))
        if save:  # on one process is on all
            module.settle()
            self._save(trainer)
        if asked:
            raise Stopped(SAVED)

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
            trainer.save_checkpoint(path)  # the others only wait for the first process
        self._saved = time.monotonic()

    def stop_if_asked(self) -> None:
        """Stop where everything is saved already; a wish on one process is one on all."""
        if ProcessShare.of_this_process().sum(np.array(self._asked, np.int64)):
            raise Stopped(SAVED)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take the first Ctrl-C as a wish to stop after the step under way; a second one stops at once."""

        def ask(number: int, frame: FrameType | None) -> None:
            if self._asked:
                raise Stopped(", at once; what was done since the last save is done again")
            self._asked = True

        try:
            before = signal.signal(signal.SIGINT, ask)
        except ValueError:  # not the main thread: the owner of the process decides
            yield
            return
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


class Stopped(BaseException):
    """Leaves the training loop on a wish to stop, and says what was saved.

    Not a ``KeyboardInterrupt``, at which Lightning ends the process with code 1; and not an ``Exception``, as it may
    come up anywhere and no library shall take it for an error of its own.
    """


def write_metrics(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write the metrics of all epochs as CSV, whole."""
    with whole_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
