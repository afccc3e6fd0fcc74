"""Building the sets of a task on the way to something else, once."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from miv import __version__
from miv.exemplars import save_splits
from miv.progress import Progress
from miv.tasks.base import create_task


def build_once(name: str, options: Mapping[str, Any], folder: Path, progress: Progress) -> Path:
    """Build the sets of a task into a folder within ``folder``, unless the same were built there before.

    The folder's name holds the task's name and a hash of all its options and of the version of miv.
    """
    task = create_task(name, **options)
    values = dataclasses.asdict(task)  # type: ignore[call-overload]
    chosen = {key: str(value.resolve()) if isinstance(value, Path) else value for key, value in values.items()}
    digest = hashlib.sha256(json.dumps([__version__, name, chosen], sort_keys=True).encode()).hexdigest()
    path = folder / f"{name}-{digest[:12]}"
    if not path.is_dir():
        save_splits(task.build(progress), path, builder=name, options=chosen, seed=task.seed)
    return path
