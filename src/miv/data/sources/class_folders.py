"""Class folders: ``root/<class>/``, with optional folders for splits or parents above them."""

import logging
from dataclasses import dataclass
from pathlib import Path

from miv.errors import MIVError
from miv.io.image_files import IMAGE_SUFFIXES
from miv.io.instance_files import InstanceKind, check_text

logger = logging.getLogger(__name__)

KIND_OF_SUFFIX: dict[str, InstanceKind] = {
    **dict.fromkeys(IMAGE_SUFFIXES, "image"),
    ".txt": "text",
    ".npy": "features",
}
_SPLIT_NAMES = {
    "train": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "dev": "validation",
    "test": "test",
}


@dataclass(frozen=True)
class ClassFolder:
    """The files of one class.

    Args:
        name: the class; below a parent ``<parent>/<class>``, because two parents may have classes of the same name.
        files: the files, sorted by name.
        split: the split that contains it; empty if there are no split folders.
        parent: the folder above it; empty if there is none.
    """

    name: str
    files: tuple[Path, ...]
    split: str = ""
    parent: str = ""


def find_class_folders(root: Path, *, below_parents: bool) -> list[ClassFolder]:
    """Find the classes; all must have the same kind of instance.

    Args:
        root: contains class folders, or some of ``train``, ``validation`` and ``test`` that do.
        below_parents: whether there is one more level: ``<parent>/<class>`` instead of ``<class>``.
    """
    if not root.is_dir():
        raise MIVError(f"{root} is not a folder. Expected a folder with one subfolder per class.")
    below = _folders(root, "<class>/<instance>.png")
    is_split = [folder.name.lower() in _SPLIT_NAMES for folder in below]
    if any(is_split) and not all(is_split):
        _check_no_splits(root, below, below_parents=below_parents)
    if all(is_split):
        found = [
            one for split, folder in _given_splits(below).items() for one in _classes(folder, below_parents, split)
        ]
    else:
        found = _classes(root, below_parents, "")
    kinds = {kind_of(path): path for one in found for path in one.files}
    if len(kinds) > 1:
        examples = ", ".join(f"{kind}: {path}" for kind, path in sorted(kinds.items()))
        raise MIVError(f"{root} contains several kinds of instances ({examples}). Keep one kind.")
    return found


def kind_of(path: Path) -> InstanceKind:
    """The kind of instance in a file, from its suffix."""
    return KIND_OF_SUFFIX[path.suffix.lower()]


def _check_no_splits(root: Path, folders: list[Path], *, below_parents: bool) -> None:
    """Refuse folders of splits beside other folders; a class may be called ``test``, if it holds instances itself."""
    splits = [folder for folder in folders if folder.name.lower() in _SPLIT_NAMES]
    levels = 2 if below_parents else 1  # from a split to the folders of instances
    deeper = [folder for folder in splits if _has_folders(folder, levels)]
    if deeper:
        others = ", ".join(f"{folder.name}/" for folder in folders if folder not in splits)
        named = ", ".join(f"{folder.name}/" for folder in splits)
        raise MIVError(
            f"{root} contains folders of splits ({named}) and others ({others}). Expected either splits (train, "
            f"validation, test) or classes. Move {others} out of {root}, or into one of the splits."
        )


def _has_folders(folder: Path, levels: int) -> bool:
    inside = [entry for entry in folder.iterdir() if entry.is_dir() and not _hidden(entry)]
    return bool(inside) and (levels == 1 or any(_has_folders(entry, levels - 1) for entry in inside))


def _given_splits(folders: list[Path]) -> dict[str, Path]:
    """The folder of each split, in the order train, validation, test."""
    found: dict[str, Path] = {}
    for folder in folders:
        split = _SPLIT_NAMES[folder.name.lower()]
        if split in found:
            raise MIVError(f"{found[split]} and {folder} are both {split}. Keep one of them.")
        found[split] = folder
    return {split: found[split] for split in dict.fromkeys(_SPLIT_NAMES.values()) if split in found}


def _classes(root: Path, below_parents: bool, split: str) -> list[ClassFolder]:
    if not below_parents:
        return [_class_folder(folder, folder.name, split, "") for folder in _folders(root, "<class>/<instance>.png")]
    found = []
    for parent in _folders(root, "<parent>/<class>/<instance>.png"):
        for folder in _folders(parent, "<class>/<instance>.png"):
            found.append(_class_folder(folder, f"{parent.name}/{folder.name}", split, parent.name))
    return found


def _class_folder(folder: Path, name: str, split: str, parent: str) -> ClassFolder:
    check_text(name, f"{folder}: the name of this class")
    return ClassFolder(name, tuple(_instance_files(folder)), split, parent)


def _folders(root: Path, expected: str) -> list[Path]:
    folders = [entry for entry in sorted(root.iterdir()) if entry.is_dir() and not _hidden(entry)]
    if not folders:
        raise MIVError(f"{root} contains no folders. Expected {root}/{expected}.")
    return folders


def _instance_files(folder: Path) -> list[Path]:
    entries = [entry for entry in sorted(folder.iterdir()) if not _hidden(entry)]
    files = [entry for entry in entries if entry.is_file() and entry.suffix.lower() in KIND_OF_SUFFIX]
    if not files:
        inside = (
            " It contains folders. If these are the classes, use --split-by parent."
            if any(entry.is_dir() for entry in entries)
            else ""
        )
        raise MIVError(
            f"The class folder {folder} contains no instances. Expected .txt or .npy files, or images "
            f"({', '.join(sorted(IMAGE_SUFFIXES))}). Fill it or remove it.{inside}"
        )
    if len(files) < len(entries):
        other = next(entry for entry in entries if entry not in files)
        logger.warning(
            "%s: ignored %d entries that are not instances, such as %s.",
            folder,
            len(entries) - len(files),
            other.name,
        )
    return files


def _hidden(path: Path) -> bool:
    return path.name.startswith(".")
