"""Runs cells side by side on one machine, each in a process of its own, so that a crash ends none but its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from miv.errors import MivError
from miv.experiments.jobs import Job, Places
from miv.experiments.results import find_result
from miv.experiments.worker import BUSY, DONE, STOPPED, command

_LOOK_SECONDS = 0.2  # between looks at the processes
_BUSY_SECONDS = 5.0  # between looks at cells that another command computes
Say = Callable[[str], None]


@dataclass(frozen=True)
class Failure:
    """A cell that came to nothing, and where its last words are."""

    job: Job
    reason: str
    log: Path


class StoppedByUser(MivError):  # noqa: N818 - nothing went wrong
    """Ctrl-C: every training that was under way is saved."""


def missing_jobs(jobs: Sequence[Job], results: Path) -> list[Job]:
    """The jobs without a result; a result that was computed otherwise is refused."""
    return [job for job in jobs if find_result(job, results) is None]


def run_jobs(jobs: Sequence[Job], places: Places, parallel: int, say: Say) -> list[Failure]:
    """Compute what is missing, ``parallel`` cells at a time, and return what failed.

    Ctrl-C lets each training save after the step under way; the same call goes on from there, also after a kill.
    A cell that another command computes is waited for.
    """
    waiting = missing_jobs(jobs, places.results)
    if not waiting:
        return []
    clock = Clock(len(waiting), parallel, known_seconds(jobs, places.results))
    say(f"{len(jobs) - len(waiting)} of {len(jobs)} cells are done; computing {len(waiting)}{clock.estimate()}.")
    threads = max(1, available_cores() // parallel)
    running: dict[Job, subprocess.Popen[bytes]] = {}
    began: dict[Job, float] = {}
    failures: list[Failure] = []
    looked: dict[str, float] = {}  # when a busy cell was last looked at
    signal_before = _raise_on_terminate()
    try:
        while waiting or running:
            for job in list(waiting):
                if len(running) >= parallel:
                    break
                if not _is_free(job, places.work, looked):
                    continue
                waiting.remove(job)
                if job.digest in looked and find_result(job, places.results) is not None:
                    clock.ended(None)
                    say(f"Done by another command: {job}.")
                    continue
                running[job], began[job] = _start(job, places, threads), time.monotonic()
                say(f"Started {job}; log: {job.log(places.work)}")
            time.sleep(_LOOK_SECONDS)
            for job, process in list(running.items()):
                code = process.poll()
                if code is None:
                    continue
                del running[job]
                if code == BUSY:
                    waiting.append(job)
                elif code == DONE:
                    _report(job, places.results, time.monotonic() - began[job], clock, say)
                elif code in (STOPPED, -signal.SIGINT):
                    raise KeyboardInterrupt
                else:
                    failures.append(Failure(job, _last_words(job.log(places.work), code), job.log(places.work)))
                    clock.ended(None)
                    say(f"FAILED  {job}: {failures[-1].reason}")
    except KeyboardInterrupt:
        _stop(running, say)
        raise StoppedByUser("Stopped; everything is saved. The same command goes on.") from None
    except BaseException:
        _stop(running, say)
        raise
    finally:
        signal.signal(signal.SIGTERM, signal_before)
    return failures


class Clock:
    """Estimates what remains from what the cells took so far; before any did, from ``known`` times of others.

    >>> clock = Clock(4, parallel=2, known=[])
    >>> clock.estimate()
    ''
    >>> clock.ended(100.0)
    >>> clock.estimate()
    ', about 3 minutes left'
    """

    def __init__(self, jobs: int, parallel: int, known: list[float]) -> None:
        self.left = jobs
        self.parallel = parallel
        self.known = known
        self.measured: list[float] = []

    def ended(self, seconds: float | None) -> None:
        """A cell ended, after so many seconds where it was computed."""
        self.left -= 1
        if seconds is not None:
            self.measured.append(seconds)

    def estimate(self) -> str:
        """What remains, in words; nothing where nothing is known."""
        seconds = self.measured or self.known
        if not seconds or not self.left:
            return ""
        total = sum(seconds) / len(seconds) * -(-self.left // self.parallel)
        return f", about {duration(total)} left"


def duration(seconds: float) -> str:
    """A duration as people say it.

    >>> duration(59), duration(150), duration(9000)
    ('59 seconds', '2 minutes', '2 h 30 min')
    """
    if seconds < 100:
        return f"{seconds:.0f} seconds"
    if seconds < 6000:
        return f"{seconds / 60:.0f} minutes"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"


def known_seconds(jobs: Sequence[Job], results: Path) -> list[float]:
    """What the finished ones among the jobs took."""
    found = [find_result(job, results) for job in jobs]
    return [float(result.document["seconds"]) for result in found if result is not None]


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _start(job: Job, places: Places, threads: int) -> "subprocess.Popen[bytes]":
    log = job.log(places.work)
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    with log.open("ab") as file:
        # A session of its own: Ctrl-C reaches it through this process alone, once.
        return subprocess.Popen(  # noqa: S603 - our own module
            command(job, places, threads), stdout=file, stderr=file, env=environment, start_new_session=True
        )


def _is_free(job: Job, work: Path, looked: dict[str, float]) -> bool:
    """Whether no other process computes the job; looks now and then only."""
    if job.digest in looked and time.monotonic() - looked[job.digest] < _BUSY_SECONDS:
        return False
    lock = job.lock(work)
    lock.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(lock, timeout=0):
            return True
    except Timeout:
        looked[job.digest] = time.monotonic()
        return False


def _report(job: Job, results: Path, seconds: float, clock: Clock, say: Say) -> None:
    result = find_result(job, results)
    if result is None:
        raise MivError(f"{job} ended well, but {job.result_folder(results)} is not there. Was it removed?")
    clock.ended(seconds)
    figures = "  ".join(f"{name} {result.metrics[name]:.3f}" for name in ("auroc", "i_auroc") if name in result.metrics)
    say(f"Done    {job}: {figures}  in {duration(seconds)}; {clock.left} to go{clock.estimate()}.")


def _last_words(log: Path, code: int) -> str:
    if code < 0:  # it had no time for words
        return f"ended by signal {-code}"
    with suppress(OSError):
        lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
        said = [line for line in lines if line]
        if said:
            return said[-1][:500]
    return f"ended with code {code}"


def _stop(running: dict[Job, "subprocess.Popen[bytes]"], say: Say) -> None:
    """Ask all to save and stop; a second Ctrl-C ends them at once, and they go on from their last checkpoint."""
    if not running:
        return
    say("Stopping: each training saves after the step under way. Ctrl-C again ends them at once.")
    for process in running.values():
        process.send_signal(signal.SIGINT)
    try:
        for process in running.values():
            process.wait()
    except KeyboardInterrupt:
        for process in running.values():
            process.kill()


def _raise_on_terminate() -> "signal._HANDLER":
    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    return signal.signal(signal.SIGTERM, stop)


def say_on_error_stream(text: str) -> None:
    """Print a line of progress."""
    print(text, file=sys.stderr, flush=True)
