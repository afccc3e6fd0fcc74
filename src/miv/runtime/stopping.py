"""Ctrl-C and SIGTERM: the exit codes they lead to, and an exception for SIGTERM."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from miv.errors import StoppedByUser

CTRL_C, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM  # exit codes, as a shell reports them


class Terminated(SystemExit):
    """SIGTERM, as a scheduler sends it. Blocks clean up as for Ctrl-C, and the process ends with code 143."""

    def __init__(self) -> None:
        super().__init__(TERMINATED)


@contextmanager
def raising_on_terminate() -> Iterator[None]:
    """Raise ``Terminated`` on the first SIGTERM in this block, and ignore others while the block cleans up."""

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # `timeout` sends it twice
        raise Terminated

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not the main thread: signals are up to the caller
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def interruption_of(stopped: StoppedByUser) -> BaseException:
    """The exception to raise for a stop if there is nothing to resume."""
    return Terminated() if stopped.exit_code == TERMINATED else KeyboardInterrupt()
