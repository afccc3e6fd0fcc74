"""Exemplars from a folder per class: ``root/<class>/`` with images, texts or feature vectors."""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.data import SPLITS, ExemplarSet, InstanceKind, InstancePool
from miv.data.sources.drawing import Drawing
from miv.data.sources.pool_builder import ImageForm, PoolBuilder, read_image_file
from miv.data.sources.split_shares import Shares, split_classes
from miv.data.split_folders import SPLIT_DRAW
from miv.errors import MIVError
from miv.io.image_files import IMAGE_SUFFIXES
from miv.io.instance_files import check_text, read_text_file, read_vectors_file
from miv.runtime.progress import Progress

logger = logging.getLogger(__name__)

_KIND_OF_SUFFIX: dict[str, InstanceKind] = {
    **dict.fromkeys(IMAGE_SUFFIXES, "image"),
    ".txt": "text",
    ".npy": "features",
}


@dataclass(frozen=True)
class FromFolder:
    """Exemplars from a folder that has one folder for each class.

    Every file is one instance; a ``.npy`` file of shape ``(N, C)`` is ``N`` of them. Equal instances of one
    class count once; an instance that is in several classes is left out. Both are told on standard error.

    Args:
        root: the folder; ``root/<class>/`` holds images, ``.txt`` or ``.npy`` files, all of one kind.
        images: what every image becomes.
        drawing: how exemplars are drawn.
        shares: the shares of the classes for validation and test; no class is in two splits.
        seed: start of the random numbers.
        round: which draw of the data; rounds share no random numbers.
    """

    root: Path
    images: ImageForm = field(default_factory=ImageForm)
    drawing: Drawing = field(default_factory=Drawing)
    shares: Shares = field(default_factory=Shares)
    seed: int = 0
    round: int = 0

    def build(self, progress: Progress) -> dict[str, ExemplarSet]:
        """Make the sets, by split."""
        try:
            files = _find_files(self.root)
        except OSError as error:
            raise MIVError(f"{self.root}: this folder cannot be read ({error}).") from error
        dealt = split_classes(sorted(files), self.shares, self._rng(SPLIT_DRAW))
        pool = _read_instances(files, self.images, progress)
        indices = _indices_by_class(pool)
        sets = {}
        for split, names in dealt.items():
            members = {name: indices[name] for name in names if name in indices}
            share = self.shares.by_split()[split]
            exemplars = max(2, round(self.drawing.exemplars * share))
            rng = self._rng(SPLITS.index(split))
            sets[split] = self.drawing.draw(pool, members, exemplars, rng, progress, split).compact()
        return sets

    def _rng(self, number: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, self.round, number])


def _find_files(root: Path) -> dict[str, list[Path]]:
    """The files of each class, all of one kind, in the order of their names."""
    if not root.is_dir():
        raise MIVError(f"{root} is not a folder. Give the folder that holds one folder for each class.")
    folders = [entry for entry in sorted(root.iterdir()) if entry.is_dir() and not _hidden(entry)]
    if not folders:
        raise MIVError(f"{root} holds no folders. Expected one for each class: {root}/<class>/<instance>.png.")
    names = {folder.name.lower() for folder in folders}
    if names <= {"train", "val", "valid", "validation", "dev", "test"}:
        raise MIVError(
            f"The folders in {root} are splits ({', '.join(sorted(names))}), not classes. Give a folder that "
            "holds one folder for each class; classes are split here (--validation, --test)."
        )
    for folder in folders:
        check_text(folder.name, f"{folder}: the name of this class")
    found = {folder.name: _instance_files(folder) for folder in folders}
    kinds = {_kind(path): path for paths in found.values() for path in paths}
    if len(kinds) > 1:
        examples = ", ".join(f"{kind}: {path}" for kind, path in sorted(kinds.items()))
        raise MIVError(f"{root} holds instances of several kinds ({examples}). Keep one kind.")
    return found


def _instance_files(folder: Path) -> list[Path]:
    entries = [entry for entry in sorted(folder.iterdir()) if not _hidden(entry)]
    files = [entry for entry in entries if entry.is_file() and entry.suffix.lower() in _KIND_OF_SUFFIX]
    if not files:
        inside = " Its folders are not looked into." if any(entry.is_dir() for entry in entries) else ""
        raise MIVError(
            f"The class folder {folder} holds no instance. Expected .txt or .npy files, or images "
            f"({', '.join(sorted(IMAGE_SUFFIXES))}); fill it or remove it.{inside}"
        )
    if len(files) < len(entries):
        other = next(entry for entry in entries if entry not in files)
        logger.warning(
            "%s: ignored %d entries that are no instances, such as %s.",
            folder,
            len(entries) - len(files),
            other.name,
        )
    return files


def _read_instances(files: dict[str, list[Path]], form: ImageForm, progress: Progress) -> InstancePool:
    """Read all files into one pool, in which an instance is once and of one class."""
    builder = PoolBuilder(_kind(next(iter(files.values()))[0]))
    seen: list[tuple[str, Path]] = []  # of each distinct instance the class and file where it came first
    ambiguous: dict[int, Path] = {}
    repeated = 0
    with progress.step("Reading instances", total=sum(map(len, files.values()))) as advance:
        for name, paths in files.items():
            for path in paths:
                for value in _read_file(builder.kind, path, form):
                    index = builder.add(value, str(path))
                    if index == len(seen):
                        seen.append((name, path))
                    elif seen[index][0] == name:
                        repeated += 1
                    else:
                        ambiguous.setdefault(index, path)
                advance(1)
    if repeated:
        logger.warning("%d instances are copies of others of their class and count once.", repeated)
    pool = builder.pool([name for name, _ in seen])
    if ambiguous:
        first, second = next(iter(ambiguous.items()))
        logger.warning(
            "%d instances are in more than one class and are left out; the first: %s is the same as %s.",
            len(ambiguous),
            second,
            seen[first][1],
        )
        pool = _without(pool, ambiguous)
    return pool


def _indices_by_class(pool: InstancePool) -> dict[str, NDArray[np.int64]]:
    indices: dict[str, list[int]] = {}
    for index, name in enumerate(pool.classes if pool.classes is not None else ()):
        indices.setdefault(name, []).append(index)
    return {name: np.array(found, dtype=np.int64) for name, found in indices.items()}


def _without(pool: InstancePool, left_out: Collection[int]) -> InstancePool:
    kept = np.setdiff1d(np.arange(len(pool)), list(left_out))
    if not len(kept):
        raise MIVError("Every instance is in more than one class. Each class needs instances of its own.")
    return pool.take(kept)


def _read_file(kind: InstanceKind, path: Path, form: ImageForm) -> Sequence[Any]:
    if kind == "image":
        return [read_image_file(path, form)]
    if kind == "text":
        return [read_text_file(path)]
    return read_vectors_file(path)


def _kind(path: Path) -> InstanceKind:
    return _KIND_OF_SUFFIX[path.suffix.lower()]


def _hidden(path: Path) -> bool:
    return path.name.startswith(".")
