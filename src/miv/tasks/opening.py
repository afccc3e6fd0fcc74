"""Open the exemplars that a user named: sets in memory, a folder of splits, or a task, which is built first."""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from miv.data import SPLITS, ExemplarSet, load_split, load_splits
from miv.data.folder import folders_beside
from miv.data.splits import hold_out, one_split
from miv.errors import MIVError, unknown_name
from miv.files.atomic import bring_back
from miv.runtime import Progress
from miv.tasks.base import build_once, list_tasks

Exemplars = ExemplarSet | Mapping[str, ExemplarSet] | str | PathLike[str]


def open_splits(
    exemplars: Exemplars,
    task_options: Mapping[str, Any],
    built: Path,
    progress: Progress,
    *,
    validation_fraction: float = 0.2,
    seed: int = 0,
) -> dict[str, ExemplarSet]:
    """Return the sets by split. ``built`` is the folder for sets of tasks; a single set is divided."""
    path = None if isinstance(exemplars, ExemplarSet | Mapping) else _path(exemplars)
    if path is not None:
        bring_back(path)
    is_task = isinstance(exemplars, str) and path is not None and not path.is_dir()
    if task_options and not is_task:
        what = "This is" if path is None else f"{path} is a folder of splits,"
        option = next(iter(task_options))
        raise MIVError(f"{what} not a task, so it takes no option of a task such as {option}. Leave it out.")
    if isinstance(exemplars, ExemplarSet):
        if not 0 < validation_fraction < 1:
            raise MIVError(f"validation_fraction is {validation_fraction}. Expected more than 0, and less than 1.")
        sets = hold_out(exemplars, validation_fraction, seed)
        if sets["validation"] is exemplars:
            raise MIVError(
                f"These {len(exemplars):,} exemplars cannot be divided so that both parts have both labels. Give at "
                "least two exemplars of each label, or a dict with train and validation."
            )
        return sets
    if isinstance(exemplars, Mapping):
        return checked_splits(exemplars)
    path = _path(exemplars)
    if not is_task:
        return load_splits(path, verify=True)
    if path.is_file():
        raise MIVError(f"{path} is a file. Expected a folder of splits, as from `miv data from-table`, or a task.")
    if exemplars not in list_tasks():
        raise unknown_name("folder or task", str(exemplars), [*list_tasks(), *folders_beside(path)])
    return build_once(str(exemplars), task_options, built, progress)


def open_one(exemplars: Exemplars, split: str) -> ExemplarSet:
    """Return one set: the given one, or the named split of several sets or of a folder."""
    if isinstance(exemplars, ExemplarSet):
        return exemplars
    if isinstance(exemplars, Mapping):
        return one_split(checked_splits(exemplars), split)
    return load_split(_path(exemplars), split, verify=True)


def _path(exemplars: object) -> Path:
    if not isinstance(exemplars, str | PathLike):
        expected = "an ExemplarSet, a dict of them by split, a folder of splits, or to train the name of a task"
        raise MIVError(f"The exemplars are a {type(exemplars).__name__}. Expected {expected}.")
    return Path(exemplars)


def checked_splits(sets: Mapping[str, ExemplarSet]) -> dict[str, ExemplarSet]:
    """The sets in the order of their splits; a wrong name or type is an error."""
    for split, exemplars in sets.items():
        if split not in SPLITS:
            raise unknown_name("split", str(split), SPLITS)
        if not isinstance(exemplars, ExemplarSet):
            raise MIVError(f"The split {split!r} is a {type(exemplars).__name__}. Expected an ExemplarSet.")
    return {split: sets[split] for split in SPLITS if split in sets}
