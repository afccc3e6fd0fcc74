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


class Clock:
    """Estimates the remaining time from the cells finished so far, or from earlier results until one finishes.

    >>> clock = Clock(4, parallel=2)
    >>> clock.estimate()
    ''
    >>> clock.ended(100.0)
    >>> clock.estimate()
    ', about 3 minutes left'
    """

    def __init__(self, left: int, parallel: int, known: Iterable[float] = ()) -> None:
        self.left, self._parallel, self._known = left, parallel, list(known)
        self._measured: list[float] = []

    def ended(self, seconds: float | None) -> None:
        """Record the end of a cell, and its seconds if it was computed."""
        self.left -= 1
        if seconds is not None:
            self._measured.append(seconds)

    def estimate(self) -> str:
        """The remaining time in words; empty if unknown."""
        seconds = self._measured or self._known
        if not seconds or not self.left:
            return ""
        return f", about {duration(fmean(seconds) * -(-self.left // self._parallel))} left"


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
    seconds = seconds or float(result.document["seconds"])
    clock.ended(seconds)
    figures = "  ".join(f"{name} {result.metrics[name]:.3f}" for name in ("auroc", "i_auroc") if name in result.metrics)
    say(f"Done    {job}: {figures}  in {duration(seconds)}; {clock.left} to go{clock.estimate()}.")


def report_failure(job: Job, reason: str, work: Path, clock: Clock, say: Say) -> Failure:
    """Report a failed cell and the reason."""
    clock.ended(None)
    say(f"FAILED  {job}: {reason}")
    return Failure(job, reason, job.log(work))


def say_on_error_stream(text: str) -> None:
    """Print a line of progress."""
    print(text, file=sys.stderr, flush=True)
