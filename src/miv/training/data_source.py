"""The exemplars given to a workflow: sets, a folder of splits, or the name of a task."""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from miv.data import SPLITS, ExemplarSet, load_split, load_splits
from miv.data.folder import folders_beside
from miv.data.splits import hold_out
from miv.errors import MIVError, unknown_name
from miv.files.atomic import bring_back
from miv.runtime import Progress
from miv.tasks import build_once, list_tasks

GivenExemplars = ExemplarSet | Mapping[str, ExemplarSet] | str | PathLike[str]
_EXPECTED = "Expected an ExemplarSet, a dict of them by split, a folder of splits, or the name of a task."


def open_splits(
    given: GivenExemplars,
    task_options: Mapping[str, Any],
    built: Path,
    progress: Progress,
    *,
    validation_fraction: float = 0.2,
    seed: int = 0,
) -> dict[str, ExemplarSet]:
    """Return the exemplars by split."""
    if isinstance(given, str | PathLike):
        bring_back(Path(given))
    is_task = isinstance(given, str) and not Path(given).is_dir()
    if task_options and not is_task:
        named = "This is" if isinstance(given, ExemplarSet | Mapping) else f"{given} is a folder of splits,"
        raise MIVError(
            f"{named} not a task, so it takes no option of a task such as {next(iter(task_options))}. Leave it out."
        )
    if isinstance(given, ExemplarSet):
        return _divided(given, validation_fraction, seed)
    if isinstance(given, Mapping):
        return _checked(given)
    if not isinstance(given, str | PathLike):
        raise MIVError(f"The exemplars are a {type(given).__name__}. {_EXPECTED}")
    if not is_task:
        return load_splits(Path(given), verify=True)
    if Path(given).is_file():
        raise MIVError(
            f"{given} is a file. Expected a folder of splits, or the name of a task. `miv data from-table` makes "
            "a folder of splits from a table."
        )
    if given not in list_tasks():
        raise unknown_name("folder or task", str(given), [*list_tasks(), *folders_beside(Path(given))])
    return build_once(str(given), task_options, built, progress)


def open_one(given: GivenExemplars, split: str) -> ExemplarSet:
    """Return one set: the given one, or the named split of several sets or of a folder."""
    if isinstance(given, ExemplarSet):
        return given
    if isinstance(given, Mapping):
        sets = _checked(given)
        if split not in sets:
            raise unknown_name("split", split, sets)
        return sets[split]
    if not isinstance(given, str | PathLike):
        raise MIVError(f"The exemplars are a {type(given).__name__}. {_EXPECTED}")
    return load_split(Path(given), split, verify=True)


def _divided(exemplars: ExemplarSet, validation_fraction: float, seed: int) -> dict[str, ExemplarSet]:
    if not 0 < validation_fraction < 1:
        raise MIVError(f"validation_fraction is {validation_fraction}. Expected more than 0, and less than 1.")
    sets = hold_out(exemplars, validation_fraction, seed)
    if sets["validation"] is exemplars:
        raise MIVError(
            f"These {len(exemplars):,} exemplars cannot be divided so that train and validation have both labels. "
            "Give at least two exemplars of each label, or a dict with train and validation."
        )
    return sets


def _checked(given: Mapping[str, ExemplarSet]) -> dict[str, ExemplarSet]:
    for split, exemplars in given.items():
        if split not in SPLITS:
            raise unknown_name("split", str(split), SPLITS)
        if not isinstance(exemplars, ExemplarSet):
            raise MIVError(f"The split {split!r} is a {type(exemplars).__name__}. Expected an ExemplarSet.")
    return {split: given[split] for split in SPLITS if split in given}
