"""Estimate the time of the remaining cells."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from miv.experiments.jobs import Job
from miv.experiments.results import Result


@dataclass(frozen=True)
class Cost:
    """Seconds that a cell took.

    Args:
        own: seconds spent on this cell alone.
        shared: seconds in a stage shared with other cells; only one of them pays for it.
    """

    own: float
    shared: float = 0.0


def cost_of(result: Result, spent: float = 0.0) -> Cost | None:
    """The cost of a finished cell; ``None`` if its stages were not timed and it shares one of them.

    Args:
        result: the cell.
        spent: run time of its process, if known, including data, answers and perhaps the shared stage.
    """
    seconds, stages = float(result.document["seconds"]), result.document.get("stage_seconds")
    if stages is None and result.job.shared_stage is not None:
        return None
    shared = (stages or {}).get("contrast", 0.0)
    return Cost(max(seconds, spent) - shared, shared)


class Clock:
    """Estimates the remaining time from the cells finished so far, or from earlier results until one finishes.

    >>> clock = Clock([None] * 4, parallel=2)
    >>> clock.estimate()
    ''
    >>> clock.ended(None, Cost(100.0))
    >>> clock.estimate()
    ', about 3 minutes left'

    A stage that cells share is counted once:

    >>> Clock(["round 0", "round 0"], parallel=1, known=[Cost(100.0, shared=1000.0)]).estimate()
    ', about 20 minutes left'

    Args:
        stages: for each remaining cell, the name of the stage that it shares with others, if any.
        parallel: number of cells that run at once.
        known: the costs of other cells.
        over: shared stages that are already finished.
    """

    def __init__(
        self,
        stages: Sequence[str | None],
        parallel: int,
        known: Iterable[Cost] = (),
        over: Iterable[str | None] = (),
    ) -> None:
        self._stages = list(stages)
        self._parallel = parallel
        self._known = list(known)
        self._over = {None, *over}
        self._measured: list[Cost] = []

    @classmethod
    def of(cls, waiting: Sequence[Job], done: Sequence[Result], parallel: int) -> "Clock":
        """The clock for the remaining jobs, given the finished ones."""
        costs = [cost for result in done if (cost := cost_of(result)) is not None]
        over = [result.job.shared_stage for result in done]
        return cls([job.shared_stage for job in waiting], parallel, costs, over)

    @property
    def left(self) -> int:
        """Number of unfinished cells."""
        return len(self._stages)

    def ended(self, stage: str | None, cost: Cost | None) -> None:
        """Record the end of a cell with that shared stage, and its cost if it was computed."""
        self._stages.remove(stage)
        if cost is not None:
            self._measured.append(cost)
            self._over.add(stage)

    def estimate(self) -> str:
        """The remaining time in words; empty if unknown."""
        costs = self._measured or self._known
        if not costs or not self.left:
            return ""
        to_come = len(set(self._stages) - self._over)
        shared = fmean(cost.shared for cost in costs)
        total = fmean(cost.own for cost in costs) * self._turns(self.left) + shared * self._turns(to_come)
        return f", about {duration(total)} left"

    def _turns(self, number: int) -> int:
        return -(-number // self._parallel)


def duration(seconds: float) -> str:
    """A duration in words.

    >>> duration(59), duration(150), duration(9000)
    ('59 seconds', '2 minutes', '2 h 30 min')
    """
    if seconds < 100:
        return f"{seconds:.0f} seconds"
    if seconds < 6000:
        return f"{seconds / 60:.0f} minutes"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"
