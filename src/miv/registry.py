"""Names and what they stand for: registries of poolings and backbones, own modules, and lazy exports of a room."""

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, wraps
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

from miv.errors import MIVError, unknown_name, warn

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


MODULES = "MIV_IMPORT"
"""The environment variable with modules to import, separated by commas; worker processes inherit it."""


def import_modules(names: Iterable[str]) -> None:
    """Import modules that register own parts, by name or as a ``.py`` file; the current folder is searched too."""
    for name in filter(None, (name.strip() for name in names)):
        path = Path(name).absolute() if name.endswith(".py") else None
        folder, module = (str(Path.cwd()), name) if path is None else (str(path.parent), path.stem)
        if module in sys.modules:
            continue
        if folder not in sys.path:
            sys.path.append(folder)
        try:
            import_module(module)
        except MIVError:
            raise
        except Exception as error:  # whatever the module does
            wanted = "a module, or a .py file, that registers own parts"
            raise MIVError(f"Cannot import {name!r}: {type(error).__name__}: {error}. Expected {wanted}.") from error


def add_modules(names: Iterable[str]) -> None:
    """Import modules in this process and in those that it starts."""
    known = os.environ.get(MODULES, "").split(",")
    files = [str(Path(name).absolute()) if name.endswith(".py") else name for name in names]
    os.environ[MODULES] = ",".join(dict.fromkeys(filter(None, [*known, *files])))
    import_modules(files)


@cache
def _plugins(what: str) -> Any:
    """The entry points of installed packages in the group of a registry."""
    return entry_points(group=f"miv.{what}s")


class Registry(Generic[T]):
    """Classes by name, in order of registration.

    A name that is not registered is looked for in the modules of ``MIV_IMPORT``, then among the entry points of
    installed packages in the group ``miv.poolings``, ``miv.backbones``, ``miv.tasks`` or ``miv.recipes``: the name of a
    part, and the module that registers it under this name.

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
        return iter([self[name] for name in self.names()])

    def names(self) -> list[str]:
        import_modules(os.environ.get(MODULES, "").split(","))
        for name in _plugins(self.what).names - self._entries.keys():
            try:
                self._load(name)
            except MIVError as error:  # one broken package must not hide the others
                warn(str(error))
        return list(self._entries)

    def _load(self, name: str) -> None:
        """Import the entry point of that name, if there is one."""
        for plugin in _plugins(self.what).select(name=name):
            where = f"the package {plugin.dist.name}" if plugin.dist else "a package"
            try:
                plugin.load()
            except Exception as error:  # whatever the package does
                reason = f"{type(error).__name__}: {error}"
                raise MIVError(f"The {self.what} {name!r} of {where} cannot be imported ({reason}).") from error
            if name not in self._entries:
                raise MIVError(f"{plugin.value} of {where} registers no {self.what} {name!r}. Use that name there.")

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
            import_modules(os.environ.get(MODULES, "").split(","))
        if name not in self._entries:
            self._load(name)
        if name not in self._entries:
            raise MIVError(f"{unknown_name(self.what, name, self._entries)}{self.hint}")
        return self._entries[name]

    def name_of(self, make: type[Any]) -> str | None:
        """Return the name of a class, or ``None`` if it is not registered."""
        return next((entry.name for entry in self._entries.values() if entry.make is make), None)

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
