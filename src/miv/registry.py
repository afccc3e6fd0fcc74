"""Things that are made by name: one registry class for poolings and backbones."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from miv.errors import MIVError, unknown_name

T = TypeVar("T")
C = TypeVar("C", bound=type[Any])


@dataclass(frozen=True)
class Entry(Generic[T]):
    """A registered class, its one-line summary, and what was said of it when it was registered."""

    name: str
    make: type[T]
    summary: str
    section: str = ""

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """The parameters of the class, by name."""
        return dict(inspect.signature(self.make).parameters)


class Registry(Generic[T]):
    """Classes by name, in the order in which they came.

    >>> colours: Registry[complex] = Registry("number")
    >>> _ = colours.register("complex")(complex)
    >>> colours.create("complex", real=1.0)
    (1+0j)
    >>> colours.create("complex", reel=1.0)
    Traceback (most recent call last):
    miv.errors.MIVError: There is no option of complex 'reel'. Did you mean 'real'? Known: imag, real.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._entries: dict[str, Entry[T]] = {}

    def __iter__(self) -> Iterator[Entry[T]]:
        return iter(self._entries.values())

    def names(self) -> list[str]:
        return list(self._entries)

    def register(self, name: str, section: str = "") -> Callable[[C], C]:
        """Return a decorator that puts a class in the registry under ``name``."""

        def enter(make: C) -> C:
            if name in self._entries:
                raise MIVError(f"A {self.what} {name!r} is registered already. Choose another name.")
            summary = (inspect.getdoc(make) or "").split("\n")[0].rstrip(".")
            self._entries[name] = Entry(name, make, summary, section)
            return make

        return enter

    def __getitem__(self, name: str) -> Entry[T]:
        if name not in self._entries:
            raise unknown_name(self.what, name, self._entries)
        return self._entries[name]

    def create(self, name: str, /, **options: Any) -> T:
        """Make one by name; a wrong name or option gets the nearest right one as a suggestion."""
        entry = self[name]
        for option in options:
            if option not in entry.options:
                raise unknown_name(f"option of {name}", option, entry.options)
        return entry.make(**options)
