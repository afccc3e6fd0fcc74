"""Find the damage in a gallery, and read what is left of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.data import csr
from miv.errors import MIVError
from miv.gallery import files
from miv.gallery.files import BAGS, HASH_BYTES, INSTANCES, KEPT, GalleryManifest, MappedFile, SegmentEntry
from miv.gallery.snapshot import SEGMENTS, Segment, Snapshot

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class GalleryCheck:
    """What a check of a gallery found."""

    bags: int  # that are whole
    problems: tuple[str, ...]  # one sentence per damaged file
    lost: tuple[str, ...]  # names of bags with damaged instances
    nameless: int  # bags whose names are damaged, too
    unchecked: int  # segments without checksums, as earlier versions made them

    def __str__(self) -> str:
        lines = [*self.problems, f"Whole bags: {self.bags:,}. Damaged bags: {len(self.lost) + self.nameless:,}."]
        if self.lost:
            lines.append(f"Lost: {', '.join(self.lost)}")
        if self.unchecked:
            lines.append(f"Segments without checksums: {self.unchecked:,}. `miv gallery compact` adds them.")
        return "\n".join(lines)

    def document(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {**vars(self), "problems": list(self.problems), "lost": list(self.lost)}


class _SegmentRemains(Segment):
    """A segment of which some files may be damaged or missing; what is missing is filled with zeros."""

    def __init__(self, folder: Path, entry: SegmentEntry, manifest: GalleryManifest, per: str) -> None:
        self.entry, self.path, self.files = entry, folder / SEGMENTS / entry.name, {}
        self.problems: list[str] = []
        zeros = [files.pa.array([bytes(HASH_BYTES)] * entry.instances, files.pa.binary(HASH_BYTES))]
        zeros.append(files.row_column(np.zeros((entry.instances, manifest.channels), np.float32)))
        schema = files.schema(INSTANCES, manifest.channels)
        no_instances = files.pa.record_batch(zeros, schema=schema)
        no_bags = files.bag_batch([""] * entry.bags, [np.zeros(1, np.int64)] * entry.bags, [[""]] * entry.bags)
        instances = self._tried(INSTANCES, schema, entry.instances)
        bags = self._tried(BAGS, files.schema(BAGS), entry.bags)
        if manifest.width:  # it is made anew from the instances
            rows = {"instance": entry.instances, "member": entry.members, "bag": entry.bags}[per]
            self._tried(KEPT, files.schema(KEPT, manifest.width), rows)
        self._batches = {
            INSTANCES: [no_instances] if instances is None else instances.batches,
            BAGS: [no_bags] if bags is None else bags.batches,
        }
        self.is_good_instance = _good(instances, self._batches[INSTANCES], (HASH_BYTES, 4 * manifest.channels))
        self.is_good_bag = _good(bags, self._batches[BAGS])
        columns = [batch.column(1) for batch in self._batches[INSTANCES]]
        self.features = self.kept = [(files.column_rows(column, manifest.channels), self) for column in columns]
        try:
            self.sizes, members = self._checked_bags()
        except MIVError:  # zeros, or damage that could still be read
            self._batches[BAGS], self.is_good_bag = [no_bags], np.zeros(entry.bags, bool)
            self.sizes, members = np.ones(entry.bags, np.int64), np.zeros(entry.bags, np.int64)
        self.members = np.where(np.repeat(self.is_good_bag, self.sizes), members, 0)

    def _tried(self, name: str, schema: Any, rows: int) -> MappedFile | None:
        """A file, even if its checksums differ; ``None`` if it cannot be read at all."""
        try:
            self.files[name] = self._mapped(name, schema, rows)
            self.files[name].verify()
        except (MIVError, FileNotFoundError) as error:
            missing = f"{self.path / name} is missing." if isinstance(error, FileNotFoundError) else str(error)
            self.problems.append(missing.removesuffix(files.DAMAGED).strip())
        return self.files.get(name)

    def batches(self, name: str) -> list[Any]:
        """The record batches of a file, damaged or not."""
        return self._batches[name]

    def verify(self) -> None:
        """Damage has been noted."""


def _good(file: MappedFile | None, batches: Sequence[Any], widths: Sequence[int] = ()) -> Mask:
    """Which rows are as they were written; ``widths`` are bytes of a row per column, without them a batch is one."""
    parts, end = [np.zeros(0, bool)], 0 if file is None else file.address
    for batch in batches:
        good = np.full(len(batch), file is not None)
        if file is not None:
            buffers = [one for column in batch.columns for one in column.buffers() if one is not None and one.size]
            first, last = min(one.address for one in buffers), max(one.address + one.size for one in buffers)
            good &= file.intact(end, first - end, 1)  # the description of the batch
            for buffer, width in zip(buffers, widths, strict=True) if widths else []:
                good &= file.intact(buffer.address, width, len(batch))
            if not widths:
                good &= file.intact(first, last - first, 1)
            end = last
        parts.append(good)
    return np.concatenate(parts)


class Remains(Snapshot):
    """What is left of a gallery: its live bags are those that are whole."""

    segment_type = _SegmentRemains

    def __init__(self, folder: Path, manifest: GalleryManifest, per: str, known: Sequence[Segment] = ()) -> None:
        self.unknown: list[str] = []
        super().__init__(folder, manifest, per)
        none, was_live = np.zeros(0, bool), self.is_live
        self.remains = [segment for segment in self.segments if isinstance(segment, _SegmentRemains)]  # all of them
        is_good = np.concatenate([none, *(segment.is_good_instance for segment in self.remains)])
        self.is_named = np.concatenate([none, *(segment.is_good_bag for segment in self.remains)])
        self.is_live = was_live & self.is_named & ~csr.bag_any(~is_good[self.members], self.ptr)
        self.lost = was_live & ~self.is_live

    def removed_bags(self) -> NDArray[np.int64]:
        """Read the numbers of the removed bags; none if their file is damaged, so that no bag is lost."""
        try:
            return super().removed_bags()
        except (MIVError, FileNotFoundError) as error:
            self.unknown.append(f"{str(error).removesuffix(files.DAMAGED).strip()} Removed bags are back.")
            return np.zeros(0, np.int64)

    def check(self) -> GalleryCheck:
        """Describe the damage."""
        problems = [*self.unknown, *(problem for segment in self.remains for problem in segment.problems)]
        lost = [self.name(int(bag)) for bag in np.flatnonzero(self.lost & self.is_named)]
        unchecked = sum(not segment.entry.checksums for segment in self.segments)
        nameless = int((self.lost & ~self.is_named).sum())
        return GalleryCheck(int(self.is_live.sum()), tuple(problems), tuple(lost), nameless, unchecked)
