"""Names and what they stand for: registries of poolings and backbones, and lazy exports of a room."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from typing import Any, Generic, TypeVar

from miv.errors import MIVError, unknown_name

T = TypeVar("T")
C = TypeVar("C", bound=type[Any])
_MADE_WITH = "_made_with"


@dataclass(frozen=True)
class Entry(Generic[T]):
    """A registered class, its one-line summary, and the facts given at registration."""

    name: str
    make: type[T]
    summary: str
    section: str = ""

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """The parameters of the class, by name."""
        return dict(inspect.signature(self.make).parameters)


class Registry(Generic[T]):
    """Classes by name, in order of registration.

    >>> numbers: Registry[complex] = Registry("number")
    >>> _ = numbers.register("complex")(complex)
    >>> numbers.create("complex", reel=1.0)
    Traceback (most recent call last):
    miv.errors.MIVError: There is no option of complex 'reel'. Did you mean 'real'? Known: imag, real.
    """

    def __init__(self, what: str, hint: str = "") -> None:
        self.what = what
        self.hint = hint  # added to the error for an unknown name
        self._entries: dict[str, Entry[T]] = {}

    def __iter__(self) -> Iterator[Entry[T]]:
        return iter(self._entries.values())

    def names(self) -> list[str]:
        return list(self._entries)

    def register(self, name: str, section: str = "") -> Callable[[C], C]:
        """Return a decorator that registers a class under ``name``."""

        def enter(make: C) -> C:
            if name in self._entries:
                raise MIVError(f"A {self.what} {name!r} is already registered. Choose another name.")
            summary = (inspect.getdoc(make) or "").split("\n")[0].rstrip(".")
            self._entries[name] = Entry(name, make, summary, section)
            return make

        return enter

    def __getitem__(self, name: str) -> Entry[T]:
        if name not in self._entries:
            raise MIVError(f"{unknown_name(self.what, name, self._entries)}{self.hint}")
        return self._entries[name]

    def name_of(self, make: type[Any]) -> str | None:
        """Return the name of a class, or ``None`` if it is not registered."""
        return next((entry.name for entry in self if entry.make is make), None)

    def create(self, name: str, /, **options: Any) -> T:
        """Create an object by name; the error for an unknown name or option suggests the nearest one."""
        entry = self[name]
        takes_any = any(option.kind is inspect.Parameter.VAR_KEYWORD for option in entry.options.values())
        for option in options:
            if option not in entry.options and not takes_any:
                raise unknown_name(f"option of {name}", option, entry.options)
        return entry.make(**options)


def remember_options(make: C) -> C:
    """Make every object of a class remember its constructor arguments, so that it can be saved and recreated."""
    original = make.__init__
    signature = inspect.signature(original)

    def by_name(*arguments: Any, **options: Any) -> dict[str, Any]:
        try:
            named = signature.bind(*arguments, **options).arguments
        except TypeError:  # the constructor raises its own error
            return {}
        for option in signature.parameters.values():
            if option.kind is inspect.Parameter.VAR_KEYWORD:
                named |= named.pop(option.name, {})
        return dict(list(named.items())[1:])

    @wraps(original)
    def remembering(self: Any, *arguments: Any, **options: Any) -> None:
        if _MADE_WITH not in vars(self):  # a registered subclass calls its parent's constructor too
            vars(self)[_MADE_WITH] = by_name(self, *arguments, **options)
        original(self, *arguments, **options)

    make.__init__ = remembering
    return make


def options_of(made: object) -> dict[str, Any] | None:
    """Return the constructor arguments of an object of a registered class; ``None`` for any other object."""
    return vars(made).get(_MADE_WITH)


def lazy_exports(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and ``__dir__`` of a package that imports public names from ``homes`` on first use."""

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return find, lambda: sorted(homes)
