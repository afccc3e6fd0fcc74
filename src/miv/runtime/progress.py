"""Progress of long work: silent in the library, bars on standard error in commands."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

Advance = Callable[[int], None]


class Progress(Protocol):
    """Receives the progress of long work.

    >>> progress: Progress = SilentProgress()
    >>> with progress.step("Reading digits", total=3) as advance:
    ...     for _ in range(3):
    ...         advance(1)
    """

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
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        columns = [TextColumn("{task.description}", markup=False), BarColumn()]
        columns += [MofNCompleteColumn(), TimeElapsedColumn()]
        if total is not None:
            columns += [TextColumn("left:"), TimeRemainingColumn()]
        bars = Bars(*columns, console=Console(stderr=True))
        with bars:
            task = bars.add_task(text, total=total)
            yield lambda units: bars.advance(task, units)
            if total is None:  # now known; a step without units was one
                done = bars.tasks[0].completed or 1
                bars.update(task, total=done, completed=done)
