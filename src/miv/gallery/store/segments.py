"""A segment: distinct instances and bags that were added together, in a folder that never changes."""

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.errors import MIVError
from miv.gallery.store import arrow_files as arrow
from miv.gallery.store.gallery_manifest import BAGS, INSTANCES, KEPT, GalleryManifest, SegmentEntry
from miv.io.whole_files import whole_folder

SEGMENTS = "segments"


@dataclass(frozen=True)
class SegmentContent:
    """What to write; each is an iterable of record batches, so that a large segment never has to fit in memory."""

    instances: Iterable[Any]
    bags: Iterable[Any]
    kept: Iterable[Any] | None


class Segment:
    """The mapped files of a segment.

    Args:
        folder: of the gallery.
        entry: from the manifest.
        manifest: for the widths of rows.
        per: what a row is kept for: an instance, a member of a bag, or a bag.
    """

    def __init__(self, folder: Path, entry: SegmentEntry, manifest: GalleryManifest, per: str) -> None:
        self.entry, self.path = entry, folder / SEGMENTS / entry.name
        kept_rows = {"instance": entry.instances, "member": entry.members, "bag": entry.bags}[per]
        self.instance_batches = self._mapped(INSTANCES, arrow.instance_schema(manifest.channels), entry.instances)
        self.bag_batches = self._mapped(BAGS, arrow.bag_schema(), entry.bags)
        self.features = [arrow.column_rows(batch.column(1), manifest.channels) for batch in self.instance_batches]
        self.kept, self.kept_batches = self.features, []
        if manifest.width:
            self.kept_batches = self._mapped(KEPT, arrow.kept_schema(manifest.width), kept_rows)
            self.kept = [arrow.column_rows(batch.column(0), manifest.width) for batch in self.kept_batches]
        self.sizes, self.members = self._checked_bags()

    def _mapped(self, name: str, schema: Any, rows: int) -> list[Any]:
        if name not in self.entry.bytes:
            raise MIVError(f"{self.path} has no {name}. {arrow.DAMAGED}")
        return arrow.map_batches(self.path / name, schema, self.entry.bytes[name], rows)

    def _checked_bags(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sizes of the bags, and the numbers of their instances in the gallery."""
        sizes, members = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for batch in self.bag_batches:
            column, names = batch.column(1), batch.column(2)
            empty = sum(one.null_count for one in (batch.column(0), column, column.values, names))
            if empty or not names.offsets.equals(column.offsets):
                raise MIVError(f"{self.path / BAGS} has empty cells, or names of other instances. {arrow.DAMAGED}")
            sizes.append(np.diff(column.offsets.to_numpy()))
            members.append(column.flatten().to_numpy())
        all_sizes, all_members = np.concatenate(sizes), np.concatenate(members)
        if len(all_members) != self.entry.members or (all_sizes < 1).any():
            raise MIVError(f"{self.path / BAGS} has an empty bag, or other counts than the manifest. {arrow.DAMAGED}")
        return all_sizes, all_members

    @property
    def hashes(self) -> NDArray[Any]:
        """Hashes of the instances."""
        return np.concatenate(
            [np.zeros(0, "S16"), *(arrow.column_hashes(batch.column(0)) for batch in self.instance_batches)]
        )

    @cached_property
    def names(self) -> list[str]:
        """Names of the bags."""
        return [name for batch in self.bag_batches for name in batch.column(0).to_pylist()]

    def name(self, bag: int) -> str:
        """Name of a bag, counted within the segment."""
        return str(self._cell(0, bag))

    def instance_names(self, bag: int) -> list[str]:
        """Names of the instances of a bag, counted within the segment; "" for one without a name."""
        return [name or "" for name in self._cell(2, bag)]

    def _cell(self, column: int, bag: int) -> Any:
        for batch in self.bag_batches:
            if bag < len(batch):
                return batch.column(column)[bag].as_py()
            bag -= len(batch)
        raise IndexError(bag)


def write_segment(folder: Path, content: SegmentContent, manifest: GalleryManifest) -> SegmentEntry:
    """Write a segment whole, under a new name; it belongs to the gallery once the manifest lists it."""
    name = f"segment-{secrets.token_hex(8)}"
    instances = bags = members = 0

    def counted_instances() -> Iterator[Any]:
        nonlocal instances
        for batch in content.instances:
            instances += len(batch)
            yield batch

    def counted_bags() -> Iterator[Any]:
        nonlocal bags, members
        for batch in content.bags:
            bags += len(batch)
            members += len(batch.column(1).flatten())
            yield batch

    with whole_folder(folder / SEGMENTS / name) as temporary:
        arrow.write_batches(temporary / INSTANCES, arrow.instance_schema(manifest.channels), counted_instances())
        arrow.write_batches(temporary / BAGS, arrow.bag_schema(), counted_bags())
        if content.kept is not None:
            arrow.write_batches(temporary / KEPT, arrow.kept_schema(manifest.width), content.kept)
        sizes = {file.name: file.stat().st_size for file in temporary.iterdir()}
    return SegmentEntry(name, instances, bags, members, sizes)
