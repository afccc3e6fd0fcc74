"""Signature verification on SigComp2011: is the query genuine, given anchors? Paper, sections 2.1 and A.2."""

import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from miv.data import SPLITS, ExemplarSet, InstancePool
from miv.data.splits import SPLIT_DRAW
from miv.errors import MIVError
from miv.files.images import IMAGE_SUFFIXES, Steps, apply_steps, read_image, resize_step
from miv.files.instances import name_below
from miv.runtime import Progress
from miv.tasks.base import check_room, check_whole, register_task

_SCRIPTS = ("dutch", "chinese")
_GENUINE = {"genuine", "original", "originals", "real"}
_FORGED = {"forged", "forgery", "forgeries", "fake", "simulated"}
# Two numbers: one of the signature, and the writer's three digits, after the forger's where it is forged.
_NAME = re.compile(r"(\d+)[_-](\d+)")


@dataclass(frozen=True)
class SignatureFile:
    """An image of a signature: the script, whose name it is, and whether somebody else wrote it."""

    path: Path
    script: str
    writer: str
    forged: bool


def find_signatures(folder: Path) -> list[SignatureFile]:
    """Find the signatures below a folder, in the order of their paths."""
    if not folder.is_dir():
        raise MIVError(f"{folder} is not a folder. Expected SigComp2011, or writer/genuine and writer/forged.")
    paths = [path for path in sorted(folder.rglob("*")) if path.suffix.lower() in IMAGE_SUFFIXES and path.is_file()]
    hidden = re.compile(r"(^|/)(\.|__MACOSX)")
    files = [_understand(path, folder) for path in paths if not hidden.search(path.relative_to(folder).as_posix())]
    if not files:
        raise MIVError(f"{folder} contains no images. Expected PNG or other image files.")
    have_genuine = {(file.script, file.writer) for file in files if not file.forged}
    for file in files:
        if (file.script, file.writer) not in have_genuine:
            raise MIVError(f"{file.path}: a forgery of writer {file.writer!r}, who has no genuine signature.")
    return files


def _understand(path: Path, folder: Path) -> SignatureFile:
    parents = [part.lower() for part in path.relative_to(folder).parts[:-1]]
    if parents and parents[-1] in _GENUINE | _FORGED:
        if len(parents) < 2:
            raise MIVError(f"{path}: there is no writer folder above. Expected writer/{parents[-1]}/{path.name}.")
        writer = path.parent.parent.name
        return SignatureFile(path, "/".join(parents[:-2]), writer, forged=parents[-1] in _FORGED)
    return _understand_sigcomp(path, [part.lower() for part in folder.resolve().parts] + parents)


def _understand_sigcomp(path: Path, parents: list[str]) -> SignatureFile:
    script = next((script for part in reversed(parents) for script in _SCRIPTS if script in part), None)
    name = _NAME.fullmatch(path.stem.replace(" ", ""))
    if script is None or name is None:
        raise MIVError(
            f"{path}: neither in a folder 'genuine' or 'forged' of a writer, nor named as in SigComp2011 "
            "(such as 'Dutch/.../001_02.PNG' or 'Chinese/.../03_0102001.PNG'). Rename or remove it."
        )
    first, second = name.groups()
    # The writer's number is the longer one; of equals, the second in the folder of a writer.
    in_writers_folder = re.fullmatch(r"\d{3}", parents[-1]) is not None
    identity = max(second, first, key=len) if in_writers_folder else max(first, second, key=len)
    if len(identity) < 3:
        raise MIVError(f"{path}: expected the three digits of the writer, got {identity!r}. Rename it.")
    forged, above = len(identity) > 3, " ".join(parents[-2:])
    if (forged and re.search(r"genuine|\bref", above)) or (not forged and "forger" in above):
        said = "forged" if forged else "genuine"
        raise MIVError(f"{path}: its name says it is a {said} signature, but its folder does not. Move or remove it.")
    return SignatureFile(path, script, identity[-3:], forged)


_TWICE = 0.2  # how often a writer lends a second anchor
_FORGED_SHARE = 0.9  # share of negatives with a forged query
_FEWEST, _MOST = 2, 5  # other writers in a bag
_LARGEST_BAG = 8


@dataclass(frozen=True)
class Writer:
    """The images of a writer, as positions in the pool."""

    script: str  # such as ``dutch``; bags hold more of the query's than of others
    genuine: list[int] = field(default_factory=list)  # queries and anchors, never both in the same exemplar
    forged: list[int] = field(default_factory=list)  # only queries


