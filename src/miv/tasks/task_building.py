"""Build the sets of a task once and cache them."""

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from miv import __version__
from miv.data import ExemplarSet, load_splits, save_splits
from miv.errors import MIVError
from miv.io.cache_folder import discard, going_on_without, one_at_a_time
from miv.io.table_records import require_parquet
from miv.runtime.progress import Progress
from miv.tasks.task_base import create_task


def build_once(name: str, options: Mapping[str, Any], folder: Path, progress: Progress) -> dict[str, ExemplarSet]:
    """Open the sets of a task in the cache ``folder``, or build them and store them there.

    Every hash is checked. Damaged sets are built again; if the folder cannot be written, the sets stay in memory.
    """
    require_parquet()
    task = create_task(name, **options)
    path = built_folder(name, options, folder)
    sets = _open(path)
    if sets is not None:
        return sets
    with one_at_a_time(folder / f".{name}.lock", progress, f"the sets of {name}"):
        sets = _open(path, damaged="The sets are built again.")  # another process may have built them
        if sets is not None:
            return sets
        if os.path.lexists(path):  # it cannot be read now, and is kept
            return task.build(progress)
        built = task.build(progress)
        path = built_folder(name, options, folder)  # the task may have just downloaded its raw files
        with going_on_without(folder):
            if not path.is_dir():
                save_splits(built, path, builder=name, options=_plain_options(name, options), seed=task.seed)
            return load_splits(path)  # mapped from the files, which takes less memory
    return built


def built_folder(name: str, options: Mapping[str, Any], folder: Path) -> Path:
    """The subfolder of ``folder`` for the sets of a task.

    Its name contains the task's name and a hash of its options, its raw files and the version of miv.
    """
    values = dataclasses.asdict(create_task(name, **options))  # type: ignore[call-overload]
    raw = [Path(value) for key, value in values.items() if isinstance(value, Path) or key == "raw"]
    return folder / _name(name, _plain_options(name, options), raw)


def _plain_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    values = dataclasses.asdict(create_task(name, **options))  # type: ignore[call-overload]
    return {key: str(value.resolve()) if isinstance(value, Path) else value for key, value in values.items()}


def _open(path: Path, damaged: str = "") -> dict[str, ExemplarSet] | None:
    """The sets in a folder; ``None`` if there are none or they are damaged. With ``damaged``, those are discarded."""
    if not os.path.lexists(path):
        return None
    try:
        return load_splits(path, verify=True)
    except (MIVError, OSError) as error:
        if damaged:
            discard(path, error, damaged)
        return None


def _name(task: str, options: dict[str, Any], raw: list[Path]) -> str:
    """Name, size and time of every raw file represent its content, which may be gigabytes."""
    files = [
        [str(file.relative_to(folder)), file.stat().st_size, file.stat().st_mtime_ns]
        for folder in raw
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not file.name.startswith(".")
    ]
    made_of = json.dumps([__version__, task, options, files], sort_keys=True)
    return f"{task}-{hashlib.sha256(made_of.encode()).hexdigest()[:12]}"
