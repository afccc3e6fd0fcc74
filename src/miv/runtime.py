"""The process and its terminal: progress, signals, cores, memory, and tables in text."""

import ctypes
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from miv.errors import StoppedByUser

if TYPE_CHECKING:  # commands start fast without torch
    from torch import nn

# Progress of long work: silent in the library, bars on standard error in commands.

Advance = Callable[[int], None]


class Progress(Protocol):
    """Receives the progress of long work."""

    def step(self, text: str, total: int | None = None) -> AbstractContextManager[Advance]:
        """Start a step of ``total`` units (``None``: unknown); call the returned function with the units done."""
        ...


class SilentProgress:
    """Says nothing."""

    @contextmanager
    def step(self, text: str, total: int | None = None) -> Iterator[Advance]:
        """Start a step without output."""
        yield lambda units: None


class RichProgress:
    """One bar per step on standard error; without a terminal, only finished steps."""

    @contextmanager
    def step(self, text: str, total: int | None = None) -> Iterator[Advance]:
        """Show a bar until the step ends."""
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress as Bars,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns = [TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()]
        columns += [TimeElapsedColumn(), *([] if total is None else [TextColumn("left:"), TimeRemainingColumn()])]
        bars = Bars(*columns, console=Console(stderr=True))
        with bars:
            task = bars.add_task(text, total=total)
            yield lambda units: bars.advance(task, units)
            if total is None:  # now known; a step without units was one
                done = bars.tasks[0].completed or 1
                bars.update(task, total=done, completed=done)


# Pauses: a service stops long work between its steps, or does short work there.

_PAUSE: ContextVar[Callable[[], None]] = ContextVar("pause", default=lambda: None)


def pause() -> None:
    """Do what ``pausing`` asks for; long work calls this between steps of some hundredths of a second."""
    _PAUSE.get()()


@contextmanager
def pausing(action: Callable[[], None]) -> Iterator[None]:
    """Call a function between the steps of long work in this block; it may raise an error to end the work."""
    before = _PAUSE.set(action)
    try:
        yield
    finally:
        _PAUSE.reset(before)


# Ctrl-C and SIGTERM: the exit codes they lead to, and an exception for SIGTERM.

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


# Training and evaluation mode of a module.


@contextmanager
def evaluating(module: "nn.Module") -> Iterator[None]:
    """Put a module in evaluation mode; restore the mode of each part when the block ends, even on error."""
    learning = [part for part in module.modules() if part.training]
    if learning:
        module.eval()
    try:
        yield
    finally:
        for part in learning:
            part.training = True


# Number of available cores, and their share for each of several processes.


def available_cores() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_of_each(processes: int) -> int:
    """Threads of one of several processes: its share of the cores, and no more than ``OMP_NUM_THREADS`` allows."""
    share = max(1, available_cores() // processes)
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    return min(share, int(allowed)) if allowed.isdecimal() and int(allowed) else share


# Memory of this machine: how much is free, and how the C library reuses it.

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # of mallopt(3)


def keep_memory() -> None:
    """Let glibc reuse large blocks instead of releasing them; makes CPU training 1.2 to 1.6 times as fast.

    Affects the whole process, so only commands call it, not the library.
    """
    library = ctypes.CDLL(None) if sys.platform.startswith("linux") else None
    if library is not None and hasattr(library, "gnu_get_libc_version"):
        library.mallopt(_MMAP_MAX, 0)
        library.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
        library.mallopt(_TOP_PAD, 64 << 20)


def free_memory() -> int:
    """Bytes that this process can still use without swapping: of the machine, or of its control group if less."""
    amounts = []
    with suppress(OSError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        amounts += [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    with suppress(OSError, ValueError):  # a container; without a limit the file says "max"
        group = Path("/sys/fs/cgroup")
        limit, used = (int((group / f"memory.{name}").read_text(encoding="ascii")) for name in ("max", "current"))
        amounts.append(max(0, limit - used))
    return min(amounts, default=4 << 30)  # not Linux


# Plain-text tables that look the same in a terminal, a log file and an email.


def aligned_table(headings: Sequence[str], rows: Iterable[Sequence[str]], left: Collection[int] = (0,)) -> str:
    """Align cells in columns: columns in ``left`` to the left, the others to the right.

    >>> print(aligned_table(["group", "exemplars"], [["3", "1,200"], ["all", "17"]]))
    group  exemplars
    ────────────────
    3          1,200
    all           17
    """
    from rich.cells import cell_len  # Chinese letters take two columns

    lines = [[cell.expandtabs() for cell in line] for line in (headings, *rows)]
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        for place, (cell, width) in enumerate(zip(line, widths, strict=True)):
            blank = " " * (width - cell_len(cell))
            line[place] = cell + blank if place in left else blank + cell
    lines.insert(1, ["─" * (sum(widths) + 2 * len(widths) - 2)])
    return "\n".join("  ".join(line).rstrip() for line in lines)


def table_of(rows: Sequence[dict[str, Any]]) -> str:
    """Align rows under their column names, all to the left; a missing value is a dash.

    >>> print(table_of([{"run": "a", "auroc": 0.5}, {"run": "b"}]))
    run  auroc
    ───────────
    a    0.5000
    b    –
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    return aligned_table(names, [[cell_text(row.get(name)) for name in names] for row in rows], left=range(len(names)))


def cell_text(value: Any) -> str:
    """Format a number with four decimals, a missing value as a dash, and anything else unchanged."""
    return "–" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)