def draw_exemplars(
    pool: InstancePool,
    writers: list[Writer],
    anchors_per_query: int,
    rng: np.random.Generator,
    references_per_query: int = 1,
) -> ExemplarSet:
    """Make two exemplars for each writer, each of the writer's queries, and each of the writer's anchors.

    The positive one asks with a genuine signature; its bag holds that anchor, sometimes a second one, and those of 2-5
    other writers, more of the same script than of the other. The negative one asks with a forgery, of such a bag
    (90 %), or with the genuine signature, of a bag without its writer (10 %, and if nobody forged the writer). If a
    writer has more forgeries than genuine signatures, the latter ask again, and the other way round. Further references
    are all genuine or all forged like the query, and not in the bag. The group is the writer's script.
    """
    if len(writers) <= _FEWEST or not any(len(writer.genuine) > 1 for writer in writers):
        raise MIVError(f"Got {len(writers)} writers. Expected at least {_FEWEST + 1}, one of them with two genuine.")
    references, bags, labels, witnesses, groups = [], [], [], [], []
    for writer in writers:
        others = [other for other in writers if other is not writer and other.genuine]
        same = [other for other in others if other.script == writer.script]
        different = [other for other in others if other.script != writer.script]
        genuine, forged = rng.permutation(writer.genuine), rng.permutation(writer.forged)
        for turn in range(max(len(genuine), len(forged)) if len(genuine) else 0):
            query = int(genuine[turn % len(genuine)])
            anchors = [anchor for anchor in writer.genuine if anchor != query]
            if anchors_per_query:
                anchors = rng.permutation(anchors)[:anchors_per_query].tolist()
            for anchor in anchors:
                for label in (1, 0):
                    asked, own = query, [anchor]
                    spare = [image for image in writer.genuine if image not in (query, anchor)]
                    if rng.random() < _TWICE and spare:
                        own.append(spare[int(rng.integers(len(spare)))])
                    if label == 0 and len(forged) and rng.random() < _FORGED_SHARE:
                        asked = int(forged[turn % len(forged)])
                    elif label == 0:
                        own = []
                    rest = _other_anchors(same, different, _LARGEST_BAG - len(own), rng)
                    bag = np.array(own + rest, np.int64)
                    order = rng.permutation(len(bag))
                    references.append([asked])
                    if references_per_query > 1:
                        alike = writer.genuine if asked in writer.genuine else writer.forged
                        further = rng.permutation([image for image in alike if image not in {asked, *own}])
                        references[-1] += further[: references_per_query - 1].tolist()
                    bags.append(bag[order])
                    labels.append(label)
                    witnesses.append(order < label * len(own))
                    groups.append(writer.script)
    return ExemplarSet.from_lists(pool, None, bags, labels, witnesses, groups, references=references)


def _other_anchors(same: list[Writer], different: list[Writer], most: int, rng: np.random.Generator) -> list[int]:
    """Draw anchors of distinct writers, most of them of the same script; if writers are few, of all."""
    count = int(rng.integers(_FEWEST, _MOST + 1))
    of_same = min(len(same), max(count // 2 + 1, count - len(different)))
    lenders = [same[i] for i in rng.permutation(len(same))[:of_same]]
    lenders += [different[i] for i in rng.permutation(len(different))[: count - of_same]]
    first = [lender.genuine[int(rng.integers(len(lender.genuine)))] for lender in lenders]
    second = []
    for lender, lent in zip(lenders, first, strict=True):
        if rng.random() < _TWICE and len(lender.genuine) > 1:
            second.append(int(rng.choice([image for image in lender.genuine if image != lent])))
    return (first + second)[:most]


_PAPER_SIZE = (256, 512)  # height, width
_FEWEST_WRITERS = 3


@register_task("signature")
@dataclass(frozen=True)
class Signature:
    """Signatures (SigComp2011 or your folders): is the query genuine?

    Any folder writer/genuine and writer/forged will do.

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
        files = find_signatures(self.raw)
        check_room(len(files), self.height, self.width)
        splits = self._split(files)
        sets = {}
        with progress.step("Reading signatures", total=sum(map(len, splits.values()))) as advance:
            for number, split in enumerate(SPLITS):
                files = splits[split]
                images = np.empty((len(files), self.height, self.width), np.uint8)
                writers: dict[tuple[str, str], Writer] = {}
                for place, file in enumerate(files):
                    images[place] = read_signature(file.path, self.width, self.height)
                    writer = writers.setdefault((file.script, file.writer), Writer(file.script))
                    (writer.forged if file.forged else writer.genuine).append(place)
                    advance(1)
                named = [f"{file.script}/{file.writer}".lstrip("/") + "/forged" * file.forged for file in files]
                names = np.array([name_below(self.raw, file.path) for file in files], dtype=object)
                steps = _steps(self.width, self.height)
                pool = InstancePool("image", images, np.array(named, dtype=object), names, steps)
                rng, signers = np.random.default_rng([self.seed, self.round, number]), list(writers.values())
                exemplars = draw_exemplars(pool, signers, self.anchors_per_query, rng, self.references_per_query)
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
            count = list(split_of.values()).count(split)
            if count < _FEWEST_WRITERS:
                raise MIVError(f"{self.raw}: of {len(split_of)} writers, {count} would be in {split}. Add writers.")
        return {split: [file for file in files if split_of[file.script, file.writer] == split] for split in SPLITS}


def read_signature(path: Path, width: int, height: int) -> NDArray[np.uint8]:
    """Read an image ``(height, width)``, black ink on white paper.

    As in the paper: black and white at the scan's own size by Otsu's threshold, resized to 512 × 256, then to
    the size a model takes. Resizing leaves grey levels along the strokes.
    """
    return apply_steps(read_image(path), _steps(width, height))


def _steps(width: int, height: int) -> Steps:
    return "otsu", resize_step(_PAPER_SIZE, resampling="lanczos"), resize_step((height, width))
