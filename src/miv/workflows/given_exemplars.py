"""Exemplars as people give them to a workflow: sets, a folder of splits, or the name of a task."""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from miv.data import SPLITS, ExemplarSet, load_split, load_splits
from miv.data.holding_out import hold_out
from miv.errors import MIVError, unknown_name
from miv.runtime.progress import Progress

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
    """Return the exemplars by split.

    Args:
        given: one set, of which some exemplars are held out for validation; sets by split; a folder of splits; or the
            name of a task, which is built unless that was done before.
        task_options: options of the task.
        built: the folder where built sets are kept.
        progress: is told how far building is.
        validation_fraction: share of one set that becomes ``validation``. All exemplars of one query stay together.
            With 0 nothing is held out: ``validation`` is the same set as ``train``.
        seed: of what is held out.
    """
    is_task = isinstance(given, str) and not Path(given).is_dir()
    if task_options and not is_task:
        named = "This is" if isinstance(given, ExemplarSet | Mapping) else f"{given} is a folder of splits,"
        raise MIVError(
            f"{named} not a task, so it takes no option of a task such as {next(iter(task_options))}. Leave it out."
        )
    if isinstance(given, ExemplarSet):
        return hold_out(given, validation_fraction, seed)
    if isinstance(given, Mapping):
        return _checked(given)
    if not isinstance(given, str | PathLike):
        raise MIVError(f"The exemplars are a {type(given).__name__}. {_EXPECTED}")
    if not is_task:
        return load_splits(given)
    from miv.tasks import build_once, list_tasks

    if given not in list_tasks():
        raise unknown_name("folder or task", str(given), list_tasks())
    return load_splits(build_once(str(given), task_options, built, progress))


def open_one(given: GivenExemplars, split: str) -> ExemplarSet:
    """Return one set: as it is given, or that split of several or of a folder."""
    if isinstance(given, ExemplarSet):
        return given
    if isinstance(given, Mapping):
        sets = _checked(given)
        if split not in sets:
            raise unknown_name("split", split, sets)
        return sets[split]
    if not isinstance(given, str | PathLike):
        raise MIVError(f"The exemplars are a {type(given).__name__}. {_EXPECTED}")
    return load_split(Path(given), split)


def _checked(given: Mapping[str, ExemplarSet]) -> dict[str, ExemplarSet]:
    for split, exemplars in given.items():
        if split not in SPLITS:
            raise unknown_name("split", str(split), SPLITS)
        if not isinstance(exemplars, ExemplarSet):
            raise MIVError(f"The split {split!r} is a {type(exemplars).__name__}. Expected an ExemplarSet.")
    return {split: given[split] for split in SPLITS if split in given}
