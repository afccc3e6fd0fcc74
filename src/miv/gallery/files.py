"""The files of a gallery: a manifest, and files of arrays, whose places in a file follow from the manifest's counts."""

import json
import re
import secrets
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
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


# The arrays of a segment, and what each row belongs to. Larger numbers come first, so that all are aligned.
COLUMNS = {
    "members": ("<i8", "member"),
    "sizes": ("<i8", "bag"),
    "features": ("<f4", "instance"),
    "stored": ("<f4", "stored"),  # what the pooling computes before it knows the query; see ``GalleryManifest.per``
    "text_sizes": ("<u4", "bag"),
    "hashes": (f"V{HASH_BYTES}", "instance"),
    "foreign": ("u1", "instance"),  # whether its statistics are out of distribution
    "texts": ("u1", "byte"),  # of each bag a JSON list: its name, and those of its members if they have any
}
MANIFEST_NAME = "gallery.json"
_FORMAT, _FORMAT_VERSION = "miv-gallery", 3
_SEGMENT_NAME = re.compile(r"segment-[0-9a-f]{16}")
_NO_GALLERY = "Expected a folder made by `miv gallery create`."
_MOST = 1 << 40  # instances, channels and bytes of a gallery are far fewer


@dataclass(frozen=True)
class SegmentEntry:
    """One segment: its file, and its counts."""

    name: str
    instances: int
    bags: int
    members: int
    bytes: int  # of its texts
    checksums: str

    def shapes(self, manifest: "GalleryManifest") -> dict[str, tuple[int, ...]]:
        counts = {"instance": self.instances, "bag": self.bags, "member": self.members, "byte": self.bytes}
        counts["stored"] = counts[manifest.per]
        widths = {"features": manifest.channels, "stored": manifest.width, "hashes": 1, "foreign": 1}
        shapes = {name: (counts[per],) for name, (_, per) in COLUMNS.items()}
        return {name: (*shape, widths[name]) if name in widths else shape for name, shape in shapes.items()}


def write_segment(folder: Path, arrays: Arrays) -> SegmentEntry:
    """Write a segment under a new name, whole or not at all; it belongs to the gallery once the manifest lists it."""
    name, rows = f"segment-{secrets.token_hex(8)}", dict.fromkeys(COLUMNS, 0)
    with whole_file(folder / SEGMENTS / name) as temporary:
        with temporary.open("wb") as file:
            for column, (dtype, _) in COLUMNS.items():
                for part in arrays.get(column, ()):
                    pause()
                    file.write(np.ascontiguousarray(part, dtype).data)
                    rows[column] += len(part)
        with temporary.open("rb") as file:
            checksums = "".join(map(checksum, iter(lambda: file.read(BLOCK), b"")))
    return SegmentEntry(name, rows["hashes"], rows["sizes"], rows["members"], rows["texts"], checksums)


@dataclass(frozen=True)
class GalleryManifest:
    """Which files belong to a gallery, and what a reader must know before it opens them. Replacing it is a change."""

    fingerprint: str  # of the verifier
    backbone: str  # fingerprint; with the same, features can be used again
    channels: int
    per: str  # what a stored row belongs to: an instance, a member of a bag, or a bag
    width: int  # of a stored row; 0 if the features themselves are read
    segments: tuple[SegmentEntry, ...] = ()  # in the order of their bags and instances
    removed: tuple[int, ...] = ()  # numbers of bags that no longer count, in order

    @property
    def instances(self) -> int:
        """Number of distinct instances."""
        return sum(segment.instances for segment in self.segments)

    @property
    def live_bags(self) -> int:
        """Number of bags that are not removed."""
        return sum(segment.bags for segment in self.segments) - len(self.removed)

    @property
    def bytes(self) -> int:
        """Size of the files of all segments."""
        return sum(places(segment.shapes(self))[-1] for segment in self.segments)

    def save(self, folder: Path) -> None:
        """Replace the manifest in one step, but not in a folder that someone has removed."""
        document = {"format": _FORMAT, "format_version": _FORMAT_VERSION, **asdict(self)}
        write_json(folder / MANIFEST_NAME, document | {"checksum": _checksum_of(document)}, make_folder=False)

    @classmethod
    def load(cls, folder: Path) -> "GalleryManifest":
        """Read and check the manifest."""
        path = folder / MANIFEST_NAME
        document = read_json_object(path, _NO_GALLERY)
        if document.get("format") != _FORMAT:
            raise MIVError(f'{path} has no "format": "{_FORMAT}". {_NO_GALLERY}')
        version = document.get("format_version")
        if version != _FORMAT_VERSION:
            raise MIVError(f"{path} has format_version {version!r}. Expected {_FORMAT_VERSION}. Add the bags again.")
        check_shape(document, _SHAPE, str(path), DAMAGED)
        if document.pop("checksum") != _checksum_of(document):
            raise MIVError(f"{path} is damaged: its checksum is of other content. Restore a copy of the gallery.")
        try:
            del document["format"], document["format_version"]
            segments, removed = (tuple(document.pop(name)) for name in ("segments", "removed"))
            manifest = cls(**document, segments=tuple(SegmentEntry(**entry) for entry in segments), removed=removed)
        except TypeError as error:  # a key too many
            raise MIVError(f"{path}: {error}. {DAMAGED}") from error
        manifest._check(path)
        return manifest

    def _check(self, path: Path) -> None:
        if self.per not in ("instance", "member", "bag"):
            raise MIVError(f"{path}: 'per' is {self.per[:80]!r}. {DAMAGED}")
        names = [segment.name for segment in self.segments]
        counts = [self.channels - 1, self.width]
        for segment in self.segments:
            counts += [segment.instances, segment.bags, segment.members - segment.bags]
            counts += [segment.bytes, places(segment.shapes(self))[-1]]
        if len(set(names)) != len(names) or not all(map(_SEGMENT_NAME.fullmatch, names)):
            raise MIVError(f"{path}: the segments are named {names[:3]}. {DAMAGED}")
        bags = sum(segment.bags for segment in self.segments)
        if list(self.removed) != sorted(set(self.removed)) or not all(0 <= bag < bags for bag in self.removed):
            raise MIVError(f"{path} names a bag that is not there. {DAMAGED}")
        if not all(0 <= count < _MOST for count in counts):
            raise MIVError(f"{path}: a count is negative or far too large. {DAMAGED}")


def _checksum_of(document: Mapping[str, Any]) -> str:
    return checksum(json.dumps(document, sort_keys=True).encode())


def places(shapes: Mapping[str, tuple[int, ...]]) -> list[int]:
    """Where each array begins in the file of a segment, and where the last one ends."""
    ends = [0]
    for name, shape in shapes.items():
        rows, width = (*shape, 1)[:2]
        ends.append(ends[-1] + rows * width * np.dtype(COLUMNS[name][0]).itemsize)
    return ends


_COUNTS = dict.fromkeys(("instances", "bags", "members", "bytes"), int)
_SHAPE = {
    "fingerprint": str,
    "backbone": str,
    "channels": int,
    "per": str,
    "width": int,
    "segments": [{"name": str, **_COUNTS, "checksums": str}],
    "removed": [int],
    "checksum": str,
}
