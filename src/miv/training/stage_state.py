"""How far a stage is: all that a run has to know to go on, beside weights and optimiser."""

from dataclasses import dataclass, field
from typing import Any

EpochMetrics = dict[str, float]

_SAVED = ("history", "step", "loss_sum", "seconds", "start", "start_logit")
_YOUNGEST = ("start", "start_logit")  # older checkpoints have none of them
START = -1  # stands for the start among the epochs of a stage


@dataclass
class StageState:
    """Where a stage is.

    Args:
        history: the metrics of each finished epoch.
        step: the steps of the epoch under way that are done.
        loss_sum: the sum of the losses of the exemplars in these.
        seconds: spent so far.
        start: the metrics before the first epoch, where the start is a candidate for the best; else ``None``.
        start_logit: ``(E,)`` of ``validation`` before the first epoch, where epochs are compared with it one by one.
        criterion: the metric by which epochs are chosen; follows from the settings, so a checkpoint does not hold it.
        keeps_last: whether the last epoch is the best by definition, as there is nothing to choose by; likewise.
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
        """The epoch under way, counted from 0."""
        return len(self.history)

    @property
    def best(self) -> int | None:
        """The first of the epochs that were best by the criterion; ``START`` where none is better than the start."""
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
        """Whether there were enough epochs, or too many without a gain."""
        return self.best is not None and (self.epoch >= max_epochs or self.epoch - 1 - self.best >= patience)

    def document(self) -> dict[str, Any]:
        """As a checkpoint holds it."""
        return {name: getattr(self, name) for name in _SAVED}

    def restore(self, document: dict[str, Any]) -> None:
        """Take over what ``document`` gave."""
        for name in _SAVED:
            setattr(self, name, document.get(name) if name in _YOUNGEST else document[name])
