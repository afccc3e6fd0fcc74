"""What happens when the supervisor of the workers is killed: they end, and the next start clears what it left."""

import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

_PREFIX, _LOCK_NAME = "miv-metrics-", "owner.lock"
_SECONDS = 1.0  # between two looks


def end_with_supervisor(supervisor: int) -> None:
    """End this worker as SIGTERM does, after its running requests, when the process that started it is gone."""

    def watch() -> None:
        while os.getppid() == supervisor:
            time.sleep(_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="supervisor", daemon=True).start()


@contextmanager
def metrics_folder() -> Iterator[Path]:
    """A folder for the metrics of all workers, only for this user, which is removed at the end."""
    clear_left_metrics()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    lock = FileLock(folder / _LOCK_NAME)  # released when the process ends for any reason
    try:
        with lock:
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def clear_left_metrics() -> None:
    """Remove the metrics folders whose owners were killed."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK_NAME}"):
        lock = FileLock(path)
        try:
            lock.acquire(timeout=0)
        except (Timeout, OSError):  # in use, or of another user
            continue
        lock.release()
        shutil.rmtree(path.parent, ignore_errors=True)
