"""Exemplars from one folder per class: ``root/<class>/`` with images, texts or feature vectors."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from miv.data import SPLITS, ExemplarSet, InstanceKind, InstancePool
from miv.data.sources.class_folders import ClassFolder, find_class_folders, kind_of
from miv.data.sources.drawing import Drawing
from miv.data.sources.kept_together import KeptTogether, SplitFoldersBy
from miv.data.sources.pool_builder import ImageForm, PoolBuilder, read_image_file
from miv.data.sources.split_shares import Shares, Unit, split_names, warn_of_few_classes
from miv.data.split_folders import SPLIT_DRAW
from miv.errors import MIVError, unknown_name
from miv.io.instance_files import read_text_file, read_vectors_file
from miv.runtime.progress import Progress

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FromFolder:
    r"""Exemplars from a folder with one subfolder per class.

    Every file is one instance; a ``.npy`` file of shape ``(N, C)`` is ``N`` of them. Equal instances of one
    class count once; an instance in several classes is left out. Both print a warning.

    Args:
        root: the folder; ``root/<class>/`` holds images, ``.txt`` or ``.npy`` files, all of one kind. If ``root``
            contains ``train``, ``validation`` and ``test`` (or some of them), each contains the class folders of
            that split; without ``validation``, some classes of ``train`` are used for it.
        images: target form of all images.
        drawing: how exemplars are drawn.
        shares: shares of the classes for validation and test; no class is in two splits.
        seed: random seed.
        round: index of the random draw; draws are independent.
        split_by: what to keep within one split: each ``class``, or each ``parent``, the folder above the classes in
            ``root/<parent>/<class>/``.
        together_by: a regular expression; folders whose names have the same match (its first group, if it has one) stay
            in one split, such as ``(\d+)`` for ``001`` and ``001_forg``.
        forgeries: the ending of folders that hold forgeries, such as ``_forg``: those in ``001_forg`` imitate ``001``,
            stay in its split, take the places of witnesses in its negative bags, and are never a query.
    """

    root: Path
    images: ImageForm = field(default_factory=ImageForm)
    drawing: Drawing = field(default_factory=Drawing)
    shares: Shares = field(default_factory=Shares)
    seed: int = 0
    round: int = 0
    split_by: SplitFoldersBy = "class"
    together_by: str | None = None
    forgeries: str | None = None

    def __post_init__(self) -> None:
        if self.split_by not in get_args(SplitFoldersBy):
            raise unknown_name("split_by value", self.split_by, get_args(SplitFoldersBy))
        self._together()

    def _together(self) -> KeptTogether:
        return KeptTogether(self.split_by, self.together_by, self.forgeries)

    def build(self, progress: Progress) -> dict[str, ExemplarSet]:
        """Build the sets by split."""
        try:
            folders = find_class_folders(self.root, below_parents=self.split_by == "parent")
        except OSError as error:
            raise MIVError(f"Could not read the folder {self.root}: {error}.") from error
        together = self._together()
        imitated = together.imitated(folders)
        dealt = self._deal_out(folders, together.units(folders))
        if together.plain and self.split_by == "class":
            split_of = {folders[number].name: split for split, numbers in dealt.items() for number in numbers}
            together.warn_of_parted_twins(split_of)
        pool, owner = _read_instances(self.root, folders, self.images, progress)
        members = {
            split: {folders[number].name: rows for number in numbers if len(rows := np.flatnonzero(owner == number))}
            for split, numbers in dealt.items()
        }
        queried = {split: of_split.keys() - imitated.keys() for split, of_split in members.items()}
        warn_of_few_classes(queried, self.shares, drawn=set(queried) - {folder.split for folder in folders})
        shares = self.shares.by_split()
        if folders[0].split:
            counts = {split: sum(map(len, rows.values())) for split, rows in members.items()}
            shares = {split: count / max(1, sum(counts.values())) for split, count in counts.items()}
        sets = {}
        for split, of_split in members.items():
            exemplars = max(2, round(self.drawing.exemplars * shares[split]))
            rng = self._rng(SPLITS.index(split))
            sets[split] = self.drawing.draw(pool, of_split, exemplars, rng, progress, split, imitated).compact()
        return sets

    def _deal_out(self, folders: list[ClassFolder], units: list[str]) -> dict[str, list[int]]:
        """The folder numbers of each split, given what each folder is kept together with."""
        if not folders[0].split:
            return self._drawn(list(range(len(folders))), units, self.shares)
        given = {split: [n for n, one in enumerate(folders) if one.split == split] for split in SPLITS}
        given = {split: numbers for split, numbers in given.items() if numbers}
        names = [folder.name for folder in folders] if self._together().plain else units
        in_several = _in_several([{names[n] for n in numbers} for numbers in given.values()])
        if in_several:
            logger.warning(
                "%d %s are in more than one split, such as %s. Results then say nothing about new classes.",
                len(in_several),
                "classes" if self._together().plain else "groups of folders",
                min(in_several),
            )
        if "train" in given and "validation" not in given and self.shares.validation:
            logger.warning("There is no validation folder. Using some classes of train for validation.")
            dealt = self._drawn(given.pop("train"), units, Shares(self.shares.validation, 0.0))
            given = {**dealt, **given}
        return given

    def _drawn(self, numbers: list[int], units: list[str], shares: Shares) -> dict[str, list[int]]:
        names = sorted({units[number] for number in numbers})
        what: Unit = "classes" if self._together().plain else "groups of folders"
        what = "parents" if self.split_by == "parent" else what
        dealt = split_names(names, shares, self._rng(SPLIT_DRAW), what)
        return {split: [number for number in numbers if units[number] in own] for split, own in dealt.items()}

    def _rng(self, number: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, self.round, number])


def _read_instances(
    root: Path, folders: list[ClassFolder], form: ImageForm, progress: Progress
) -> tuple[InstancePool, NDArray[np.int64]]:
    """Read all files into one pool, each instance once and in one class; also return the folder ``(P,)`` of each."""
    builder = PoolBuilder(kind_of(folders[0].files[0]), form)
    seen: list[tuple[int, Path]] = []  # folder and file of the first copy of each instance
    ambiguous: dict[int, Path] = {}
    repeated = in_other_split = 0
    with progress.step("Reading instances", total=sum(len(one.files) for one in folders)) as advance:
        for number, folder in enumerate(folders):
            for path in folder.files:
                values = _read_file(builder.kind, path, form)
                for row, value in enumerate(values):
                    index = builder.add(value, str(path), _name(root, path, row if len(values) > 1 else None))
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
        logger.warning("%d instances are duplicates within their class and count once.", repeated)
    if in_other_split:
        logger.warning("%d instances are in more than one split and are used only in the first.", in_other_split)
    pool = builder.pool([folders[number].name for number, _ in seen])
    owner = np.array([number for number, _ in seen], np.int64)
    if not ambiguous:
        return pool, owner
    first_index, second = next(iter(ambiguous.items()))
    logger.warning(
        "%d instances are in more than one class and are left out; the first: %s is the same as %s.",
        len(ambiguous),
        second,
        seen[first_index][1],
    )
    kept = np.setdiff1d(np.arange(len(pool)), list(ambiguous))
    if not len(kept):
        raise MIVError("Every instance is in more than one class. Each class needs its own instances.")
    return pool.take(kept), owner[kept]


def _name(root: Path, path: Path, row: int | None) -> str:
    """The file of an instance below the root, with its row if the file holds several; "" if it is not Unicode."""
    name = path.relative_to(root).as_posix() + ("" if row is None else f"[{row}]")
    return "" if any("\ud800" <= letter <= "\udfff" for letter in name) else name


def _in_several(sets: list[set[str]]) -> set[str]:
    """Items in more than one of the sets."""
    return {name for place, one in enumerate(sets) for other in sets[place + 1 :] for name in one & other}


def _read_file(kind: InstanceKind, path: Path, form: ImageForm) -> Sequence[Any]:
    if kind == "image":
        return [read_image_file(path, form)]
    if kind == "text":
        return [read_text_file(path)]
    return read_vectors_file(path)
