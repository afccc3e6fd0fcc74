"""Exemplars from one folder per class: ``root/<class>/`` with images, texts or feature vectors."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from miv.data.exemplars import ExemplarSet
from miv.data.kinds import KINDS, kind_of_file
from miv.data.pool import InstancePool, PoolBuilder
from miv.data.sources.drawing import Drawing
from miv.data.splits import SPLIT_DRAW, SPLITS, Shares, split_names, warn_of_few_classes
from miv.errors import MIVError, number_of, unknown_name, warn
from miv.files.images import IMAGE_SUFFIXES, ImageForm
from miv.files.instances import check_text, name_below
from miv.registry import from_options
from miv.runtime import Progress, SilentProgress

# Class folders: ``root/<class>/``, with optional folders for splits or parents above them.

_SPLIT_NAMES = {split: split for split in SPLITS} | dict.fromkeys(("val", "valid", "dev"), "validation")


@dataclass(frozen=True)
class ClassFolder:
    """The files of one class, sorted by name; ``split`` and ``parent`` are empty if there are no such folders."""

    name: str
    files: tuple[Path, ...]
    split: str = ""
    parent: str = ""


def find_class_folders(root: Path, *, below_parents: bool) -> list[ClassFolder]:
    """Find the classes below a root, or below folders of splits in it; all must have the same kind of instance."""
    if not root.is_dir():
        raise MIVError(f"{root} is not a folder. Expected a folder with one subfolder per class.")
    folders = [
        ClassFolder(name, tuple(_instance_files(folder)), split, parent)
        for split, above in _split_folders(root, below_parents).items()
        for parent, name, folder in _classes(above, below_parents)
    ]
    kinds = {kind_of_file(path.name): path for folder in folders for path in folder.files}
    if len(kinds) > 1:
        examples = ", ".join(f"{kind}: {path}" for kind, path in sorted(kinds.items()))
        raise MIVError(f"{root} contains several kinds of instances ({examples}). Keep one kind.")
    return folders


def _split_folders(root: Path, below_parents: bool) -> dict[str, Path]:
    """The folder of each split, in the order train, validation, test; the root itself if there are no splits."""
    folders = _folders(root, "<class>/<instance>.png")
    splits = [folder for folder in folders if folder.name.lower() in _SPLIT_NAMES]
    if others := [folder for folder in folders if folder not in splits]:
        # A class may be called ``test``, if it holds instances itself.
        below = "[!.]*/[!.]*" if below_parents else "[!.]*"  # from a split to the folders of instances
        if not any(entry.is_dir() for folder in splits for entry in folder.glob(below)):
            return {"": root}
        named, wrong = (", ".join(f"{folder.name}/" for folder in some) for some in (splits, others))
        raise MIVError(
            f"{root} contains folders of splits ({named}) and others ({wrong}). Expected either splits (train, "
            f"validation, test) or classes. Move {wrong} out of {root}, or into one of the splits."
        )
    folder_of: dict[str, Path] = {}
    for folder in splits:
        known = folder_of.setdefault(_SPLIT_NAMES[folder.name.lower()], folder)
        if known != folder:
            raise MIVError(f"{known} and {folder} are the same split. Keep one of them.")
    return {split: folder_of[split] for split in SPLITS if split in folder_of}


def _classes(root: Path, below_parents: bool) -> Iterator[tuple[str, str, Path]]:
    """The parent, if asked for, the class and the folder of each class."""
    for parent in _folders(root, "<parent>/<class>/<instance>.png") if below_parents else [root]:
        for folder in _folders(parent, "<class>/<instance>.png"):
            name = f"{parent.name}/{folder.name}" if below_parents else folder.name
            check_text(name, f"{folder}: the name of this class")
            yield parent.name if below_parents else "", name, folder


def _folders(root: Path, expected: str) -> list[Path]:
    folders = [entry for entry in _entries(root) if entry.is_dir()]
    if not folders:
        raise MIVError(f"{root} contains no folders. Expected {root}/{expected}.")
    return folders


def _entries(folder: Path) -> list[Path]:
    return [entry for entry in sorted(folder.iterdir()) if not entry.name.startswith(".")]


def _instance_files(folder: Path) -> list[Path]:
    entries = _entries(folder)
    files = [entry for entry in entries if entry.is_file() and kind_of_file(entry.name)]
    if not files:
        inside = " If its folders are the classes, use --split-by parent." * any(entry.is_dir() for entry in entries)
        raise MIVError(
            f"The class folder {folder} contains no instances. Expected .txt or .npy files, or images "
            f"({', '.join(sorted(IMAGE_SUFFIXES))}). Fill it or remove it.{inside}"
        )
    if others := [entry.name for entry in entries if entry not in files]:
        warn(f"{folder}: ignored {number_of(len(others), 'entry', 'entries')}, such as {others[0]}.")
    return files


SplitFoldersBy = Literal["class", "parent"]


@dataclass(frozen=True)
class FromFolder:
    """Exemplars from a folder with one subfolder per class.

    Every file is one instance; a ``.npy`` file of shape ``(N, C)`` is ``N`` of them. Equal instances of one
    class count once; an instance in several classes is left out. Both print a warning. If ``root`` contains some of
    ``train``, ``validation`` and ``test``, each contains the class folders of that split; without ``validation``, some
    classes of ``train`` are used for it. No class is in two splits that are drawn.

    Args:
        root: folder with one subfolder per class.
        seed: random seed.
        round: index of the random draw; draws are independent.
        split_by: what to keep within one split: each class, or each parent in ROOT/<parent>/<class>/.
    """

    root: Path
    images: ImageForm = field(default_factory=ImageForm)
    drawing: Drawing = field(default_factory=Drawing)
    shares: Shares = field(default_factory=Shares)
    seed: int = field(default=0, metadata={"least": 0})
    round: int = field(default=0, metadata={"least": 0})
    split_by: SplitFoldersBy = "class"

    def __post_init__(self) -> None:
        if self.split_by not in get_args(SplitFoldersBy):
            raise unknown_name("split_by value", self.split_by, get_args(SplitFoldersBy))

    def build(self, progress: Progress) -> dict[str, ExemplarSet]:
        """Build the sets by split."""
        try:
            folders = find_class_folders(self.root, below_parents=self.split_by == "parent")
        except OSError as error:
            raise MIVError(f"Could not read the folder {self.root}: {error}.") from error
        dealt = self._deal_out(folders)
        pool, owner = _read_instances(self.root, folders, self.images, progress)
        members = {
            split: {folders[number].name: rows for number in numbers if len(rows := np.flatnonzero(owner == number))}
            for split, numbers in dealt.items()
        }
        warn_of_few_classes({split: set(of_split) for split, of_split in members.items()})
        shares = self.shares.by_split()
        if folders[0].split:
            counts = {split: sum(map(len, rows.values())) for split, rows in members.items()}
            shares = {split: count / max(1, sum(counts.values())) for split, count in counts.items()}
        sets = {}
        for split, of_split in members.items():
            exemplars = max(2, round(self.drawing.exemplars * shares[split]))
            rng = self._rng(SPLITS.index(split))
            sets[split] = self.drawing.draw(pool, of_split, exemplars, rng, progress, split).compact()
        return sets

    def _deal_out(self, folders: list[ClassFolder]) -> dict[str, list[int]]:
        """The folder numbers of each split."""
        if not folders[0].split:
            return self._drawn(folders, range(len(folders)), self.shares)
        dealt: dict[str, list[int]] = {}
        for number, folder in enumerate(folders):
            dealt.setdefault(folder.split, []).append(number)
        splits_with = Counter(folder.name for folder in folders)
        if in_several := [name for name, count in splits_with.items() if count > 1]:
            number_of_classes = number_of(len(in_several), "class", "classes")
            warn(f"{number_of_classes} in more than one split, such as {min(in_several)}.")
        if "train" in dealt and "validation" not in dealt and self.shares.validation:
            share = f"{self.shares.validation:.0%} of the classes of train for validation"
            warn(f"There is no validation folder. Using {share}; change it with --validation, such as 0.34.")
            dealt = self._drawn(folders, dealt.pop("train"), Shares(self.shares.validation, 0.0)) | dealt
        return dealt

    def _drawn(self, folders: list[ClassFolder], numbers: Sequence[int], shares: Shares) -> dict[str, list[int]]:
        is_parent = self.split_by == "parent"
        units = {number: folders[number].parent if is_parent else folders[number].name for number in numbers}
        names = sorted(set(units.values()))
        dealt = split_names(names, shares, self._rng(SPLIT_DRAW), "parents" if is_parent else "classes")
        return {split: [number for number in numbers if units[number] in own] for split, own in dealt.items()}

    def _rng(self, number: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, self.round, number])


def _read_instances(
    root: Path, folders: list[ClassFolder], form: ImageForm, progress: Progress
) -> tuple[InstancePool, NDArray[np.int64]]:
    """Read all files into one pool, each instance once and in one class; also return the folder ``(P,)`` of each."""
    kind = KINDS[kind_of_file(folders[0].files[0].name)]
    builder = PoolBuilder(kind.name, form)
    seen: list[tuple[int, Path]] = []  # folder and file of the first copy of each instance
    ambiguous: dict[int, Path] = {}
    repeated = in_other_split = 0
    with progress.step("Reading instances", total=sum(len(folder.files) for folder in folders)) as advance:
        for number, folder in enumerate(folders):
            for path in folder.files:
                values = kind.read(path, form)
                for row, value in enumerate(values):
                    index = builder.add(value, str(path), name_below(root, path, row if len(values) > 1 else None))
                    if index == len(seen):
                        seen.append((number, path))
                        continue
                    first = folders[seen[index][0]]
                    if first.name != folder.name:
                        ambiguous.setdefault(index, path)
                    elif first.split != folder.split:
                        in_other_split += 1
                    else:
                        repeated += 1
                advance(1)
    if repeated:
        warn(f"{number_of(repeated, 'duplicate')} within a class: equal instances count once.")
    if in_other_split:
        warn(f"{number_of(in_other_split, 'instance')} in more than one split: used only in the first.")
    pool = builder.pool([folders[number].name for number, _ in seen])
    owner = np.array([number for number, _ in seen], np.int64)
    if not ambiguous:
        return pool, owner
    second = next(iter(ambiguous.values()))
    warn(f"{number_of(len(ambiguous), 'instance')} in more than one class: left out, such as {second}.")
    rows = np.setdiff1d(np.arange(len(pool)), list(ambiguous))
    if not len(rows):
        raise MIVError("Every instance is in more than one class. Each class needs its own instances.")
    return pool.take(rows), owner[rows]


def splits_from_folder(root: str | PathLike[str], **options: Any) -> dict[str, ExemplarSet]:
    """Draw exemplars from one folder per class, by split. The options are the flags of ``miv data from-folder``."""
    return from_options(FromFolder, {"root": Path(root), **options}).build(SilentProgress())
