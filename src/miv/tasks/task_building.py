"""Build the sets of a task once and cache them."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from miv import __version__
from miv.data import save_splits
from miv.runtime.progress import Progress
from miv.tasks.task_base import create_task


def build_once(name: str, options: Mapping[str, Any], folder: Path, progress: Progress) -> Path:
    """Build the sets of a task in a subfolder of ``folder``, unless they already exist.

    The folder name contains the task's name and a hash of its options, its raw files and the version of miv.
    """
    task = create_task(name, **options)
    values = dataclasses.asdict(task)  # type: ignore[call-overload]
    chosen = {key: str(value.resolve()) if isinstance(value, Path) else value for key, value in values.items()}
    raw = [Path(value) for key, value in values.items() if isinstance(value, Path) or key == "raw"]
    path = folder / _name(name, chosen, raw)
    if not path.is_dir():
        sets = task.build(progress)
        path = folder / _name(name, chosen, raw)  # the task may have just downloaded its raw files
        if not path.is_dir():
            save_splits(sets, path, builder=name, options=chosen, seed=task.seed)
    return path


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
