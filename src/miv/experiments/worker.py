"""One cell in its own process: ``python -m miv.experiments.worker JOB``, where JOB is a JSON document."""

import json
import signal
import sys
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from miv.errors import MIVError, StoppedByUser
from miv.experiments.cells import compute
from miv.experiments.jobs import Job, JobFolders
from miv.experiments.results import find_result, write_result
from miv.runtime import CTRL_C, TERMINATED, RichProgress, Terminated, keep_memory, raising_on_terminate
from miv.training.run import set_threads

DONE, FAILED, BUSY = 0, 1, 75  # exit codes, besides CTRL_C and TERMINATED


def command(job: Job, places: JobFolders, threads: int) -> list[str]:
    """The command that computes a job."""
    paths = {name: None if path is None else str(path) for name, path in vars(places).items()}
    document = {"job": job.document(), "places": paths, "threads": threads}
    return [sys.executable, "-m", "miv.experiments.worker", json.dumps(document)]


def main(document: dict[str, Any]) -> int:
    """Compute the job unless it is done or another process is computing it."""
    job = Job.of(document["job"])
    paths: dict[str, Any] = {name: path and Path(path) for name, path in document["places"].items()}
    places = JobFolders(**paths)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell makes what runs in its background deaf to it
    lock = job.lock(places.work)
    lock.parent.mkdir(parents=True, exist_ok=True)
    try:
        with raising_on_terminate(), FileLock(lock, timeout=0):
            if find_result(job, places.results) is not None:
                return DONE
            return _compute(job, places, document["threads"])
    except Timeout:
        print(f"Another process is computing {job}.", file=sys.stderr)
        return BUSY
    except MIVError as error:
        print(f"Error: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return CTRL_C
    except Terminated:
        return TERMINATED


def _compute(job: Job, places: JobFolders, threads: int) -> int:
    keep_memory()
    set_threads(threads, 1)
    try:
        files = compute(job, places, RichProgress())
    except StoppedByUser as stopped:
        print(stopped, file=sys.stderr)
        return stopped.exit_code
    write_result(job, places.results, files)
    return DONE


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
