"""The files of a gallery: a manifest, and files of arrays, whose places in a file follow from the manifest's counts."""

import re
import secrets
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.errors import MIVError
from miv.files.arrays import Mask
from miv.files.atomic import whole_file
from miv.files.json import check_shape, read_json_object, write_json
from miv.runtime import pause

SEGMENTS = "segments"
DAMAGED = "The gallery is damaged. Restore a copy, or save what is left: miv gallery check FOLDER --rebuild NEW."
BLOCK = 1 << 20  # bytes with a checksum of their own, so that little is lost with one
HASH_BYTES = 16
Arrays = Mapping[str, Iterable[NDArray[Any]]]  # each in any number of parts


class MappedFile:
    """The mapped bytes of a file, compared with the checksums of its blocks when they are first used."""

    def __init__(self, path: Path, size: int, checksums: str) -> None:
        self.path, self._checksums = path, checksums
        try:
            found = path.stat().st_size
            if found != size:
                raise MIVError(f"{path} has {found:,} bytes. Expected {size:,}. {DAMAGED}")
            self.content: NDArray[np.uint8] = np.asarray(np.memmap(path, np.uint8, "r"))
        except FileNotFoundError:
            raise
        except (OSError, ValueError) as error:
            raise MIVError(f"{path} cannot be read: {error}. {DAMAGED}") from error
        if len(checksums) != 8 * -(-size // BLOCK):
            raise MIVError(f"The checksums of {path} are incomplete. {DAMAGED}")
        self._is_verified = np.zeros(len(checksums) // 8, bool)

    def verify(self, start: int, end: int) -> None:
        """Raise an error if the bytes from ``start`` to ``end`` are not those that were written."""
        for block in range(start // BLOCK, -(-end // BLOCK)):
            if not self._is_verified[block]:
                pause()
                if self._is_damaged(block):
                    raise MIVError(f"{self.path} is damaged: its checksum is of other content. {DAMAGED}")
                self._is_verified[block] = True

    def intact(self, borders: NDArray[np.int64]) -> Mask:
        """Which of the runs of bytes from each border to the next are those that were written."""
        before = self._damaged_before
        return np.asarray(before[borders[:-1] // BLOCK] == before[-(-borders[1:] // BLOCK)])

    @cached_property
    def _damaged_before(self) -> NDArray[np.int64]:
        return np.cumsum([0, *map(self._is_damaged, range(len(self._is_verified)))])

    def _is_damaged(self, block: int) -> bool:
        return checksum(self.content[block * BLOCK : (block + 1) * BLOCK]) != self._checksums[8 * block : 8 * block + 8]


def checksum(content: Any) -> str:
    """The CRC-32 of a block, 8 digits."""
    return f"{zlib.crc32(content):08x}"


def write_arrays(path: Path, dtypes: Mapping[str, str], arrays: Arrays) -> tuple[dict[str, int], str]:
    """Write arrays one after the other, whole or not at all; return the rows of each, and the checksums of all."""
    rows = dict.fromkeys(dtypes, 0)
    with whole_file(path) as temporary:
        with temporary.open("wb") as file:
            for name, dtype in dtypes.items():
                for part in arrays.get(name, ()):
                    pause()
                    file.write(np.ascontiguousarray(part, dtype).data)
                    rows[name] += len(part)
        with temporary.open("rb") as file:
            checksums = "".join(map(checksum, iter(lambda: file.read(BLOCK), b"")))
    return rows, checksums


# The arrays of a segment, and what each row belongs to. Larger numbers come first, so that all are aligned.
COLUMNS = {
    "members": ("<i8", "member"),
    "sizes": ("<i8", "bag"),
    "features": ("<f4", "instance"),
    "stored": ("<f4", "stored"),  # what the pooling computes before it knows the query; see ``GalleryManifest.per``
    "name_sizes": ("<u2", "bag"),
    "label_sizes": ("<u2", "member"),
    "hashes": (f"V{HASH_BYTES}", "instance"),
    "foreign": ("u1", "instance"),  # whether its statistics are out of distribution
    "names": ("u1", "name_byte"),  # of the bags, as UTF-8
    "labels": ("u1", "label_byte"),  # names of the members
}
MANIFEST_NAME = "gallery.json"
_FORMAT, _FORMAT_VERSION = "miv-gallery", 2
_SEGMENT_NAME = re.compile(r"segment-[0-9a-f]{16}")
_REMOVED_NAME = re.compile(r"removed-[0-9a-f]{16}")
_NO_GALLERY = "Expected a folder made by `miv gallery create`."
_MOST = 1 << 40  # instances, channels and bytes of a gallery are far fewer


@dataclass(frozen=True)
class SegmentEntry:
    """One segment: its file, and its counts."""

    name: str
    instances: int
    bags: int
    members: int
    name_bytes: int
    label_bytes: int
    checksums: str

    @property
    def size(self) -> int:
        """Rows to rewrite when it is merged."""
        return self.instances + self.members

    def shapes(self, manifest: "GalleryManifest") -> dict[str, tuple[int, ...]]:
        """The shape of each array."""
        counts = {"instance": self.instances, "bag": self.bags, "member": self.members}
        counts |= {"stored": counts[manifest.per], "name_byte": self.name_bytes, "label_byte": self.label_bytes}
        widths = {"features": manifest.channels, "stored": manifest.width, "hashes": 1, "foreign": 1}
        shapes = {name: (counts[per],) for name, (_, per) in COLUMNS.items()}
        return {name: (*shape, widths[name]) if name in widths else shape for name, shape in shapes.items()}


def write_segment(folder: Path, arrays: Arrays) -> SegmentEntry:
    """Write a segment under a new name; it belongs to the gallery once the manifest lists it."""
    name = f"segment-{secrets.token_hex(8)}"
    rows, checksums = write_arrays(
        folder / SEGMENTS / name, {name: dtype for name, (dtype, _) in COLUMNS.items()}, arrays
    )
    instances, bags, members = rows["hashes"], rows["sizes"], rows["members"]
    return SegmentEntry(name, instances, bags, members, rows["names"], rows["labels"], checksums)


@dataclass(frozen=True)
class Removed:
    """The file with the numbers of removed bags."""

    file: str
    bags: int
    checksums: str


@dataclass(frozen=True)
class GalleryManifest:
    """Which files belong to a gallery, and what a reader must know before it opens them. Replacing it is a change."""

    fingerprint: str  # of the verifier
    backbone: str  # fingerprint; with the same, features can be used again
    channels: int
    per: str  # what a stored row belongs to: an instance, a member of a bag, or a bag
    width: int  # of a stored row; 0 if the features themselves are read
    segments: tuple[SegmentEntry, ...] = ()  # in the order of their bags and instances
    removed: Removed | None = None  # bags that no longer count
    generation: int = 0  # number of changes so far

    @property
    def instances(self) -> int:
        """Number of distinct instances."""
        return sum(segment.instances for segment in self.segments)

    @property
    def live_bags(self) -> int:
        """Number of bags that are not removed."""
        return sum(segment.bags for segment in self.segments) - (0 if self.removed is None else self.removed.bags)

    @property
    def bytes(self) -> int:
        """Size of the files of all segments."""
        return sum(places(segment.shapes(self))[-1] for segment in self.segments)

    def changed(self, **changes: Any) -> "GalleryManifest":
        """The next generation."""
        return replace(self, generation=self.generation + 1, **changes)

    def save(self, folder: Path) -> None:
        """Replace the manifest in one step, but not in a folder that someone has removed."""
        document = {"format": _FORMAT, "format_version": _FORMAT_VERSION, **asdict(self)}
        write_json(folder / MANIFEST_NAME, document, make_folder=False)

    @classmethod
    def load(cls, folder: Path) -> "GalleryManifest":
        """Read and check the manifest."""
        path = folder / MANIFEST_NAME
        document = read_json_object(path, _NO_GALLERY)
        if document.pop("format", None) != _FORMAT:
            raise MIVError(f'{path} has no "format": "{_FORMAT}". {_NO_GALLERY}')
        version = document.pop("format_version", None)
        if version != _FORMAT_VERSION:
            raise MIVError(f"{path} has format_version {version!r}. Expected {_FORMAT_VERSION}. Add the bags again.")
        check_shape(document, _SHAPE, str(path), DAMAGED)
        removed = document.pop("removed")
        try:
            segments = tuple(SegmentEntry(**entry) for entry in document.pop("segments"))
            manifest = cls(**document, segments=segments, removed=None if removed is None else Removed(**removed))
        except TypeError as error:  # a key too many
            raise MIVError(f"{path}: {error}. {DAMAGED}") from error
        manifest._check(path)
        return manifest

    @classmethod
    def require(cls, folder: Path) -> None:
        """Raise an error if someone has removed the gallery, before a writer makes its folders again."""
        if not (folder / MANIFEST_NAME).is_file():
            cls.load(folder)  # says what is missing

    def _check(self, path: Path) -> None:
        if self.per not in ("instance", "member", "bag"):
            raise MIVError(f"{path}: 'per' is {self.per[:80]!r}. {DAMAGED}")
        names = [segment.name for segment in self.segments]
        counts = [self.channels - 1, self.width, self.generation]
        for segment in self.segments:
            counts += [segment.instances, segment.bags, segment.members - segment.bags]
            counts += [segment.name_bytes, segment.label_bytes, places(segment.shapes(self))[-1]]
        if self.removed is not None:
            counts.append(self.removed.bags)
        if len(set(names)) != len(names) or not all(map(_SEGMENT_NAME.fullmatch, names)):
            raise MIVError(f"{path}: the segments are named {names[:3]}. {DAMAGED}")
        if self.removed is not None and not _REMOVED_NAME.fullmatch(self.removed.file):
            raise MIVError(f"{path}: the file of removed bags is named {self.removed.file[:80]!r}. {DAMAGED}")
        if not all(0 <= count < _MOST for count in counts):
            raise MIVError(f"{path}: a count is negative or far too large. {DAMAGED}")


def places(shapes: Mapping[str, tuple[int, ...]]) -> list[int]:
    """Where each array begins in the file of a segment, and where the last one ends."""
    ends = [0]
    for name, shape in shapes.items():
        rows, width = (*shape, 1)[:2]
        ends.append(ends[-1] + rows * width * np.dtype(COLUMNS[name][0]).itemsize)
    return ends


_COUNTS = ("instances", "bags", "members", "name_bytes", "label_bytes")
_SHAPE = {
    "fingerprint": str,
    "backbone": str,
    "channels": int,
    "per": str,
    "width": int,
    "generation": int,
    "segments": [{"name": str, **dict.fromkeys(_COUNTS, int), "checksums": str}],
    "removed": None,
    "removed?": {"file": str, "bags": int, "checksums": str},
}
