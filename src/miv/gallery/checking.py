"""Find the damage in a gallery, and read what is left of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from miv.data import csr
from miv.errors import MIVError
from miv.files.arrays import Integers, Mask
from miv.gallery.files import DAMAGED, GalleryManifest, SegmentEntry
from miv.gallery.snapshot import Segment, Snapshot


@dataclass(frozen=True)
class GalleryCheck:
    """What a check of a gallery found."""

    bags: int  # that are whole
    problems: tuple[str, ...]  # one sentence per damaged file
    lost: tuple[str, ...]  # names of bags with damaged instances
    nameless: int  # bags whose names are damaged, too

    def __str__(self) -> str:
        lines = [*self.problems, f"Whole bags: {self.bags:,}. Damaged bags: {len(self.lost) + self.nameless:,}."]
        return "\n".join([*lines, f"Lost: {', '.join(self.lost)}"] if self.lost else lines)

    def document(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {**vars(self), "problems": list(self.problems), "lost": list(self.lost)}


class _SegmentRemains(Segment):
    """A segment that may be damaged or missing; what is missing is filled with zeros."""

    def __init__(self, folder: Path, entry: SegmentEntry, manifest: GalleryManifest) -> None:
        self.problem, self.views = "", {name: np.zeros(shape) for name, shape in entry.shapes(manifest).items()}
        self.is_whole_bag = self.is_named = np.zeros(entry.bags, bool)
        self.is_whole_instance = np.zeros(entry.instances, bool)
        try:
            super().__init__(folder, entry, manifest)
        except (MIVError, FileNotFoundError) as error:
            self.problem = _words(error)
            self.sizes, self.members = np.ones(entry.bags, np.int64), np.zeros(entry.bags, np.int64)

    def array(self, name: str) -> Any:
        """An array, damaged or not."""
        return self.views[name]

    def read_bags(self) -> tuple[Integers, Integers]:
        """Sizes and members of the bags, as far as they are whole."""
        try:
            self.file.verify(0, len(self.file.content))
        except MIVError as error:
            self.problem = _words(error)
        features, hashes = self._intact("features"), self._intact("hashes")
        self.is_whole_instance = features & hashes & self._intact("foreign")
        if not (self._intact("sizes").all() and self._intact("text_sizes").all()):
            raise MIVError(self.problem)  # which bag is which cannot be told
        sizes, members = super().read_bags()
        self.is_named = self._intact("texts", self.text_borders)
        self.is_whole_bag = self.is_named & self._intact("members", csr.borders(sizes))
        return sizes, np.where(np.repeat(self.is_whole_bag, sizes), members, 0)

    def _intact(self, name: str, borders: Integers | None = None) -> Mask:
        """Which rows of an array, or which runs of rows, are as they were written."""
        (start, _), view = self.borders[name], self.views[name]
        rows = np.arange(len(view) + 1) if borders is None else borders
        return self.file.intact(start + rows * (view[:1].nbytes or 1))


def _words(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{error.filename} is missing."
    return str(error).removesuffix(DAMAGED).strip()


class Remains(Snapshot):
    """What is left of a gallery: its live bags are those that are whole."""

    segment_type = _SegmentRemains

    def __init__(self, folder: Path, manifest: GalleryManifest, known: Sequence[Segment] = ()) -> None:
        self.problems: list[str] = []
        super().__init__(folder, manifest)
        none, was_live = np.zeros(0, bool), self.is_live
        remains = [segment for segment in self.segments if isinstance(segment, _SegmentRemains)]  # all of them
        self.problems += [segment.problem for segment in remains if segment.problem]
        is_whole = np.concatenate([none, *(segment.is_whole_instance for segment in remains)])
        is_whole_bag = np.concatenate([none, *(segment.is_whole_bag for segment in remains)])
        self.is_named = np.concatenate([none, *(segment.is_named for segment in remains)])
        self.is_live = was_live & is_whole_bag & ~csr.bag_any(~is_whole[self.members], self.ptr)
        self.lost = was_live & ~self.is_live

    def check(self) -> GalleryCheck:
        """Describe the damage."""
        lost = [self.name(int(bag)) for bag in np.flatnonzero(self.lost & self.is_named)]
        nameless = int((self.lost & ~self.is_named).sum())
        return GalleryCheck(int(self.is_live.sum()), tuple(self.problems), tuple(lost), nameless)
