"""A folder of splits: ``train``, ``validation`` and ``test``, each a set that stands on its own."""

from pathlib import Path
from typing import Any

from miv.data.exemplar_set import ExemplarSet
from miv.data.set_folder import is_set, refuse_to_destroy, write_set
from miv.errors import MIVError, unknown_name
from miv.io.whole_files import whole_folder

SPLITS = ("train", "validation", "test")

SPLIT_DRAW = len(SPLITS)
"""The number, after those of the splits, of the random generator that deals out the splits themselves."""


def save_splits(
    sets: dict[str, ExemplarSet],
    folder: Path | str,
    *,
    builder: str,
    options: dict[str, Any],
    seed: int | None,
    overwrite: bool = False,
) -> None:
    """Write ``folder/<split>/`` for each split in one step: all of them, or nothing.

    Args:
        sets: the sets by split, some or all of ``train``, ``validation``, ``test``.
        folder: where to; it must not exist yet, or be empty, or hold sets and ``overwrite`` be true.
        builder: the task or command that made the sets, for the manifests.
        options: what it was given, for the manifests.
        seed: start of its random numbers, for the manifests.
        overwrite: replace older sets, once the new ones are whole.
    """
    if not sets:
        raise MIVError(f"There is no split to save. Expected some of {', '.join(SPLITS)}.")
    for split in sets:
        if split not in SPLITS:
            raise unknown_name("split", split, SPLITS)
    folder = Path(folder)
    refuse_to_destroy(folder, overwrite=overwrite, splits=SPLITS)
    with whole_folder(folder) as temporary:
        for split, exemplars in sets.items():
            (temporary / split).mkdir()
            write_set(exemplars, temporary / split, builder=builder, options=options, seed=seed)


def load_splits(folder: Path | str, *, verify: bool = False) -> dict[str, ExemplarSet]:
    """Open the splits of a folder, in the order train, validation, test, as far as they are there."""
    folder = Path(folder)
    found = [split for split in SPLITS if (folder / split).is_dir()]
    if not found:
        if is_set(folder):
            hint = "It is one set; save one set per split, as in exemplars.save(folder / 'train')."
        else:
            hint = "`miv data from-folder` makes them from a folder per class, `miv data from-table` from a table."
        raise MIVError(f"{folder} holds none of the folders {', '.join(SPLITS)}. {hint}")
    return {split: ExemplarSet.load(folder / split, verify=verify) for split in found}


def load_split(folder: Path | str, split: str) -> ExemplarSet:
    """Open one split of a folder of splits; where the folder is itself one set, that set."""
    if is_set(Path(folder)):
        return ExemplarSet.load(folder)
    sets = load_splits(folder)
    if split not in sets:
        raise unknown_name("split", split, sets)
    return sets[split]
