"""The lock on the folder of a run: one training at a time."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from miv.errors import MIVError
from miv.io.whole_files import said_plainly
from miv.training.run_folder import LOCK_NAME

_held = threading.local()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes and threads from training in a folder; a thread that has it may enter again.

    The system releases the lock when the process ends for any reason. The empty file stays: removing it would allow
    two processes to hold locks on different files of the same name.
    """
    path = Path(os.path.realpath(folder)) / LOCK_NAME
    mine: set[Path] = _held.__dict__.setdefault("paths", set())
    if path in mine:
        yield
        return
    lock = FileLock(path)
    with said_plainly(path):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise MIVError(
                f"Another process is training in {folder}. Wait until it has ended, or choose another folder for --out."
            ) from None
    mine.add(path)
    try:
        yield
    finally:
        mine.discard(path)
        lock.release()


def refuse_if_locked(folder: Path) -> None:
    """Raise an error if another process trains in a folder; a folder without a lock file stays as it is."""
    if (folder / LOCK_NAME).exists():
        with locked(folder):
            pass
