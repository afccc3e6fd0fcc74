"""Run cells in parallel on one machine, each in its own process, so that a crash affects only one cell."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout

from miv.errors import StoppedByUser
from miv.reproduction.cells import BUSY, DONE, command
from miv.reproduction.jobs import Job, JobFolders
from miv.reproduction.outcomes import Clock, Failure, Say, report_done, report_failure, split_jobs
from miv.reproduction.results import find_result
from miv.runtime import CTRL_C, TERMINATED, Terminated, raising_on_terminate, threads_of_each

_LOOK_SECONDS = 0.2  # between looks at the processes
_BUSY_SECONDS = 5.0  # between looks at cells that another command computes


class _Running(NamedTuple):
    process: "subprocess.Popen[bytes]"
    began: float


@raising_on_terminate()
def run_jobs(jobs: Sequence[Job], places: JobFolders, parallel: int, say: Say) -> list[Failure]:
    """Compute the missing cells, ``parallel`` at a time, and return the failures.

    With Ctrl-C or SIGTERM each training saves after the current step; the same call resumes from there, also after a
    kill. It waits for cells that another command is computing.
    """
    done, waiting = split_jobs(jobs, places.results)
    if not waiting:
        return []
    clock = Clock(len(waiting), parallel, [result.document["seconds"] for result in done])
    say(f"{len(done)} of {len(jobs)} cells are done; computing {len(waiting)}{clock.estimate()}.")
    threads = threads_of_each(parallel)
    running: dict[Job, _Running] = {}
    failures: list[Failure] = []
    looked: dict[str, float] = {}  # when a busy cell was last looked at
    try:
        while waiting or running:
            while len(running) < parallel and (job := _next(waiting, running, places.work, looked, say)):
                waiting.remove(job)
                if job.digest in looked and find_result(job, places.results) is not None:
                    clock.ended(None)
                    say(f"Done by another command: {job}.")
                    continue
                waits = " It shares a contrast stage with a running cell, and waits for it."
                shares = job.shared_stage in _stages_under_way(running, places.work)
                running[job] = _Running(_start(job, places, threads), time.monotonic())
                say(f"Started {job}; log: {job.log(places.work)}.{waits if shares else ''}")
            time.sleep(_LOOK_SECONDS)
            for job, (code, seconds) in _ended(running).items():
                if code == BUSY:
                    waiting.append(job)
                elif code == DONE:
                    report_done(job, places.results, seconds, clock, say)
                elif code in (CTRL_C, -signal.SIGINT):
                    raise KeyboardInterrupt
                elif code in (TERMINATED, -signal.SIGTERM):
                    raise Terminated
                else:
                    reason = _last_words(job.log(places.work), code)
                    failures.append(report_failure(job, reason, places.work, clock, say))
    except (KeyboardInterrupt, Terminated) as stop:
        _stop(running, say)
        code = TERMINATED if isinstance(stop, Terminated) else CTRL_C
        raise StoppedByUser("Stopped; everything is saved. Run the same command to resume.", code) from None
    except BaseException:
        _stop(running, say)
        raise
    return failures


def _next(
    waiting: list[Job], running: dict[Job, _Running], work: Path, looked: dict[str, float], say: Say
) -> Job | None:
    """The first job that no other process is computing; jobs that would only wait for a shared stage come last."""
    under_way = _stages_under_way(running, work)
    for job in sorted(waiting, key=lambda job: job.shared_stage in under_way):
        if _is_free(job, work, looked, say):
            return job
    return None


def _stages_under_way(running: dict[Job, _Running], work: Path) -> set[str]:
    """The shared stages that running cells have not finished: later stages have no checkpoint yet."""
    later = ("frozen", "all")
    return {
        job.shared_stage
        for job in running
        if job.shared_stage is not None
        and not any((job.work_folder(work) / "checkpoints" / stage).exists() for stage in later)
    }


def _start(job: Job, places: JobFolders, threads: int) -> "subprocess.Popen[bytes]":
    log = job.log(places.work)
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    with log.open("ab") as file:
        # A session of its own: Ctrl-C reaches it through this process alone, once.
        return subprocess.Popen(  # noqa: S603 - our own module
            command(job, places, threads), stdout=file, stderr=file, env=environment, start_new_session=True
        )


def _ended(running: dict[Job, _Running]) -> dict[Job, tuple[int, float]]:
    """Remove and return the jobs whose process ended, with exit code and run time in seconds."""
    codes = {job: run.process.poll() for job, run in running.items()}
    now = time.monotonic()
    return {job: (code, now - running.pop(job).began) for job, code in codes.items() if code is not None}


def _is_free(job: Job, work: Path, looked: dict[str, float], say: Say) -> bool:
    """Whether no other process is computing the job; checks only now and then, and reports the wait once."""
    if job.digest in looked and time.monotonic() - looked[job.digest] < _BUSY_SECONDS:
        return False
    lock = job.lock(work)
    lock.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(lock, timeout=0):
            return True
    except Timeout:
        if job.digest not in looked:
            say(f"Waiting for {job}: another process is computing it and holds {lock}.")
        looked[job.digest] = time.monotonic()
        return False


def _last_words(log: Path, code: int) -> str:
    if code < 0:  # it had no time for words
        return f"ended by signal {-code}"
    with suppress(OSError):
        lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
        said = [line for line in lines if line]
        if said:
            return said[-1][:500]
    return f"ended with code {code}"


def _stop(running: dict[Job, _Running], say: Say) -> None:
    """Ask all processes to save and stop; a second Ctrl-C ends them at once, without saving."""
    if not running:
        return
    say("Stopping: each training saves after the current step. Press Ctrl-C again to stop at once.")
    processes = [run.process for run in running.values()]
    for process in processes:
        process.send_signal(signal.SIGINT)
    try:
        for process in processes:
            process.wait()
    except KeyboardInterrupt:
        for process in processes:
            process.kill()
