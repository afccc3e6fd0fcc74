"""Training progress on standard error: bars in a terminal, one line per epoch elsewhere."""

import sys
import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from miv.training.lightning_parts import Callback, Trainer
from miv.training.stage_state import EpochMetrics


class EpochProgress(Callback):
    """A bar over the steps of the whole stage, with the maximum time left, and one line per epoch.

    Args:
        stage: name of the stage.
        epochs_before: number of epochs in earlier stages; epochs are counted over the whole run.
        best_before: criterion of the best epoch of earlier stages.
        measured_on: the exemplars behind the metrics, in words.
    """

    def __init__(self, stage: str, epochs_before: int, best_before: float, measured_on: str = "validation") -> None:
        self.stage = stage
        self._measured_on = measured_on
        self._epochs_before = epochs_before
        self._best_before = best_before
        self._console = Console(stderr=True, highlight=False)
        self._bars: Progress | None = None
        self._began = time.monotonic()

    def on_train_start(self, trainer: Trainer, module: Any) -> None:
        """Show the bar, starting at the current step of the stage."""
        self._began = time.monotonic()
        if trainer.is_global_zero:
            marked = self.stage not in BY_NEAREST and not module.state.keeps_last
            star = " * marks the best so far." if marked else ""
            print(f"Stage {self.stage}: {STAGES[self.stage]}.{star}", file=sys.stderr, flush=True)
        if self._console.is_terminal and trainer.is_global_zero:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._bars = Progress(*columns, TextColumn("at most"), TimeRemainingColumn(), console=self._console)
            state = module.state
            total, done = module.config.max_epochs * module.steps, state.epoch * module.steps + state.step
            self._bars.add_task(f"Stage {self.stage}", total=total, completed=done)
            self._bars.start()

    def on_train_epoch_start(self, trainer: Trainer, module: Any) -> None:
        """Print the metrics of the start, measured when a stage begins."""
        state = module.state
        if state.start is not None and not state.epoch and not state.step and trainer.is_global_zero:
            is_best = self.stage not in BY_NEAREST and state.start[state.criterion] > self._best_before
            self._say(f"{self.stage:<6} start      {self._figures(state.start)}{' *' if is_best else ''}")

    def on_train_batch_end(self, trainer: Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Move the bar."""
        if self._bars is not None:
            self._bars.advance(self._bars.task_ids[0])

    def report(self, module: Any) -> None:
        """Print the metrics of the epoch."""
        row, state = module.state.history[-1], module.state
        seconds, self._began = time.monotonic() - self._began, time.monotonic()
        is_verifier = self.stage not in BY_NEAREST
        is_verifier = is_verifier and not state.keeps_last  # if a trial chose the epochs, none is marked as best
        is_best = is_verifier and state.best == state.epoch - 1 and row[state.criterion] > self._best_before
        self._say(
            f"{self.stage:<6} epoch {self._epochs_before + state.epoch:>3}  loss {row['train_loss']:.4f}  "
            f"{self._figures(row)}  {seconds:5.1f} s{' *' if is_best else ''}"
        )

    def _figures(self, row: EpochMetrics) -> str:
        of = "nearest loss" if self.stage in BY_NEAREST else "loss"
        return (
            f"{self._measured_on} {of} {row['validation_loss']:.4f}  accuracy {row['validation_accuracy']:.4f}  "
            f"AUROC {row['validation_auroc']:.4f}"
        )

    def _say(self, line: str) -> None:
        if self._bars is not None:
            self._bars.print(line)
        else:
            print(line, file=sys.stderr, flush=True)

    def teardown(self, trainer: Trainer, module: Any, stage: str) -> None:
        """Remove the bar, whether training succeeded or failed."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None


STAGES = {
    "contrast": "train the backbone to find the bag of a query among others; figures are those of the nearest target",
    "align": "learn a linear map of the frozen features; figures are those of the nearest target",
    "frozen": "train the head; the backbone stays as it is",
    "all": "train the backbone and the head together",
}
BY_NEAREST = ("contrast", "align")  # stages without a head yet, which predict by the nearest target
