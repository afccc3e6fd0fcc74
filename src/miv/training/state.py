"""How far a stage is: all that a run has to know to go on, beside weights and optimiser."""

from dataclasses import dataclass, field
from typing import Any

Row = dict[str, float]

_SAVED = ("history", "step", "loss_sum", "seconds")


@dataclass
class StageState:
    """Where a stage is.

    Args:
        history: the metrics of each finished epoch.
        step: the steps of the epoch under way that are done.
        loss_sum: the sum of the losses of the exemplars in these.
        seconds: spent so far.
        criterion: the metric by which epochs are chosen; follows from the settings, so a checkpoint does not hold it.
    """

    history: list[Row] = field(default_factory=list)
    step: int = 0
    loss_sum: float = 0.0
    seconds: float = 0.0
    criterion: str = "validation_accuracy"

    @property
    def epoch(self) -> int:
        """The epoch under way, counted from 0."""
        return len(self.history)

    @property
    def best(self) -> int | None:
        """The first of the epochs that were best by the criterion."""
        if not self.history:
            return None
        return max(range(self.epoch), key=lambda epoch: (self.history[epoch][self.criterion], -epoch))

    @property
    def best_value(self) -> float:
        """The criterion of the best finished epoch."""
        return max((row[self.criterion] for row in self.history), default=0.0)

    def is_over(self, max_epochs: int, patience: int) -> bool:
        """Whether there were enough epochs, or too many without a gain."""
        return self.best is not None and (self.epoch >= max_epochs or self.epoch - 1 - self.best >= patience)

    def document(self) -> dict[str, Any]:
        """As a checkpoint holds it."""
        return {name: getattr(self, name) for name in _SAVED}

    def restore(self, document: dict[str, Any]) -> None:
        """Take over what ``document`` gave."""
        for name in _SAVED:
            setattr(self, name, document[name])
