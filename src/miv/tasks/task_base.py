"""The registry of tasks: a name, its options as a dataclass, and ``build``.

A task is one file in ``miv/tasks`` with one frozen dataclass:

.. code-block:: python

    @register_task("coins", help="Tosses of a coin.")
    @dataclass(frozen=True)
    class Coins:
        '''Tosses of a coin.

        Args:
            tosses: number of tosses per bag.
            seed: random seed.
            round: index of the random draw; draws are independent.
        '''

        tosses: int = 5
        seed: int = 0
        round: int = 0

        def build(self, progress: Progress) -> dict[str, ExemplarSet]: ...

Every field needs a type, a default and its line under ``Args:``; they become the options of
``miv data build coins``. There is no list to update: every module of the folder is found automatically.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Literal, Protocol, TypeVar, get_args, get_origin, get_type_hints

from miv.data import ExemplarSet
from miv.errors import unknown_name
from miv.registry import Registry
from miv.runtime.docstrings import argument_lines
from miv.runtime.progress import Progress


class Task(Protocol):
    """Interface of a registered dataclass of options."""

    @property
    def seed(self) -> int:
        """Random seed."""
        ...

    @property
    def round(self) -> int:
        """Index of the random draw."""
        ...

    def build(self, progress: Progress) -> dict[str, ExemplarSet]:
        """Build the sets by split: ``train``, ``validation``, ``test``."""
        ...


@dataclass(frozen=True)
class TaskOption:
    """One option of a task: its name, type, default and what it does."""

    name: str
    type: Any
    default: Any
    help: str

    @property
    def choices(self) -> tuple[str, ...]:
        """The values of a ``Literal`` option; empty for other options."""
        return get_args(self.type) if get_origin(self.type) is Literal else ()


_tasks: Registry[Task] = Registry("task")
_helps: dict[str, str] = {}
_Options = TypeVar("_Options", bound=type[Any])


def register_task(name: str, *, help: str) -> Callable[[_Options], _Options]:  # noqa: A002 - as in Typer
    """Register a dataclass of options under a name for ``create_task`` and the command line."""

    def register(options: _Options) -> _Options:
        _read_options(options)  # raises if an option has no default or help
        _helps[name] = help
        return _tasks.register(name)(options)

    return register


def list_tasks() -> list[str]:
    """The names of all tasks, sorted."""
    _import_tasks()
    return sorted(_tasks.names())


def task_help(name: str) -> str:
    """One-line description of the task."""
    _import_tasks()
    return _helps[_tasks[name].name]


def task_options(name: str) -> list[TaskOption]:
    """The options of a task, in order."""
    _import_tasks()
    return _read_options(_tasks[name].make)


def create_task(name: str, **options: Any) -> Task:
    """Create a task ready to ``build``; the error for an unknown name or option suggests the nearest one."""
    for option in task_options(name):
        if option.choices and option.name in options and options[option.name] not in option.choices:
            raise unknown_name(f"{option.name} of {name}", str(options[option.name]), option.choices)
    return _tasks.create(name, **options)


def _import_tasks() -> None:
    package = import_module("miv.tasks")
    for module in iter_modules(package.__path__):
        import_module(f"miv.tasks.{module.name}")


def _read_options(options: type[Any]) -> list[TaskOption]:
    if not dataclasses.is_dataclass(options):
        raise TypeError(f"{options.__name__} is not a dataclass.")
    types = get_type_hints(options)
    helps = argument_lines(options.__doc__ or "")
    found = []
    for field in dataclasses.fields(options):
        has_factory = field.default_factory is not dataclasses.MISSING
        default = field.default_factory() if callable(field.default_factory) and has_factory else field.default
        if default is dataclasses.MISSING or field.name not in helps:
            raise TypeError(
                f"The option {field.name!r} of {options.__name__} needs a default and its line under 'Args:'."
            )
        found.append(TaskOption(field.name, types[field.name], default, helps[field.name]))
    return found
