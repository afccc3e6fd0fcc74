"""The outcomes of cells so far, the message when one ends, and the time that the others will take."""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from miv.errors import MIVError
from miv.reproduction.jobs import Job
from miv.reproduction.results import Result, find_result

Say = Callable[[str], None]


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


@dataclass(frozen=True)
class Failure:
    """A failed cell and its log."""

    job: Job
    reason: str
    log: Path


def split_jobs(jobs: Sequence[Job], results: Path) -> tuple[list[Result], list[Job]]:
    """The existing results, and the jobs that have none; a result with different settings is an error."""
    by_job = {job: find_result(job, results) for job in jobs}
    done = [result for result in by_job.values() if result is not None]
    return done, [job for job, result in by_job.items() if result is None]


def report_done(job: Job, results: Path, seconds: float, clock: Clock, say: Say) -> None:
    """Report the outcome of a cell, the seconds its process took (0 if unknown), and what remains."""
    result = find_result(job, results)
    if result is None:
        raise MIVError(f"{job} succeeded, but {job.result_folder(results)} is missing. Was it removed?")
    clock.ended(job.shared_stage, cost_of(result, seconds))
    figures = "  ".join(f"{name} {result.metrics[name]:.3f}" for name in ("auroc", "i_auroc") if name in result.metrics)
    took = duration(seconds or float(result.document["seconds"]))
    say(f"Done    {job}: {figures}  in {took}; {clock.left} to go{clock.estimate()}.")


def report_failure(job: Job, reason: str, work: Path, clock: Clock, say: Say) -> Failure:
    """Report a failed cell and the reason."""
    clock.ended(job.shared_stage, None)
    say(f"FAILED  {job}: {reason}")
    return Failure(job, reason, job.log(work))


def say_on_error_stream(text: str) -> None:
    """Print a line of progress."""
    print(text, file=sys.stderr, flush=True)
