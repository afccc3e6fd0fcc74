"""Share the partitions of a table between commands, on one machine or more."""

import errno
import fcntl
import time
from collections.abc import Callable
from pathlib import Path

from miv.errors import MIVError
from miv.scoring.partitions import Partition, ScoreSettings

LOCK_NAME = "_score.lock"
FOLDER = -1  # as a place: the whole folder; partitions have their numbers
_LOOK_SECONDS = 0.2  # between looks at partitions that other processes are scoring


class Claims:
    """Locks on single bytes of a file in the output folder: one for the folder, and one per partition.

    The system frees the locks of a process that ends for any reason, and knows those of other machines if the disk is
    shared. Commands that score share the folder; whoever changes what is scored has it alone.
    """

    def __init__(self, folder: Path) -> None:
        self._file = (folder / LOCK_NAME).open("a+b")

    def close(self) -> None:
        """Free all locks."""
        self._file.close()

    def claim(self, place: int) -> bool:
        """Try to be the only process that has a place."""
        return self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB, place)

    def share(self, place: int) -> None:
        """Share a place with others, once nobody has it alone."""
        self._lock(fcntl.LOCK_SH, place)

    def release(self, place: int) -> None:
        self._lock(fcntl.LOCK_UN, place)

    def _lock(self, kind: int, place: int) -> bool:
        try:
            fcntl.lockf(self._file, kind, 1, 1 + place)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                return False
            reason = f"cannot be locked ({error.strerror}). Expected a disk with file locks"
            raise MIVError(f"{self._file.name} {reason}; choose another --out.") from error
        return True


def score_claimed(
    left: list[Partition], settings: ScoreSettings, claims: Claims, score: Callable[[Partition], object]
) -> None:
    """Score every partition that is neither done nor claimed by another process, until all are done."""
    while left:
        for partition in left:
            if not settings.is_done(partition) and claims.claim(partition.number):
                try:
                    if not settings.is_done(partition):  # another process may have finished it just before
                        score(partition)
                finally:
                    claims.release(partition.number)
        left = [partition for partition in left if not settings.is_done(partition)]
        time.sleep(_LOOK_SECONDS if left else 0)
