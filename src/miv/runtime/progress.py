"""How long work tells how far it is: silently in the library, with bars on standard error in the command."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

Advance = Callable[[int], None]


class Progress(Protocol):
    """Something that is told of the steps of a long piece of work.

    >>> progress: Progress = SilentProgress()
    >>> with progress.step("Reading digits", total=3) as advance:
    ...     for _ in range(3):
    ...         advance(1)
    """

    def step(self, text: str, total: int | None = None) -> AbstractContextManager[Advance]:
        """Begin a step of ``total`` units (``None``: not known); call what it gives with units done."""
        ...


class SilentProgress:
    """Says nothing."""

    @contextmanager
    def step(self, text: str, total: int | None = None) -> Iterator[Advance]:
        """Begin a step that nobody watches."""
        yield lambda units: None


class RichProgress:
    """One bar a step on standard error; where that is no terminal, nothing but the finished steps."""

    @contextmanager
    def step(self, text: str, total: int | None = None) -> Iterator[Advance]:
        """Show a bar for the step until it ends."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        columns = [TextColumn("{task.description}", markup=False), BarColumn()]
        bars = Bars(*columns, MofNCompleteColumn(), TimeElapsedColumn(), console=Console(stderr=True))
        with bars:
            task = bars.add_task(text, total=total)
            yield lambda units: bars.advance(task, units)
