"""Run cells on a Ray cluster: each cell is a task, and its finished files return to this machine."""

import math
import traceback
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from miv.errors import MIVError, StoppedByUser
from miv.reproduction.cells import compute
from miv.reproduction.jobs import Job, JobFolders
from miv.reproduction.outcomes import Clock, Failure, Say, report_done, report_failure, split_jobs
from miv.reproduction.results import write_result
from miv.runtime import CTRL_C, TERMINATED, RichProgress, Terminated, keep_memory
from miv.scoring.ray import connected, import_ray, living_machines
from miv.training.run import set_threads


@dataclass(frozen=True)
class ClusterShare:
    """How many cells run at once on a cluster, and the cores and GPUs of each; cells may share a GPU."""

    cells: int
    cores: int
    gpus: float

    @classmethod
    def of(cls, machines: Sequence[dict[str, float]], parallel: int | None) -> "ClusterShare":
        """The share of each of ``parallel`` cells; by default a cell has a GPU, or without any GPU a core.

        A cell runs on one machine, so it gets no more cores than the largest has.

        >>> ClusterShare.of([{"CPU": 8.0, "GPU": 2.0}, {"CPU": 8.0, "GPU": 2.0}], None)
        ClusterShare(cells=4, cores=4, gpus=1.0)
        >>> ClusterShare.of([{"CPU": 8.0}, {"CPU": 4.0}], 1)
        ClusterShare(cells=1, cores=8, gpus=0.0)
        """
        cores, gpus = (sum(machine.get(kind, 0.0) for machine in machines) for kind in ("CPU", "GPU"))
        cells = parallel or int(gpus) or max(1, int(cores))
        largest = max((int(machine.get("CPU", 0.0)) for machine in machines), default=1)
        part = math.floor(min(1.0, gpus / cells) * 1000) / 1000  # Ray keeps four decimals
        return cls(cells, max(1, min(largest, int(cores) // cells)), part)


def run_on_ray(
    jobs: Sequence[Job], places: JobFolders, address: str, say: Say, parallel: int | None = None
) -> list[Failure]:
    """Compute the missing cells on the cluster at ``address``, ``parallel`` at a time, and return the failures.

    Workers need this package, and raw files and cache under the same path, such as a shared folder. With
    ``places.work`` in a shared folder too, a cell that loses its machine resumes elsewhere from its last checkpoint,
    and logs can be read here. Ray restarts lost tasks.
    """
    done, waiting = split_jobs(jobs, places.results)
    if not waiting:
        return []
    places = JobFolders(**{name: path and path.absolute() for name, path in vars(places).items()})  # for elsewhere
    ray = import_ray("--ray", address)
    with connected(ray, address, say):
        share = ClusterShare.of(living_machines(ray), parallel)
        clock = Clock(len(waiting), share.cells, [result.document["seconds"] for result in done])
        say(
            f"{len(done)} of {len(jobs)} cells are done; {len(waiting)} go to Ray, {share.cells} at a time, each with "
            f"{share.cores} cores and {share.gpus:g} GPUs{clock.estimate()}."
        )
        return _run(ray, waiting, places, share, clock, say)


def _run(
    ray: Any, waiting: list[Job], places: JobFolders, share: ClusterShare, clock: Clock, say: Say
) -> list[Failure]:
    remote = ray.remote(num_cpus=share.cores, num_gpus=share.gpus, max_retries=3)(compute_remotely)
    tasks: dict[Any, Job] = {}
    failures: list[Failure] = []
    try:
        while waiting or tasks:
            while waiting and len(tasks) < share.cells:
                job = waiting.pop(0)
                tasks[remote.remote(job.document(), vars(places), share.cores)] = job
                say(f"Sent    {job}; log: {job.log(places.work)} where it runs.")
            ready, _ = ray.wait(list(tasks), num_returns=1, timeout=1.0)
            for task in ready:
                job = tasks.pop(task)
                try:
                    write_result(job, places.results, ray.get(task))
                except (ray.exceptions.RayError, MIVError) as error:
                    reason = str(getattr(error, "cause", None) or error).strip().splitlines()[-1][:500]
                    failures.append(report_failure(job, reason, places.work, clock, say))
                else:
                    report_done(job, places.results, 0.0, clock, say)
    except (KeyboardInterrupt, Terminated) as stop:
        for task in tasks:
            ray.cancel(task, force=True)
        code = TERMINATED if isinstance(stop, Terminated) else CTRL_C
        raise StoppedByUser("Stopped; finished cells are kept. Run the same command to resume.", code) from None
    return failures


def compute_remotely(document: dict[str, Any], places: dict[str, Path | None], cores: int) -> dict[str, Any]:
    """Compute a job on the machine that runs this; its output goes to the job's log there."""
    keep_memory()
    set_threads(cores, 1)
    job, paths = Job.of(document), JobFolders(**places)  # type: ignore[arg-type]
    lock = job.lock(paths.work)
    lock.parent.mkdir(parents=True, exist_ok=True)
    with (
        FileLock(lock),
        job.log(paths.work).open("a", encoding="utf-8", buffering=1) as log,
        redirect_stdout(log),
        redirect_stderr(log),
    ):
        try:
            return compute(job, paths, RichProgress())
        except BaseException:
            traceback.print_exc(file=log)
            raise
