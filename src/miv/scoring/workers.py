"""Share the partitions of a table between processes: of one command or of several, on one machine or more."""

import errno
import fcntl
import signal
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path

import torch

from miv.errors import MIVError
from miv.runtime import Advance, threads_of_each
from miv.scoring.partitions import Partition, PartitionScorer, ScoreSettings

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


def score_in_processes(left: list[Partition], settings: ScoreSettings, processes: int, advance: Advance) -> None:
    """Score partitions in new processes. If one is killed, the others score its partition."""
    context, workers, codes = get_context("spawn"), {}, set[str]()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # new processes inherit this: Ctrl-C is for us
    try:
        for _ in range(min(processes, len(left))):
            ours, theirs = context.Pipe(duplex=False)
            arguments = (left, settings, threads_of_each(processes), theirs)
            workers[ours] = context.Process(target=_work, args=arguments, daemon=True)
            workers[ours].start()
            theirs.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        while workers:
            for connection in wait([*workers]):
                assert isinstance(connection, Connection)  # noqa: S101 - for type checkers
                try:
                    report = connection.recv()
                except EOFError:
                    worker = workers.pop(connection)
                    worker.join()
                    codes.add(str(worker.exitcode))
                    continue
                if isinstance(report, str):
                    raise MIVError(report)
                advance(report)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for worker in workers.values():
            worker.terminate()
            worker.join()
    if not all(map(settings.is_done, left)):
        raise MIVError(
            f"All processes ended early, with the codes {', '.join(sorted(codes))}; finished partitions are "
            "kept. Run the same command with a smaller --parallel: each process needs memory of its own."
        )


def _work(left: list[Partition], settings: ScoreSettings, threads: int, connection: Connection) -> None:
    """What a new process does; it reports the exemplars of each partition, or an error."""
    torch.set_num_threads(threads)
    claims = Claims(Path(settings.out))
    claims.share(FOLDER)
    try:
        scorer = PartitionScorer(settings)
        score_claimed(left, settings, claims, lambda partition: connection.send(scorer.score(partition).exemplars))
    except MIVError as error:
        connection.send(str(error))
    except BrokenPipeError:  # the command was killed
        pass
