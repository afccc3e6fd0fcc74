"""Ctrl-C and SIGTERM: the exit codes they lead to, and an exception for SIGTERM."""

import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from miv.errors import StoppedByUser

CTRL_C, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM  # exit codes, as a shell reports them
REPEAT_SECONDS = 5.0  # a SIGTERM so soon after another is the same request: `timeout` sends two


class Terminated(SystemExit):
    """SIGTERM, as a scheduler sends it. Blocks clean up as for Ctrl-C, and the process ends with code 143."""

    def __init__(self) -> None:
        super().__init__(TERMINATED)


@contextmanager
def raising_on_terminate() -> Iterator[None]:
    """Raise ``Terminated`` on SIGTERM in this block, and ignore repeats for a few seconds while the block cleans up.

    A later one raises again, because Python drops an exception that is raised while it frees an object.
    """
    raised = -math.inf

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal raised
        if time.monotonic() - raised >= REPEAT_SECONDS:
            raised = time.monotonic()
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
