"""A folder of splits: ``train``, ``validation`` and ``test``, each an independent set."""

from pathlib import Path
from typing import Any

from miv.data.exemplar_set import ExemplarSet
from miv.data.manifest import Manifest
from miv.data.set_folder import is_set, refuse_to_destroy, write_set
from miv.errors import MIVError, unknown_name
from miv.io.whole_files import bring_back, whole_folder

SPLITS = ("train", "validation", "test")

SPLIT_DRAW = len(SPLITS)
"""Index of the random generator that assigns the splits, after those of the splits themselves."""


def save_splits(
    sets: dict[str, ExemplarSet],
    folder: Path | str,
    *,
    builder: str,
    options: dict[str, Any],
    seed: int | None,
    overwrite: bool = False,
) -> None:
    """Write ``folder/<split>/`` for all splits atomically.

    Args:
        sets: the sets by split, some or all of ``train``, ``validation``, ``test``.
        folder: output folder; must be new or empty, or contain sets if ``overwrite`` is true.
        builder: the task or command that made the sets, for the manifests.
        options: its options, for the manifests.
        seed: its random seed, for the manifests.
        overwrite: replace existing sets once the new ones are complete.
    """
    if not sets:
        raise MIVError(f"There are no splits to save. Expected some of {', '.join(SPLITS)}.")
    for split in sets:
        if split not in SPLITS:
            raise unknown_name("split", split, SPLITS)
    folder = Path(folder)
    refuse_to_destroy(folder, overwrite=overwrite, splits=SPLITS)
    with whole_folder(folder) as temporary:
        for split, exemplars in sets.items():
            (temporary / split).mkdir()
            write_set(exemplars, temporary / split, builder=builder, options=options, seed=seed, splits=list(sets))


def load_splits(folder: Path | str, *, verify: bool = False) -> dict[str, ExemplarSet]:
    """Open the splits of a folder, in the order train, validation, test; all that were saved together must be there.

    Args:
        folder: the folder of splits.
        verify: also check every value of a mapped pool.
    """
    folder = Path(folder)
    found = _splits_in(folder)
    sets = {split: ExemplarSet.load(folder / split, verify=verify) for split in found}
    saved = {split for one in found for split in Manifest.read(folder / one).splits or []}
    missing = [split for split in SPLITS if split in saved - set(found)]
    if missing:
        raise MIVError(
            f"{folder} was saved with the splits {', '.join(split for split in SPLITS if split in saved)}, and "
            f"{', '.join(missing)} is missing. Copy the whole folder again, or build it again."
        )
    return sets


def load_split(folder: Path | str, split: str, *, verify: bool = False) -> ExemplarSet:
    """Open one split of a folder of splits; if the folder is itself a set, open that set."""
    folder = Path(folder)
    if is_set(folder):
        return ExemplarSet.load(folder, verify=verify)
    found = _splits_in(folder, or_set=True)
    if split not in found:
        raise unknown_name("split", split, found)
    return ExemplarSet.load(folder / split, verify=verify)


def folders_beside(given: Path, *, or_set: bool = False) -> list[str]:
    """The folders of splits in the same place, to suggest one of them; with ``or_set``, single sets too."""
    try:
        return [
            str(path)
            for path in given.parent.iterdir()
            if (or_set and is_set(path)) or any(is_set(path / split) for split in SPLITS)
        ]
    except (OSError, ValueError):  # not a place
        return []


def _splits_in(folder: Path, *, or_set: bool = False) -> list[str]:
    bring_back(folder)
    found = [split for split in SPLITS if (folder / split).is_dir()]
    if not found:
        if not folder.exists():
            if known := folders_beside(folder, or_set=or_set):
                raise unknown_name("folder", str(folder), known)
            raise MIVError(f"There is no folder {folder}. Expected one with the splits of a set.")
        if is_set(folder):
            hint = "It is a single set. Save one set per split, as in exemplars.save(folder / 'train')."
        else:
            hint = "`miv data from-folder` builds them from one folder per class, `miv data from-table` from a table."
        raise MIVError(f"{folder} contains none of the folders {', '.join(SPLITS)}. {hint}")
    has_classes = any(path.is_dir() for split in found for path in (folder / split).iterdir())
    if has_classes and not any(is_set(folder / split) for split in found):
        raise MIVError(
            f"{folder} contains folders of instances, not saved sets. Build sets from them first: "
            f"miv data from-folder {folder} --out {folder}-sets"
        )
    return found
