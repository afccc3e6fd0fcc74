"""A gallery at one moment: the bags and instances of the segments that its manifest lists."""

import secrets
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from miv.data import csr
from miv.errors import MIVError
from miv.files.atomic import whole_folder
from miv.gallery import files
from miv.gallery.files import BAGS, INSTANCES, KEPT, GalleryManifest, MappedFile, SegmentEntry

Rows = NDArray[np.float32]
Batches = Iterable[Any]  # record batches
SEGMENTS = "segments"
_TRIES = 5  # a writer may remove a merged segment between our reading of the manifest and of the segment


class Verifiable(Protocol):
    """A file that may be damaged."""

    def verify(self) -> None:
        """Raise an error if it is."""


class RowStore:
    """Rows ``(N, K)`` in pieces ``(n, K)``, each with the file that it is mapped from."""

    def __init__(self, pieces: Sequence[tuple[Rows, Verifiable]], width: int) -> None:
        self.pieces, self.width = [rows for rows, _ in pieces if len(rows)], width
        self._files = [file for rows, file in pieces if len(rows)]
        self.borders = csr.borders([len(piece) for piece in self.pieces])

    def __len__(self) -> int:
        return int(self.borders[-1])

    def between(self, first: int, last: int) -> Rows:
        """Rows ``first`` to ``last - 1``; without a copy if they are in one piece."""
        parts = []
        number = int(np.searchsorted(self.borders, first, side="right")) - 1
        while first < last:
            start, end = int(self.borders[number]), min(last, int(self.borders[number + 1]))
            self._files[number].verify()
            parts.append(self.pieces[number][first - start : end - start])
            first, number = end, number + 1
        return parts[0] if len(parts) == 1 else np.concatenate([np.zeros((0, self.width), np.float32), *parts])

    def take(self, rows: NDArray[np.int64]) -> Rows:
        """The rows with these numbers, in this order; without a copy if they follow each other in one piece."""
        if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
            return self.between(int(rows[0]), int(rows[-1]) + 1)
        taken = np.empty((len(rows), self.width), np.float32)
        of_piece = np.searchsorted(self.borders, rows, side="right") - 1
        for number in np.unique(of_piece):
            mine = of_piece == number
            self._files[number].verify()
            taken[mine] = self.pieces[number][rows[mine] - self.borders[number]]
        return taken


