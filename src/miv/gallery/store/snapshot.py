"""A gallery at one moment: the bags and instances that its manifest lists."""

from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from miv.data import csr
from miv.errors import MIVError
from miv.gallery.store import arrow_files as arrow
from miv.gallery.store.gallery_manifest import GalleryManifest
from miv.gallery.store.row_store import Rows, RowStore
from miv.gallery.store.segments import Segment

_TRIES = 5  # a writer may remove a merged segment between our reading of the manifest and of the segment


class Snapshot:
    """Bags ``0`` to ``B - 1``, some of them removed, over instances ``0`` to ``U - 1``.

    Args:
        folder: of the gallery.
        manifest: the manifest.
        per: what a kept row belongs to.
        known: segments that are already mapped, by name.
    """

    def __init__(
        self, folder: Path, manifest: GalleryManifest, per: str, known: dict[str, Segment] | None = None
    ) -> None:
        self.folder, self.manifest, self.per = folder, manifest, per
        known = known or {}
        self.segments = [
            known[entry.name] if entry.name in known else Segment(folder, entry, manifest, per)
            for entry in manifest.segments
        ]
        self.features = RowStore([piece for one in self.segments for piece in one.features], manifest.channels)
        self.kept = RowStore(
            [piece for one in self.segments for piece in one.kept], manifest.width or manifest.channels
        )
        self.first_bag = csr.borders([entry.bags for entry in manifest.segments])
        self.ptr = csr.borders(np.concatenate([np.zeros(0, np.int64), *(one.sizes for one in self.segments)]))
        self.members = np.concatenate([np.zeros(0, np.int64), *(one.members for one in self.segments)])
        if len(self.members) and not 0 <= self.members.min() <= self.members.max() < len(self.features):
            raise MIVError(f"A bag of {folder} names an instance that is not there. {arrow.DAMAGED}")
        self.is_live = np.ones(self.bags, bool)
        self.is_live[self.removed] = False

    @classmethod
    def open(cls, folder: Path, per: str | None, known: dict[str, Segment] | None = None) -> "Snapshot":
        """Open what the manifest lists now; if a writer has just replaced files, read the manifest again.

        If ``per`` is ``None``, kept rows are not opened, so the verifier need not be known.
        """
        for _ in range(_TRIES):
            try:
                manifest = GalleryManifest.load(folder)
                if per is None:
                    return cls(folder, replace(manifest, width=0), "instance")
                return cls(folder, manifest, per, known)
            except FileNotFoundError as error:
                missing = error
        raise arrow.missing_file(missing) from missing

    @property
    def bags(self) -> int:
        """``B``, with the removed ones."""
        return int(self.first_bag[-1])

    @cached_property
    def removed(self) -> NDArray[np.int64]:
        """Numbers of the removed bags."""
        entry = self.manifest.removed
        if entry is None:
            return np.zeros(0, np.int64)
        batches = arrow.map_batches(self.folder / entry.file, arrow.removed_schema(), entry.bytes, entry.bags)
        if any(batch.column(0).null_count for batch in batches):
            raise MIVError(f"{self.folder / entry.file} has empty cells. {arrow.DAMAGED}")
        numbers = np.concatenate([np.zeros(0, np.int64), *(batch.column(0).to_numpy() for batch in batches)])
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < self.bags:
            raise MIVError(f"{self.folder / entry.file} names a bag that is not there. {arrow.DAMAGED}")
        return numbers

    @cached_property
    def number_of(self) -> dict[str, int]:
        """The number of each live bag by its name."""
        live, number, found = self.is_live, 0, {}
        for segment in self.segments:
            for name in segment.names:
                if live[number]:
                    found[name] = number
                number += 1
        return found

    def name(self, bag: int) -> str:
        """Name of a bag."""
        segment = int(np.searchsorted(self.first_bag, bag, side="right")) - 1
        return self.segments[segment].name(bag - int(self.first_bag[segment]))

    def instance_names(self, bag: int) -> list[str]:
        """Names of the instances of a bag."""
        segment = int(np.searchsorted(self.first_bag, bag, side="right")) - 1
        return self.segments[segment].instance_names(bag - int(self.first_bag[segment]))

    def kept_between(self, first: int, last: int) -> Rows:
        """Kept rows of the bags ``first`` to ``last - 1``."""
        if self.per == "bag":
            return self.kept.between(first, last)
        start, end = int(self.ptr[first]), int(self.ptr[last])
        return self.kept.between(start, end) if self.per == "member" else self.kept.take(self.members[start:end])

    def without_copy(self, first: int, last: int) -> int:
        """The end of the bags from ``first``, at most ``last``, whose kept rows can be read without a copy.

        Rows that follow each other are copied only if they lie in two pieces, so the bags before the border of a piece
        go first, then the bag on the border alone.
        """
        ptr = self.ptr if self.per != "bag" else np.arange(self.bags + 1)
        start, end = int(ptr[first]), int(ptr[last])
        row, final = (self.members[start], self.members[end - 1]) if self.per == "instance" else (start, end - 1)
        border = int(self.kept.borders[np.searchsorted(self.kept.borders, row, side="right")])
        if final - row != end - start - 1 or border > final:
            return last
        return max(first + 1, int(np.searchsorted(ptr, start + border - row, side="right")) - 1)

    def features_of(self, bags: NDArray[np.int64]) -> tuple[Rows, NDArray[np.int64]]:
        """Features and borders of some bags, in their order."""
        ptr, rows = csr.take_bags(self.ptr, bags)
        return self.features.take(self.members[rows]), ptr
