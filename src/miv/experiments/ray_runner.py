"""Runs cells on a Ray cluster: each cell is a task, and its finished files come back to this machine."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from miv.errors import MivError
from miv.experiments.jobs import Job, Places
from miv.experiments.results import find_result, write_result
from miv.experiments.runner import Clock, Failure, Say, StoppedByUser, duration, known_seconds, missing_jobs

LOCAL = "local"  # as an address: this machine alone


def run_on_ray(jobs: Sequence[Job], places: Places, address: str, say: Say, cores: int = 1) -> list[Failure]:
    """Compute what is missing on the cluster at ``address`` and return what failed.

    Workers need this package and the raw files under the same path, such as a shared folder. With ``places.work`` in a
    shared folder too, a cell whose machine goes away goes on elsewhere from its last checkpoint. Ray starts lost tasks
    anew by itself.
    """
    waiting = missing_jobs(jobs, places.results)
    if not waiting:
        return []
    ray = _import_ray()
    began_here = not ray.is_initialized()
    if began_here:
        ray.init(address=None if address == LOCAL else address, log_to_driver=False, configure_logging=False)
    clock = Clock(
        len(waiting), max(1, int(ray.cluster_resources().get("CPU", 1)) // cores), known_seconds(jobs, places.results)
    )
    say(f"{len(jobs) - len(waiting)} of {len(jobs)} cells are done; {len(waiting)} go to Ray{clock.estimate()}.")
    remote = ray.remote(num_cpus=cores, max_retries=3)(compute_remotely)
    tasks = {remote.remote(job.document(), vars(places), cores): job for job in waiting}
    failures: list[Failure] = []
    try:
        while tasks:
            ready, _ = ray.wait(list(tasks), num_returns=1, timeout=1.0)
            for task in ready:
                job = tasks.pop(task)
                _take(ray, task, job, places, clock, failures, say)
    except KeyboardInterrupt:
        for task in tasks:
            ray.cancel(task, force=True)
        raise StoppedByUser("Stopped; finished cells are kept. The same command goes on.") from None
    finally:
        if began_here:
            ray.shutdown()
    return failures


def compute_remotely(document: dict[str, Any], places: dict[str, Path | None], cores: int) -> dict[str, bytes]:
    """Compute a job on whatever machine this runs on."""
    from filelock import FileLock

    from miv.experiments.cells import compute
    from miv.memory import keep_memory
    from miv.progress import SilentProgress
    from miv.training.run import set_threads

    keep_memory()
    set_threads(cores, 1)
    job, paths = Job.of(document), Places(**places)  # type: ignore[arg-type]
    lock = job.lock(paths.work)
    lock.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(lock):
        return compute(job, paths, SilentProgress())


def _take(ray: Any, task: Any, job: Job, places: Places, clock: Clock, failures: list[Failure], say: Say) -> None:
    began = time.monotonic()
    try:
        write_result(job, places.results, ray.get(task))
    except (ray.exceptions.RayError, MivError) as error:
        reason = str(getattr(error, "cause", None) or error).strip().splitlines()[-1][:500]
        failures.append(Failure(job, reason, job.log(places.work)))
        clock.ended(None)
        say(f"FAILED  {job}: {reason}")
        return
    result = find_result(job, places.results)
    seconds = float(result.document["seconds"]) if result is not None else time.monotonic() - began
    clock.ended(seconds)
    say(f"Done    {job} in {duration(seconds)}; {clock.left} to go{clock.estimate()}.")


def _import_ray() -> Any:
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise MivError("--ray needs Ray, which is not installed. `pip install 'miv[ray]'` gives it.") from error
    return ray