class Segment:
    """The mapped files of a segment; ``per`` is what a row is kept for: an instance, a member of a bag, or a bag."""

    def __init__(self, folder: Path, entry: SegmentEntry, manifest: GalleryManifest, per: str) -> None:
        self.entry, self.path = entry, folder / SEGMENTS / entry.name
        kept_rows = {"instance": entry.instances, "member": entry.members, "bag": entry.bags}[per]
        self.files = {
            INSTANCES: self._mapped(INSTANCES, files.schema(INSTANCES, manifest.channels), entry.instances),
            BAGS: self._mapped(BAGS, files.schema(BAGS), entry.bags),
        }
        self.features = self.kept = self._rows(INSTANCES, manifest.channels)
        if manifest.width:
            self.files[KEPT] = self._mapped(KEPT, files.schema(KEPT, manifest.width), kept_rows)
            self.kept = self._rows(KEPT, manifest.width)
        self.sizes, self.members = self._checked_bags()  # verified at once; other files when they are first used

    def _mapped(self, name: str, schema: Any, rows: int) -> MappedFile:
        if name not in self.entry.bytes:
            raise MIVError(f"{self.path} has no {name}. {files.DAMAGED}")
        return MappedFile(self.path / name, schema, self.entry.bytes[name], rows, self.entry.checksums.get(name, ""))

    def _rows(self, name: str, width: int) -> list[tuple[Rows, Verifiable]]:
        file = self.files[name]
        return [(files.column_rows(batch.column(batch.num_columns - 1), width), file) for batch in file.batches]

    def batches(self, name: str) -> list[Any]:
        """The verified record batches of a file; none if the gallery has no such file."""
        if name not in self.files:
            return []
        self.files[name].verify()
        return self.files[name].batches

    def _checked_bags(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sizes of the bags, and the numbers of their instances in the gallery."""
        sizes, members = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for batch in self.batches(BAGS):
            column, names = batch.column(1), batch.column(2)
            empty = sum(one.null_count for one in (batch.column(0), column, column.values, names))
            if empty or not names.offsets.equals(column.offsets):
                raise MIVError(f"{self.path / BAGS} has empty cells, or names of other instances. {files.DAMAGED}")
            sizes.append(np.diff(column.offsets.to_numpy()))
            members.append(column.flatten().to_numpy())
        all_sizes, all_members = np.concatenate(sizes), np.concatenate(members)
        if len(all_members) != self.entry.members or (all_sizes < 1).any():
            raise MIVError(f"{self.path / BAGS} has an empty bag, or other counts than the manifest. {files.DAMAGED}")
        return all_sizes, all_members

    @cached_property
    def names(self) -> list[str]:
        """Names of the bags."""
        return [name for batch in self.batches(BAGS) for name in batch.column(0).to_pylist()]


def write_segment(
    folder: Path, manifest: GalleryManifest, instances: Batches, bags: Batches, kept: Batches
) -> SegmentEntry:
    """Write a segment whole, under a new name; it belongs to the gallery once the manifest lists it."""
    name, bags = f"segment-{secrets.token_hex(8)}", list(bags)
    members = sum(len(batch.column(1).flatten()) for batch in bags)
    with whole_folder(folder / SEGMENTS / name) as temporary:
        schema = files.schema(INSTANCES, manifest.channels)
        instance_count = files.write_batches(temporary / INSTANCES, schema, instances)
        bag_count = files.write_batches(temporary / BAGS, files.schema(BAGS), bags)
        if manifest.width:
            files.write_batches(temporary / KEPT, files.schema(KEPT, manifest.width), kept)
        sizes = {file.name: file.stat().st_size for file in temporary.iterdir()}
        checksums = {file: files.checksums_of(temporary / file) for file in sizes}
    return SegmentEntry(name, instance_count, bag_count, members, sizes, checksums)


class Snapshot:
    """Bags ``0`` to ``B - 1``, some removed, over instances ``0`` to ``U - 1``; ``known`` segments are mapped."""

    segment_type = Segment

    def __init__(self, folder: Path, manifest: GalleryManifest, per: str, known: Sequence[Segment] = ()) -> None:
        self.folder, self.manifest, self.per = folder, manifest, per
        mapped = {segment.entry.name: segment for segment in known if segment.entry in manifest.segments}
        self.segments = [mapped.get(e.name) or self.segment_type(folder, e, manifest, per) for e in manifest.segments]
        pieces = [piece for segment in self.segments for piece in segment.features]
        kept_pieces = [piece for segment in self.segments for piece in segment.kept]
        self.features = RowStore(pieces, manifest.channels)
        self.kept = RowStore(kept_pieces, manifest.width or manifest.channels)
        self.bags = sum(entry.bags for entry in manifest.segments)  # B, with the removed ones
        none = np.zeros(0, np.int64)
        self.ptr = csr.borders(np.concatenate([none, *(segment.sizes for segment in self.segments)]))
        self.members = np.concatenate([none, *(segment.members for segment in self.segments)])
        if len(self.members) and not 0 <= self.members.min() <= self.members.max() < len(self.features):
            raise MIVError(f"A bag of {folder} names an instance that is not there. {files.DAMAGED}")
        self.is_live = np.ones(self.bags, bool)
        self.removed = self.removed_bags()
        self.is_live[self.removed] = False

    @classmethod
    def open(cls, folder: Path, per: str, known: Sequence[Segment] = ()) -> "Snapshot":
        """Open what the manifest lists now; if a writer has just replaced files, read the manifest again."""
        for _ in range(_TRIES):
            try:
                return cls(folder, GalleryManifest.load(folder), per, known)
            except FileNotFoundError as error:
                missing = error
        raise MIVError(f"{missing.filename or missing} is missing. {files.DAMAGED}") from missing

    def removed_bags(self) -> NDArray[np.int64]:
        """Read the numbers of the removed bags."""
        entry = self.manifest.removed
        if entry is None:
            return np.zeros(0, np.int64)
        path, schema = self.folder / entry.file, files.schema(files.REMOVED)
        file = MappedFile(path, schema, entry.bytes, entry.bags, entry.checksum)
        file.verify()
        batches = file.batches
        if any(batch.column(0).null_count for batch in batches):
            raise MIVError(f"{self.folder / entry.file} has empty cells. {files.DAMAGED}")
        numbers = np.concatenate([np.zeros(0, np.int64), *(batch.column(0).to_numpy() for batch in batches)])
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < self.bags:
            raise MIVError(f"{self.folder / entry.file} names a bag that is not there. {files.DAMAGED}")
        return numbers

    @cached_property
    def number_of(self) -> dict[str, int]:
        """The number of each live bag by its name."""
        names = (name for segment in self.segments for name in segment.names)
        return {name: number for number, (name, live) in enumerate(zip(names, self.is_live, strict=True)) if live}

    def name(self, bag: int) -> str:
        """Name of a bag."""
        return str(self._cell(0, bag))

    def instance_names(self, bag: int) -> list[str]:
        """Names of the instances of a bag; "" for one without a name."""
        return [name or "" for name in self._cell(2, bag)]

    def _cell(self, column: int, bag: int) -> Any:
        for batch in (batch for segment in self.segments for batch in segment.batches(BAGS)):
            if bag < len(batch):
                return batch.column(column)[bag].as_py()
            bag -= len(batch)
        raise IndexError(bag)

    @property
    def hashes(self) -> Any:
        """Hashes of all instances, a column."""
        batches = [batch for segment in self.segments for batch in segment.batches(INSTANCES)]
        return files.pa.chunked_array([batch.column(0) for batch in batches], files.pa.binary(files.HASH_BYTES))

    def numbers(self, digests: list[bytes]) -> NDArray[np.int64]:
        """The number of the instance with each digest, or -1."""
        from pyarrow.compute import index_in

        wanted = files.pa.array(digests, files.pa.binary(files.HASH_BYTES))
        return np.asarray(index_in(wanted, self.hashes).fill_null(-1), np.int64)

    @property
    def live_members(self) -> NDArray[np.bool_]:
        """Whether each member is in a bag that is not removed."""
        return np.repeat(self.is_live, np.diff(self.ptr))

    def kept_between(self, first: int, last: int) -> Rows:
        """Kept rows of the bags ``first`` to ``last - 1``."""
        if self.per == "bag":
            return self.kept.between(first, last)
        start, end = int(self.ptr[first]), int(self.ptr[last])
        return self.kept.between(start, end) if self.per == "member" else self.kept.take(self.members[start:end])
