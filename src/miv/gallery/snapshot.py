"""A gallery at one moment: the bags and instances of the segments that its manifest lists."""

import json
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.data import csr
from miv.errors import MIVError
from miv.files.arrays import Integers, Mask, Vectors
from miv.gallery.files import COLUMNS, DAMAGED, SEGMENTS, GalleryManifest, MappedFile, SegmentEntry, places

_TRIES = 5  # a writer may remove a merged segment between our reading of the manifest and of the segment


class Segment:
    """The mapped arrays of a segment."""

    def __init__(self, folder: Path, entry: SegmentEntry, manifest: GalleryManifest) -> None:
        self.entry, shapes = entry, entry.shapes(manifest)
        self.borders = dict(zip(shapes, pairwise(places(shapes)), strict=True))
        self.file = MappedFile(folder / SEGMENTS / entry.name, places(shapes)[-1], entry.checksums)
        self.views = {
            name: self.file.content[start:end].view(COLUMNS[name][0]).reshape(shapes[name])
            for name, (start, end) in self.borders.items()
        }
        self.sizes, self.members = self.read_bags()

    def array(self, name: str) -> NDArray[Any]:
        """An array, verified when it is first used."""
        self.file.verify(*self.borders[name])
        return self.views[name]

    def read_bags(self) -> tuple[Integers, Integers]:
        """Sizes of the bags, and the numbers of their instances in the gallery."""
        sizes, members = self.array("sizes"), self.array("members")
        if ((sizes < 1) | (sizes > len(members))).any() or sizes.sum() != len(members):
            raise MIVError(f"{self.file.path} has an empty bag, or other counts than the manifest. {DAMAGED}")
        if self.array("text_sizes").sum(dtype=np.int64) != len(self.array("texts")):
            raise MIVError(f"{self.file.path} has names of other lengths. {DAMAGED}")
        return sizes, members

    @cached_property
    def text_borders(self) -> Integers:
        return csr.borders(self.views["text_sizes"])

    def texts(self, bag: int) -> list[str]:
        """The name of a bag, and those of its members: "" for one without a name."""
        start, end = self.text_borders[bag : bag + 2]
        try:
            name, *labels = json.loads(self.views["texts"][start:end].tobytes())
        except (ValueError, TypeError, RecursionError) as error:
            raise MIVError(f"{self.file.path} has odd names. {DAMAGED}") from error
        return [str(name), *map(str, labels or [""] * int(self.sizes[bag]))]

    @cached_property
    def names(self) -> list[str]:
        return [self.texts(bag)[0] for bag in range(len(self.sizes))]


class RowStore:
    """The rows ``(N, K)`` of an array over all segments."""

    def __init__(self, segments: Sequence[Segment], name: str, width: int) -> None:
        self._name, self._width = name, width
        self._segments = [segment for segment in segments if len(segment.views[name])]
        self._borders = csr.borders([len(segment.views[name]) for segment in self._segments])

    def __len__(self) -> int:
        return int(self._borders[-1])

    def take(self, rows: Integers) -> NDArray[Any]:
        """The rows with these numbers, in this order; without a copy if they follow each other in one segment."""
        if len(rows) and (np.diff(rows) == 1).all():
            number, last = np.searchsorted(self._borders, rows[[0, -1]], side="right") - 1
            if number == last:
                start = int(rows[0] - self._borders[number])
                return self._segments[number].array(self._name)[start : start + len(rows)]
        taken = np.empty((len(rows), self._width), COLUMNS[self._name][0])
        of_segment = np.searchsorted(self._borders, rows, side="right") - 1
        for number in np.unique(of_segment):
            mine = of_segment == number
            taken[mine] = self._segments[number].array(self._name)[rows[mine] - self._borders[number]]
        return taken


