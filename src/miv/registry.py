"""Names and what they stand for: registries of poolings and backbones, own modules, options, lazy exports."""

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import cache, wraps
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar, get_args, get_origin, get_type_hints

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
        folder = Path.cwd() if path is None else path.parent
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
        try:
            if path is None:
                import_module(name)
            else:
                _import_file(path)
        except MIVError:
            raise
        except Exception as error:  # whatever the module does
            wanted = "a module, or a .py file, that registers own parts"
            raise MIVError(f"Cannot import {name!r}: {type(error).__name__}: {error}. Expected {wanted}.") from error


def _import_file(path: Path) -> None:
    """Import a file under its stem, or under its path if another module has that name, as ``random.py`` has."""
    known = find_spec(path.stem)
    is_other = known is not None and Path(str(known.origin)).resolve() != path.resolve()
    module = str(path) if is_other else path.stem
    if module not in sys.modules:
        spec: Any = spec_from_file_location(module, path)
        sys.modules[module] = module_from_spec(spec)
        try:
            spec.loader.exec_module(sys.modules[module])
        except BaseException:
            del sys.modules[module]
            raise


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


# Argument descriptions in docstrings, for the help of flags.


def as_sentence(text: str, literals: Sequence[str] = ()) -> str:
    """Capitalise a help text, unless it starts with a word to type: one of ``literals``, or one with ``_`` or ``:``.

    >>> as_sentence("exemplars in a step."), as_sentence("none, or affine.", ["none", "affine"])
    ('Exemplars in a step.', 'none, or affine.')
    """
    word = text.split()[0].rstrip(",.;:") if text else ""
    return text if word in literals or {"_", ":"} & set(word) else text[:1].upper() + text[1:]


def argument_lines(docstring: str) -> dict[str, str]:
    r"""Read ``name: text`` from the ``Args:`` part of a docstring; deeper lines continue the text.

    >>> argument_lines("\n    Args:\n        tosses: how many\n            tosses.\n        seed: random seed.\n")
    {'tosses': 'how many tosses.', 'seed': 'random seed.'}
    """
    arguments = inspect.cleandoc(docstring).partition("Args:\n")[2]
    part = re.split(r"\n(?=\S)", arguments)[0]  # to the next part of the docstring
    lines = re.findall(r"^ {4}(\w+): ((?:.|\n(?! {4}\w))*)", part, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in lines}


# Options: the fields of a dataclass, and of the dataclasses in it, as the flags of a command and arguments in Python.


@dataclass(frozen=True)
class Option:
    """One option. The line of its field under ``Args:`` is its help; the metadata of the field replace the rest."""

    name: str  # in Python; the flag has dashes
    type: Any
    default: Any  # ``MISSING`` if it must be given
    help: str
    flags: tuple[str, ...] = ()  # all spellings on the command line, if there are several
    shown: str = ""  # the default in words
    least: int | None = None  # minimum on the command line

    @property
    def choices(self) -> tuple[str, ...]:
        """The values of a ``Literal``; empty for other types."""
        return next((get_args(part) for part in (self.type, *get_args(self.type)) if get_origin(part) is Literal), ())


def options_of_class(options: type[Any]) -> dict[str, Option]:
    """The options of a dataclass by name; those of a dataclass in it take the place of its field."""
    types, helps = get_type_hints(options), argument_lines(options.__doc__ or "")
    known: dict[str, Option] = {}
    for part in fields(options):
        if is_dataclass(types[part.name]):
            known |= options_of_class(types[part.name])
            continue
        if part.name not in helps:
            raise TypeError(f"The option {part.name!r} of {options.__name__} needs a line under 'Args:'.")
        default = part.default_factory() if part.default_factory is not MISSING else part.default
        option = replace(Option(part.name, types[part.name], default, helps[part.name]), **part.metadata)
        known[option.name] = option
    return known


def from_options(options: type[T], by_name: Mapping[str, Any]) -> T:
    """Make a dataclass, and the dataclasses in it, from options by name; an unknown name is an error."""
    known = options_of_class(options)
    for name in by_name:
        if name not in known:
            raise unknown_name("option", name, known)
    types = get_type_hints(options)
    values = {}
    for part in fields(options):  # type: ignore[arg-type]  # checked above
        name = part.metadata.get("name", part.name)
        if is_dataclass(types[part.name]):
            own = by_name.keys() & options_of_class(types[part.name])
            values[part.name] = from_options(types[part.name], {key: by_name[key] for key in own})
        elif name in by_name:
            values[part.name] = by_name[name]
    return options(**values)


# Public names of a room, imported on first use.


def lazy_exports(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and ``__dir__`` of a package that imports public names from ``homes`` on first use."""

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return find, lambda: sorted(homes)
