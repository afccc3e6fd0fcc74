"""Handwriting verification on QMNIST: does the bag hold a digit by the query's writer?"""

import gzip
import math
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from miv.data import SPLITS, ExemplarSet, InstancePool, csr
from miv.data.splits import SPLIT_DRAW
from miv.errors import MIVError
from miv.files.cache import RemoteFile, fetch
from miv.runtime import Progress
from miv.tasks.base import check_whole, register_task
from miv.tasks.writer_bags import Draw, ExemplarPlan, Recipe, Stock, draw_exemplars, hold_out, plan_exemplars

_IDX = {"images": (b"\0\0\x08\x03", ">u1"), "labels": (b"\0\0\x0c\x02", ">i4")}  # dtype and number of axes
_GZIP = b"\x1f\x8b"
_LARGEST = 512 << 20  # bytes; 10 times the largest official file


def read_idx(path: Path, kind: Literal["images", "labels"]) -> NDArray[Any]:
    """Read an IDX file, compressed with gzip or not: images ``(N, H, W)`` uint8, or labels ``(N, L)`` int32."""
    magic, dtype = _IDX[kind]
    try:
        with path.open("rb") as raw:
            opened = gzip.open if raw.read(2) == _GZIP else open
        with opened(path, "rb") as stream:
            header = stream.read(4 + 4 * magic[3])
            if len(header) < 4 + 4 * magic[3] or header[:4] != magic:
                raise MIVError(
                    f"{path} is not an IDX file of {kind}: it starts with {header[:4].hex(' ') or 'nothing'}."
                )
            shape = tuple(np.frombuffer(header[4:], ">u4").tolist())
            expected = math.prod(shape) * np.dtype(dtype).itemsize
            if expected > _LARGEST:
                raise MIVError(f"{path} states a shape of {shape}, more than the maximum of {_LARGEST:,} bytes.")
            content = stream.read(expected + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise MIVError(f"{path} is a damaged gzip file ({error}). Download it again.") from error
    except OSError as error:
        raise MIVError(f"Could not read {path}: {error.strerror or error}.") from error
    if len(content) != expected:
        size = "more" if len(content) > expected else f"{len(content):,}"
        raise MIVError(f"{path} states {expected:,} bytes, but contains {size}. Download it again.")
    return np.frombuffer(content, dtype).reshape(shape)


_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_QMNIST = "https://raw.githubusercontent.com/facebookresearch/qmnist/master/"
_TEST_DIGITS = 10_000  # of QMNIST's 60,000 test digits, those that are MNIST's too

# Names of each file. The last is downloaded: MNIST's images are the same digits in the same order, in fewer bytes.
_FILES = {
    "train images": ("qmnist-train-images-idx3-ubyte", "train-images-idx3-ubyte"),
    "test images": ("qmnist-test-images-idx3-ubyte", "t10k-images-idx3-ubyte"),
    "train labels": ("qmnist-train-labels-idx2-int",),
    "test labels": ("qmnist-test-labels-idx2-int",),
}
DOWNLOADS = {
    name: RemoteFile(f"{site}{name}.gz", size, sha256)
    for site, what, size, sha256 in (
        (_MNIST, "train images", 9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
        (_MNIST, "test images", 1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
        (_QMNIST, "train labels", 463_024, "2c05dc77f6b916b38e455e97ab129a42a444f3dbef09b278a366f82904e0dd9f"),
        (_QMNIST, "test labels", 526_800, "9fbcbe594c3766fdf4f0b15c5165dc0d1e57ac604e01422608bb72c906030d06"),
    )
    for name in [_FILES[what][-1]]
}


@dataclass(frozen=True, eq=False)
class Digits:
    """Handwritten digits: ``images`` ``(P, 28, 28)`` uint8, ``digit`` and ``writer`` ``(P,)`` int64."""

    images: NDArray[np.uint8]
    digit: NDArray[np.int64]
    writer: NDArray[np.int64]

    def by(self, writers: NDArray[np.int64]) -> "Digits":
        """The digits of the given writers."""
        rows = np.isin(self.writer, writers)
        return Digits(self.images[rows], self.digit[rows], self.writer[rows])

    def exemplars(self, rng: np.random.Generator, parts: list[tuple[Stock, ExemplarPlan]]) -> ExemplarSet:
        pool = InstancePool("image", self.images, self.writer.astype(str))
        return draw_exemplars(rng, pool, self.writer, self.digit, parts)


def read_digits(raw: Path, progress: Progress, *, download: bool) -> tuple[Digits, Digits]:
    """Read the 60,000 train digits and the first 10,000 test digits; download missing files if asked to."""
    paths = _find_files(raw, progress, download=download)
    train = _read_pair(paths["train images"], paths["train labels"], None)
    test = _read_pair(paths["test images"], paths["test labels"], _TEST_DIGITS)
    shared = np.intersect1d(train.writer, test.writer)
    if len(shared):
        raise MIVError(f"Writer {shared[0]} is in the train and the test labels of {raw}. Download them again.")
    return train, test


def _find_files(raw: Path, progress: Progress, *, download: bool) -> dict[str, Path]:
    paths = {}
    for what, names in _FILES.items():
        candidates = (raw / f"{name}{ending}" for name in names for ending in (".gz", ""))
        if path := next(filter(Path.is_file, candidates), None):
            paths[what] = path
    missing = {what: names for what, names in _FILES.items() if what not in paths}
    lines = [f"Missing in {raw.absolute()} (put them there, compressed or not):"]
    for what, names in missing.items():
        lines.append(f"  {what}: {' or '.join(f'{name}.gz' for name in names)}")
        lines.append(f"    from {DOWNLOADS[names[-1]].url}")
    if missing and not download:
        raise MIVError("\n".join(lines))
    for what, names in missing.items():
        try:
            paths[what] = fetch(DOWNLOADS[names[-1]], raw, progress)
        except MIVError as error:
            raise MIVError("\n".join([str(error), *lines])) from error
    return paths


def _read_pair(images_path: Path, labels_path: Path, first: int | None) -> Digits:
    """Read images and their labels; ``first`` takes only that many, as MNIST has a part of QMNIST's test."""
    images, labels = read_idx(images_path, "images"), read_idx(labels_path, "labels")
    if 0 in images.shape or labels.shape[1] < 3:
        raise MIVError(f"{images_path} is {images.shape}, {labels_path} {labels.shape}. Expected (N, 28, 28), (N, 8).")
    images = images[:first]
    labels = labels if first is None else labels[: len(images)]
    if len(images) != len(labels):
        raise MIVError(f"{images_path} has {len(images)} images, {labels_path} {len(labels)} labels.")
    digit, writer = labels[:, [0, 2]].astype(np.int64).T
    if digit.min() < 0 or digit.max() > 9:
        row = int(((digit < 0) | (digit > 9)).argmax())
        raise MIVError(f"{labels_path}, row {row}: the digit is {digit[row]}. Expected 0 to 9.")
    return Digits(images, digit, writer)


# The size study draws from a larger pool, as the authors' released code does for 10,000 to 24,000 exemplars: four sets
# with more queries and writers per bag, and three of the main set. Its witnesses are those of the paper's Table 5.
_SIZE_STUDY = (
    Recipe(queries=5, fewest=3, most=5, lent=15, draw="uniform"),
    Recipe(queries=5, fewest=6, most=8, lent=10, draw="uniform"),
    Recipe(queries=5, fewest=9, most=14, lent=10, draw="uniform"),
    Recipe(queries=5, fewest=15, most=20, lent=5, draw="uniform"),
    *[Recipe(queries=2, fewest=3, most=5, lent=5, draw="uniform")] * 3,
)
_SMALLEST_BAG = 3
_SIZE_STUDY_EXEMPLARS = 24_000
_SHARE_KEPT = 0.8  # a binomial with this chance has a variance of a fifth of its mean


@register_task("qmnist")
@dataclass(frozen=True)
class Qmnist:
    """Handwritten digits: is one in the bag by the query's writer?

    Args:
        raw: folder with the raw files; see docs/tasks.md for their names.
        download: whether to download missing files to that folder.
        draw: digits per writer in a bag: 'geometric', as in the paper, or 'uniform' from 1 to 5, as in their code.
        mean_bag: mean bag size of the train set, for the size study (10, 20 or 50 in the paper); default:
            the main set, with mean 6.9.
        exemplars: number of train exemplars; default: all of the main set, or 24,000 of the size study.
        references_per_query: number of digits of the query's writer to ask with, the query among them; fewer if the
            writer has too few.
        round: index of the random draw; draws are independent but use the same writers.
        seed: random seed.
    """

    raw: Path = Path("data/qmnist")
    download: bool = True
    draw: Draw = "geometric"
    mean_bag: int | None = None
    exemplars: int | None = None
    references_per_query: int = 1
    round: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole(_SMALLEST_BAG, 10_000, mean_bag=self.mean_bag)
        check_whole(1, 100_000_000, exemplars=self.exemplars)
        check_whole(1, 100, references_per_query=self.references_per_query)
        check_whole(0, round=self.round, seed=self.seed)

    def build(self, progress: Progress) -> dict[str, ExemplarSet]:
        """Read the raw files and draw the sets ``train``, ``validation`` and ``test``."""
        train, test = read_digits(self.raw, progress, download=self.download)
        digits = dict(zip(SPLITS, (train, *self._split_by_writer(test)), strict=True))
        with progress.step("Drawing exemplars"):
            return {split: self._build_split(split, digits[split]) for split in SPLITS}

    def _split_by_writer(self, test: Digits) -> tuple[Digits, Digits]:
        """Half of the writers each, the same in all rounds: their sizes match the paper's."""
        rng = np.random.default_rng([self.seed, 0, SPLIT_DRAW])
        writers = rng.permutation(np.unique(test.writer))
        half = (len(writers) + 1) // 2
        return test.by(writers[:half]), test.by(writers[half:])

    def _build_split(self, split: str, digits: Digits) -> ExemplarSet:
        rng = np.random.default_rng([self.seed, self.round, SPLITS.index(split)])
        if split == "train" and self.mean_bag is not None:
            count = self.exemplars or _SIZE_STUDY_EXEMPLARS
            return _draw_by_size(rng, digits, self.mean_bag, count, self.references_per_query)
        recipe = Recipe(queries=2 if split == "train" else 1, fewest=3, most=5, lent=5, draw=self.draw)
        stock = hold_out(rng, digits.writer, digits.digit, recipe.queries, self.references_per_query)
        plan = plan_exemplars(rng, stock, recipe)
        wanted = self.exemplars if split == "train" and self.exemplars is not None else len(plan)
        if wanted > len(plan):
            raise MIVError(f"exemplars is {wanted}, but the main train set has {len(plan)}. Set mean_bag for more.")
        return digits.exemplars(rng, [(stock, plan.take(rng.permutation(len(plan))[:wanted]))])


def _draw_by_size(rng: np.random.Generator, digits: Digits, mean_bag: int, count: int, references: int) -> ExemplarSet:
    """Draw ``count`` exemplars of binomial bag sizes, without replacement, from the pool of the size study."""
    sizes = np.maximum(rng.binomial(np.rint(mean_bag / _SHARE_KEPT), _SHARE_KEPT, count), _SMALLEST_BAG)
    size, wanted = np.unique(sizes, return_counts=True)
    parts: list[tuple[Stock, ExemplarPlan]] = []
    available = np.zeros_like(wanted)
    while (available < wanted).any():
        for recipe in _SIZE_STUDY:
            stock = hold_out(rng, digits.writer, digits.digit, recipe.queries, references)
            plan = plan_exemplars(rng, stock, recipe)
            plan = plan.take(np.flatnonzero(np.isin(plan.bag_sizes, size)))
            parts.append((stock, plan))
            available += (plan.bag_sizes == size[:, None]).sum(axis=1)
        if (available == 0).any():
            raise MIVError(f"mean_bag is {mean_bag}: no bags of {size[available == 0].max()}. Use a smaller mean.")
    all_sizes = np.concatenate([plan.bag_sizes for _, plan in parts])
    chosen = np.zeros(len(all_sizes), bool)
    for bag_size, number in zip(size, wanted, strict=True):
        chosen[rng.choice(np.flatnonzero(all_sizes == bag_size), number, replace=False)] = True
    masks = np.split(chosen, csr.borders([len(plan) for _, plan in parts])[1:-1])
    taken = [(stock, plan.take(np.flatnonzero(mask))) for (stock, plan), mask in zip(parts, masks, strict=True)]
    exemplars = digits.exemplars(rng, [(stock, plan) for stock, plan in taken if len(plan)])
    return exemplars.subset(rng.permutation(len(exemplars)))
