"""Run cells in parallel on one machine, each in its own process, so that a crash affects only one cell."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from miv.errors import MIVError, StoppedByUser
from miv.reproduction.cells import DONE, command
from miv.reproduction.jobs import Job, JobFolders
from miv.reproduction.results import Result, find_result
from miv.runtime import CTRL_C, TERMINATED, Terminated, raising_on_terminate, threads_of_each

_LOOK_SECONDS = 0.2  # between looks at the processes

Say = Callable[[str], None]


class Failure(NamedTuple):
    """A failed cell and its log."""

    job: Job
    reason: str
    log: Path


class _Running(NamedTuple):
    process: "subprocess.Popen[bytes]"
    began: float


def split_jobs(jobs: Sequence[Job], results: Path) -> tuple[list[Result], list[Job]]:
    """The existing results, and the jobs that have none; a result with different settings is an error."""
    by_job = {job: find_result(job, results) for job in jobs}
    done = [result for result in by_job.values() if result is not None]
    return done, [job for job, result in by_job.items() if result is None]


@raising_on_terminate()
def run_jobs(jobs: Sequence[Job], places: JobFolders, parallel: int, say: Say) -> list[Failure]:
    """Compute the missing cells, ``parallel`` at a time, and return the failures.

    With Ctrl-C or SIGTERM each training saves; the same call resumes, also after a kill.
    """
    done, waiting = split_jobs(jobs, places.results)
    if not waiting:
        return []
    say(f"{len(done)} of {len(jobs)} cells are done; computing {len(waiting)}.")
    threads = threads_of_each(parallel)
    running: dict[Job, _Running] = {}
    failures: list[Failure] = []
    try:
        while waiting or running:
            while waiting and len(running) < parallel:
                job = waiting.pop(0)
                running[job] = _Running(_start(job, places, threads), time.monotonic())
                say(f"Started {job}; log: {job.log(places.work)}.")
            time.sleep(_LOOK_SECONDS)
            codes = {job: run.process.poll() for job, run in running.items()}
            for job, code in codes.items():
                if code is None:
                    continue
                took = time.monotonic() - running.pop(job).began
                if code == DONE:
                    say(f"{_outcome(job, places.results, took)}; {len(waiting) + len(running)} to go.")
                elif code in (CTRL_C, -signal.SIGINT):
                    raise KeyboardInterrupt
                elif code in (TERMINATED, -signal.SIGTERM):
                    raise Terminated
                else:
                    failures.append(Failure(job, _last_words(job.log(places.work), code), job.log(places.work)))
                    say(f"FAILED  {job}: {failures[-1].reason}")
    except (KeyboardInterrupt, Terminated) as stop:
        _stop(running, say)
        code = TERMINATED if isinstance(stop, Terminated) else CTRL_C
        raise StoppedByUser("Stopped; everything is saved. Run the same command to resume.", code) from None
    except BaseException:
        _stop(running, say)
        raise
    return failures


def _outcome(job: Job, results: Path, seconds: float) -> str:
    result = find_result(job, results)
    if result is None:
        raise MIVError(f"{job} succeeded, but {job.result_file(results)} does not have it. Was it removed?")
    figures = "  ".join(f"{name} {result.metrics[name]:.3f}" for name in ("auroc", "i_auroc") if name in result.metrics)
    return f"Done    {job}: {figures}  in {seconds / 60:.1f} minutes"


def _start(job: Job, places: JobFolders, threads: int) -> "subprocess.Popen[bytes]":
    log = job.log(places.work)
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    with log.open("ab") as file:
        # A session of its own: Ctrl-C reaches it through this process alone, once.
        return subprocess.Popen(  # noqa: S603 - our own module
            command(job, places, threads), stdout=file, stderr=file, env=environment, start_new_session=True
        )


def _last_words(log: Path, code: int) -> str:
    if code < 0:  # it had no time for words
        return f"ended by signal {-code}"
    with suppress(OSError):
        lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
        return next((line[:500] for line in reversed(lines) if line), f"ended with code {code}")
    return f"ended with code {code}"


def _stop(running: dict[Job, _Running], say: Say) -> None:
    """Ask all processes to save and stop; a second Ctrl-C ends them at once, without saving."""
    if not running:
        return
    say("Stopping: each training saves after the current step. Press Ctrl-C again to stop at once.")
    processes = [run.process for run in running.values()]
    for process in processes:
        process.terminate()  # unlike Ctrl-C, never ignored: a process may still be importing
    try:
        for process in processes:
            process.wait()
    except KeyboardInterrupt:
        for process in processes:
            process.kill()
