"""Signature verification on SigComp2011: is the query genuine, given anchors? Paper, sections 2.1 and A.2."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from miv.data import SPLITS, ExemplarSet, InstancePool
from miv.data.split_folders import SPLIT_DRAW
from miv.errors import MIVError
from miv.io.image_files import read_image
from miv.io.image_steps import Steps, apply_steps, resize_step
from miv.runtime.progress import Progress
from miv.tasks.options import check_room, check_whole
from miv.tasks.signature.signature_bags import Writer, draw_exemplars
from miv.tasks.signature.signature_files import SignatureFile, find_signatures
from miv.tasks.task_base import register_task

_PAPER_SIZE = (256, 512)  # height, width
_FEWEST_WRITERS = 3


@register_task("signature", help="Signatures (SigComp2011 or your folders): is the query genuine?")
@dataclass(frozen=True)
class Signature:
    """Signature verification on SigComp2011, or on any folder writer/genuine and writer/forged.

    Args:
        raw: folder with the images; see docs/tasks.md for its layout.
        width: image width in pixels.
        height: image height in pixels.
        held_out: share of the writers of each script for validation, and again for test.
        anchors_per_query: number of random anchors per query; 0 for all, as in the paper.
        exemplars: number of random train exemplars; default: all, about 82,000 for SigComp2011.
        references_per_query: number of signatures to ask with, all genuine or all forged; fewer if there are too few.
        round: index of the random draw; draws are independent.
        seed: random seed.
    """

    raw: Path = Path("data/sigcomp2011")
    width: int = 256
    height: int = 128
    held_out: float = 0.1
    anchors_per_query: int = 0
    exemplars: int | None = None
    references_per_query: int = 1
    round: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole(8, 10_000, width=self.width, height=self.height)
        check_whole(0, anchors_per_query=self.anchors_per_query, round=self.round, seed=self.seed)
        check_whole(1, exemplars=self.exemplars)
        check_whole(1, 100, references_per_query=self.references_per_query)
        if not 0 < self.held_out < 0.5:
            raise MIVError(f"held_out is {self.held_out}. Expected a share above 0 and below 0.5.")

    def build(self, progress: Progress) -> dict[str, ExemplarSet]:
        """Read the images and draw the sets ``train``, ``validation`` and ``test``."""
        files = find_signatures(Path(self.raw))
        check_room(len(files), self.height, self.width)
        splits = self._split(files)
        sets = {}
        with progress.step("Reading signatures", total=sum(map(len, splits.values()))) as advance:
            for number, split in enumerate(SPLITS):
                files = splits[split]
                images = np.empty((len(files), self.height, self.width), np.uint8)
                for place, file in enumerate(files):
                    images[place] = read_signature(file.path, self.width, self.height)
                    advance(1)
                rng = np.random.default_rng([self.seed, self.round, number])
                classes = np.array([_class(file) for file in files], dtype=object)
                names = np.array([_name(file.path, Path(self.raw)) for file in files], dtype=object)
                pool = InstancePool("image", images, classes, names, _steps(self.width, self.height))
                exemplars = draw_exemplars(
                    pool, _by_writer(files), self.anchors_per_query, rng, self.references_per_query
                )
                if split == "train" and self.exemplars is not None and self.exemplars < len(exemplars):
                    exemplars = exemplars.subset(rng.permutation(len(exemplars))[: self.exemplars])
                sets[split] = exemplars
        return sets

    def _split(self, files: list[SignatureFile]) -> dict[str, list[SignatureFile]]:
        """Assign every writer to one split, separately for each script."""
        rng = np.random.default_rng([self.seed, self.round, SPLIT_DRAW])
        split_of: dict[tuple[str, str], str] = {}
        for script in sorted({file.script for file in files}):
            writers = sorted({file.writer for file in files if file.script == script})
            held_out = max(1, int(len(writers) * self.held_out))
            for place, number in enumerate(rng.permutation(len(writers))):
                split = "validation" if place < held_out else "test" if place < 2 * held_out else "train"
                split_of[script, writers[number]] = split
        for split in SPLITS:
            count = sum(given == split for given in split_of.values())
            if count < _FEWEST_WRITERS:
                raise MIVError(
                    f"{self.raw}: of {len(split_of)} writers, {count} would be in {split}. Expected "
                    f"at least {_FEWEST_WRITERS} in each. Add writers, or raise held_out ({self.held_out})."
                )
        return {split: [file for file in files if split_of[file.script, file.writer] == split] for split in SPLITS}


def read_signature(path: Path, width: int, height: int) -> NDArray[np.uint8]:
    """Read an image, make it black ink on white paper, and resize it.

    As in the paper: black and white at the scan's own size by Otsu's threshold, resized to 512 × 256, then to
    the size a model takes. Resizing leaves grey levels along the strokes.

    Returns:
        ``(height, width)``.
    """
    return apply_steps(read_image(path), _steps(width, height))


def _steps(width: int, height: int) -> Steps:
    return "otsu", resize_step(_PAPER_SIZE, resampling="lanczos"), resize_step((height, width))


def _name(path: Path, raw: Path) -> str:
    """The file below the folder of the data; "" if its name is not Unicode."""
    name = path.relative_to(raw).as_posix()
    return "" if any("\ud800" <= letter <= "\udfff" for letter in name) else name


def _class(file: SignatureFile) -> str:
    name = f"{file.script}/{file.writer}".lstrip("/")
    return f"{name}/forged" if file.forged else name


def _by_writer(files: list[SignatureFile]) -> list[Writer]:
    writers: dict[tuple[str, str], Writer] = {}
    for place, file in enumerate(files):
        writer = writers.setdefault((file.script, file.writer), Writer(file.script))
        (writer.forged if file.forged else writer.genuine).append(place)
    return list(writers.values())
