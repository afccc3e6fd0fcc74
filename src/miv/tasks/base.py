"""The registry of tasks: a name, its options as a dataclass, and ``build``.

A task is one file in ``miv/tasks`` with one frozen dataclass. Every field needs a type, a default and its line under
``Args:``; they become the options of ``miv data build <task>``.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from miv import __version__
from miv.data import ExemplarSet, load_splits, save_splits
from miv.errors import MIVError, unknown_name
from miv.files.cache import cache_lock, discard, ignoring_cache_errors
from miv.files.tables import require_parquet
from miv.registry import Option, Registry, options_of_class
from miv.runtime import Progress


class Task(Protocol):
    """Interface of a registered dataclass of options, which builds the sets ``train``, ``validation``, ``test``."""

    @property
    def seed(self) -> int: ...

    @property
    def round(self) -> int: ...

    def build(self, progress: Progress) -> dict[str, ExemplarSet]: ...


TASKS: Registry[Task] = Registry("task")
"""All tasks. The first line of a class is its help, and its fields are the options of ``miv data build``."""

register_task = TASKS.register


def list_tasks() -> list[str]:
    """The names of all tasks, sorted."""
    return sorted(TASKS.names())


def task_options(name: str) -> list[Option]:
    """The options of a task, in order."""
    return list(options_of_class(TASKS[name].make).values())


def create_task(name: str, **options: Any) -> Task:
    """Create a task ready to ``build``; the error for an unknown name or option suggests the nearest one."""
    for option in task_options(name):
        if option.choices and option.name in options and options[option.name] not in option.choices:
            raise unknown_name(f"{option.name} of {name}", str(options[option.name]), option.choices)
        if option.type is Path and option.name in options:
            options[option.name] = Path(options[option.name])
    return TASKS.create(name, **options)


_MOST_IMAGE_BYTES = 8 << 30


def check_whole(least: int, most: int | None = None, /, **options: int | None) -> None:
    """Check that options are whole numbers within bounds; ``None`` means not given."""
    for name, value in options.items():
        fits = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and not (fits and least <= value and (most is None or value <= most)):
            bounds = f"of at least {least:,}" if most is None else f"from {least:,} to {most:,}"
            raise MIVError(f"{name} is {value!r}. Expected a whole number {bounds}.")


def check_room(images: int, height: int, width: int) -> None:
    """Raise an error if the images do not fit in the memory of a typical machine."""
    size = images * height * width
    if size > _MOST_IMAGE_BYTES:
        given = f"{images:,} images of {height} × {width} pixels need {size / 2**30:,.1f} GiB"
        raise MIVError(f"{given}. Expected at most {_MOST_IMAGE_BYTES >> 30}; use fewer images.")


def build_once(name: str, options: Mapping[str, Any], folder: Path, progress: Progress) -> dict[str, ExemplarSet]:
    """Open the sets of a task in the cache ``folder``, or build them and store them there."""
    require_parquet()
    task, path = create_task(name, **options), built_folder(name, options, folder)
    if sets := _open(path):
        return sets
    with cache_lock(folder / f".{name}.lock", progress, f"the sets of {name}"):
        if sets := _open(path, damaged="The sets are built again."):  # another process may have built them
            return sets
        built = task.build(progress)
        path = built_folder(name, options, folder)  # the task may have just downloaded its raw files
        with ignoring_cache_errors(folder):
            if not os.path.lexists(path):  # otherwise it cannot be read now, and stays
                save_splits(built, path, builder=name, options=_plain_options(task), seed=task.seed)
                return load_splits(path)  # mapped from the files, which takes less memory
    return built


def built_folder(name: str, options: Mapping[str, Any], folder: Path) -> Path:
    """The subfolder of ``folder`` for the sets of a task: its name and a hash of all that decides its content.

    That is its options, the version of miv, and name, size and time of every raw file, which may be gigabytes.
    """
    task = create_task(name, **options)
    files = [
        [str(file.relative_to(value)), file.stat().st_size, file.stat().st_mtime_ns]
        for value in vars(task).values()
        if isinstance(value, Path)
        for file in sorted(value.rglob("*"))
        if file.is_file() and not file.name.startswith(".")
    ]
    made_of = json.dumps([__version__, name, _plain_options(task), files], sort_keys=True)
    return folder / f"{name}-{hashlib.sha256(made_of.encode()).hexdigest()[:12]}"


def _plain_options(task: Task) -> dict[str, Any]:
    return {key: str(value.resolve()) if isinstance(value, Path) else value for key, value in vars(task).items()}


def _open(path: Path, damaged: str = "") -> dict[str, ExemplarSet] | None:
    """The sets in a folder; ``None`` if there are none or they are damaged. With ``damaged``, those are discarded."""
    try:
        return load_splits(path, verify=True) if os.path.lexists(path) else None
    except (MIVError, OSError) as error:
        if damaged:
            discard(path, error, damaged)
        return None
