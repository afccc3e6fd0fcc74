"""Open the sets that a command is given by one word: a folder of splits, or a task."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from miv.errors import MIVError, unknown_name

if TYPE_CHECKING:  # imported when it is needed, so that `miv --help` does not wait for it
    from miv.data import ExemplarSet


def open_sets(data: str, options: dict[str, Any], built: Path) -> "dict[str, ExemplarSet]":
    """Open a folder of splits, or build the task of that name if it was not built before."""
    from miv.data import load_splits
    from miv.runtime.progress import RichProgress
    from miv.tasks import build_once, list_tasks

    if Path(data).is_dir():
        if options:
            raise MIVError(
                f"{data} is a folder of splits, so it takes no option of a task such as {next(iter(options))}."
            )
        return load_splits(data)
    if data not in list_tasks():
        raise unknown_name("folder or task", data, list_tasks())
    return load_splits(build_once(data, options, built, RichProgress()))