class Snapshot:
    """Bags ``0`` to ``B - 1``, some removed, over instances ``0`` to ``U - 1``; ``known`` segments are mapped."""

    segment_type = Segment

    def __init__(self, folder: Path, manifest: GalleryManifest, known: Sequence[Segment] = ()) -> None:
        self.folder, self.manifest, self.per = folder, manifest, manifest.per
        mapped = {segment.entry: segment for segment in known}
        self.segments = [mapped.get(entry) or self.segment_type(folder, entry, manifest) for entry in manifest.segments]
        self.features = RowStore(self.segments, "features", manifest.channels)
        self.foreign = RowStore(self.segments, "foreign", 1)
        self.stored = RowStore(self.segments, "stored", manifest.width) if manifest.width else self.features
        none = np.zeros(0, np.int64)
        self.ptr = csr.borders(np.concatenate([none, *(segment.sizes for segment in self.segments)]))
        self.members = np.concatenate([none, *(segment.members for segment in self.segments)])
        if len(self.members) and not 0 <= self.members.min() <= self.members.max() < len(self.features):
            raise MIVError(f"A bag of {folder} names an instance that is not there. {DAMAGED}")
        self.is_live = np.ones(self.bags, bool)
        self.is_live[list(manifest.removed)] = False

    @classmethod
    def open(cls, folder: Path, known: Sequence[Segment] = ()) -> "Snapshot":
        """Open what the manifest lists now; if a writer has just replaced files, read the manifest again."""
        for _ in range(_TRIES):
            try:
                return cls(folder, GalleryManifest.load(folder), known)
            except FileNotFoundError as error:
                missing = error
        raise MIVError(f"{missing.filename or missing} is missing. {DAMAGED}") from missing

    @property
    def bags(self) -> int:
        """Number of bags, with the removed ones."""
        return len(self.ptr) - 1

    @cached_property
    def number_of(self) -> dict[str, int]:
        """The number of each live bag by its name."""
        names = (name for segment in self.segments for name in segment.names)
        return {name: number for number, (name, live) in enumerate(zip(names, self.is_live, strict=True)) if live}

    def name(self, bag: int) -> str:
        """Name of a bag."""
        return self._texts(bag)[0]

    def instance_names(self, bag: int) -> list[str]:
        """Names of the instances of a bag; "" for one without a name."""
        return self._texts(bag)[1:]

    def _texts(self, bag: int) -> list[str]:
        for segment in self.segments:
            if bag < len(segment.sizes):
                return segment.texts(bag)
            bag -= len(segment.sizes)
        raise IndexError(bag)

    def hashes(self, rows: Integers) -> list[bytes]:
        """The hashes of instances."""
        return RowStore(self.segments, "hashes", 1).take(rows)[:, 0].tolist()

    def numbers(self, digests: list[bytes]) -> Integers:
        """The number of the instance with each digest, or -1."""
        wanted = np.frombuffer(b"".join(digests), "<u8")[::2]  # the first half of each
        keys, before = np.sort(wanted), 0
        number_of: dict[bytes, int] = {}
        for segment in self.segments if len(keys) else ():
            stored = segment.array("hashes")[:, 0]
            halves = segment.views["hashes"].view("<u8")[:, 0]
            likely = np.flatnonzero(keys[np.minimum(np.searchsorted(keys, halves), len(keys) - 1)] == halves)
            number_of |= dict(zip(stored[likely].tolist(), (before + likely).tolist(), strict=True))
            before += len(stored)
        return np.array([number_of.get(digest, -1) for digest in digests], np.int64)

    @property
    def live_members(self) -> Mask:
        """Whether each member is in a bag that is not removed."""
        return np.repeat(self.is_live, np.diff(self.ptr))

    def stored_between(self, first: int, last: int) -> Vectors:
        """Stored rows of the bags ``first`` to ``last - 1``."""
        if self.per == "bag":
            return self.stored.take(np.arange(first, last))
        places = slice(int(self.ptr[first]), int(self.ptr[last]))
        return self.stored.take(np.arange(places.start, places.stop) if self.per == "member" else self.members[places])
