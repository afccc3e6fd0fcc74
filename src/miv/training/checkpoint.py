"""The progress of a stage, its checkpoint, and requests to stop."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from miv.errors import MIVError
from miv.files.json import NUMBER, check_shape
from miv.runtime import CTRL_C, TERMINATED

EpochMetrics = dict[str, float]

LAST, BEST = "last.ckpt", "best"
START = -1  # stands for the start among the epochs of a stage
_SAVED = ("history", "step", "loss_sum", "seconds", "start")
_METRICS = {"*": NUMBER}
_SHAPE = {"history": [_METRICS], "step": int, "loss_sum": NUMBER, "seconds": NUMBER, "start?": _METRICS}


@dataclass
class StageState:
    """Progress of a stage."""

    history: list[EpochMetrics] = field(default_factory=list)  # the metrics of each finished epoch
    step: int = 0  # number of finished steps in the current epoch
    loss_sum: float = 0.0  # sum of the exemplar losses in these steps
    seconds: float = 0.0  # time spent so far
    start: EpochMetrics | None = None  # before the first epoch, if the start is a candidate for the best
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
        """Restore the state from ``document``; a ``MIVError`` or ``ValueError`` if it is not one."""
        check_shape(document, _SHAPE, "the state of the stage", "")
        # Later, odd values would fail far from the file that holds them.
        history, start = document["history"], document.get("start")
        for row in history if start is None else [*history, start]:
            if not self.keeps_last and self.criterion not in row:
                raise ValueError(f"an epoch lacks its metrics: {str(row)[:60]}")
        if any(row.keys() != history[0].keys() or not row.keys() >= {"learning_rate", "train_loss"} for row in history):
            raise ValueError("the epochs have different metrics")
        for name in _SAVED:
            setattr(self, name, document.get(name))


@contextmanager
def reading_checkpoint(path: Path) -> Iterator[None]:
    """Any error in this block is one of the checkpoint: torch and optimisers raise many types on damaged files."""
    try:
        yield
    except Exception as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        remedy = "Copy it again, or train again with another --out."
        raise MIVError(f"{path} is damaged ({reason}), so the run cannot resume. {remedy}") from error


def read_checkpoint(path: Path, state: StageState) -> dict[str, Any] | None:
    """Restore the state of a stage from its checkpoint, if there is one, and return all that is in it."""
    if not path.is_file():
        return None
    with reading_checkpoint(path):
        document: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        state.restore(document["stage"])
    return document


class StopRequests:
    """Ctrl-C and SIGTERM, which end training after the current step; a second Ctrl-C ends it immediately."""

    def __init__(self) -> None:
        self.exit_code: int | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Note requests in this block."""
        if threading.current_thread() is not threading.main_thread():  # signals are up to the caller
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            for number in before:
                signal.signal(number, self._stop)
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self.exit_code == CTRL_C:
            raise KeyboardInterrupt
        # A second SIGTERM changes nothing: `timeout` sends two, and SIGKILL follows anyway.
        self.exit_code = TERMINATED if number == signal.SIGTERM else self.exit_code or CTRL_C
