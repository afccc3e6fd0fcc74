"""Progress of a stage: everything a run needs to resume, besides weights and optimiser."""

from dataclasses import dataclass, field
from typing import Any

from miv.io.json_shapes import NUMBER, check_shape

EpochMetrics = dict[str, float]

_SAVED = ("history", "step", "loss_sum", "seconds", "start", "start_logit")
_YOUNGEST = ("start", "start_logit")  # missing in older checkpoints
# AUROC less a standard error of its difference to the start, which an epoch must exceed to be kept.
CLEAR_AUROC = "validation_clear_auroc"
_METRICS = {"*": NUMBER}
_SHAPE = {
    "history": [_METRICS],
    "step": int,
    "loss_sum": NUMBER,
    "seconds": NUMBER,
    "start?": _METRICS,
    "start_logit?": [NUMBER],
}
START = -1  # stands for the start among the epochs of a stage


@dataclass
class StageState:
    """Progress of a stage.

    Args:
        history: the metrics of each finished epoch.
        step: number of finished steps in the current epoch.
        loss_sum: sum of the exemplar losses in these steps.
        seconds: time spent so far.
        start: metrics before the first epoch if the start is a candidate for the best; else ``None``.
        start_logit: ``(E,)`` of ``validation`` before the first epoch, if epochs are compared with it per exemplar.
        criterion: metric that selects the best epoch; derived from the settings, so not in a checkpoint.
        keeps_last: whether the last epoch is kept because there is nothing to choose by; likewise derived.
    """

    history: list[EpochMetrics] = field(default_factory=list)
    step: int = 0
    loss_sum: float = 0.0
    seconds: float = 0.0
    start: EpochMetrics | None = None
    start_logit: list[float] | None = None
    criterion: str = "validation_accuracy"
    keeps_last: bool = False

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
        """The state as stored in a checkpoint."""
        return {name: getattr(self, name) for name in _SAVED}

    def restore(self, document: dict[str, Any]) -> None:
        """Restore the state from ``document``; a ``MIVError`` if it is not one."""
        check_shape(document, _SHAPE, "the state of the stage", "")
        self._check(document)
        for name in _SAVED:
            setattr(self, name, document.get(name) if name in _YOUNGEST else document[name])

    def _check(self, document: dict[str, Any]) -> None:
        """Check before anything is restored: later, odd values would fail far from the file that holds them."""
        history, start, logit = document["history"], document.get("start"), document.get("start_logit")
        if not isinstance(history, list) or not (logit is None or _are_numbers(logit)):
            raise ValueError("the history of the stage is not a list of epochs")
        for row in [*history, *([] if start is None else [start])]:
            chosen_by = () if self.keeps_last else (self.criterion,)
            if not isinstance(row, dict) or not _are_numbers(list(row.values())) or not row.keys() >= set(chosen_by):
                raise ValueError(f"an epoch lacks its metrics: {str(row)[:60]}")
        if any(row.keys() != history[0].keys() or not row.keys() >= {"learning_rate", "train_loss"} for row in history):
            raise ValueError("the epochs have different metrics")
        if type(document["step"]) is not int or not _are_numbers([document["loss_sum"], document["seconds"]]):
            raise ValueError("the step, the loss or the time is not a number")


def _are_numbers(values: object) -> bool:
    return isinstance(values, list) and all(type(value) in (int, float) for value in values)
