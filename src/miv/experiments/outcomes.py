"""The outcomes of cells so far, and the message when one ends."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from miv.errors import MIVError
from miv.experiments.clock import Clock, cost_of, duration
from miv.experiments.jobs import Job
from miv.experiments.results import Result, find_result

Say = Callable[[str], None]


@dataclass(frozen=True)
class Failure:
    """A failed cell and its log."""

    job: Job
    reason: str
    log: Path


def split_jobs(jobs: Sequence[Job], results: Path) -> tuple[list[Result], list[Job]]:
    """The existing results, and the jobs that have none; a result with different settings is an error."""
    found = {job: find_result(job, results) for job in jobs}
    return [one for one in found.values() if one is not None], [job for job, one in found.items() if one is None]


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
