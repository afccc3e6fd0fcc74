"""The manifest of a gallery: which files belong to it. Replacing it is what makes a change."""

import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from miv.errors import MIVError
from miv.files.json import NUMBER, check_shape, read_json_object, write_json
from miv.gallery.arrow_files import DAMAGED

MANIFEST_NAME = "gallery.json"
_FORMAT, _FORMAT_VERSION = "miv-gallery", 1
_SEGMENT_NAME = re.compile(r"segment-[0-9a-f]{16}")
_REMOVED_NAME = re.compile(r"removed-[0-9a-f]{16}\.arrow")
INSTANCES, KEPT, BAGS = "instances.arrow", "kept.arrow", "bags.arrow"
_FILES = {INSTANCES, KEPT, BAGS, "index.arrow", "index.usearch"}  # the last two are no longer read
_NO_GALLERY = "Expected a folder made by `miv gallery create`."
_MOST = 1 << 40  # instances, channels and bytes of a gallery are far fewer


@dataclass(frozen=True)
class SegmentEntry:
    """One segment: its folder, its counts, and the sizes of its files."""

    name: str
    instances: int
    bags: int
    members: int
    bytes: dict[str, int]

    @property
    def size(self) -> int:
        """Rows to rewrite when it is merged."""
        return self.instances + self.members


@dataclass(frozen=True)
class Removed:
    """The file with the numbers of removed bags."""

    file: str
    bags: int
    bytes: int


@dataclass(frozen=True)
class GalleryManifest:
    """Everything that a reader must know before it opens the files.

    Args:
        fingerprint: of the verifier.
        backbone: fingerprint of its backbone; with the same, features can be used again.
        channels: length of a feature vector.
        width: length of a kept row; 0 if the features themselves are read.
        segments: in the order of their bags and instances.
        removed: bags that no longer count.
        generation: number of changes so far.
    """

    fingerprint: str
    backbone: str
    channels: int
    width: int
    segments: tuple[SegmentEntry, ...] = ()
    removed: Removed | None = None
    generation: int = 0
    made_with: dict[str, Any] = field(default_factory=dict)

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
        return sum(sum(segment.bytes.values()) for segment in self.segments)

    def changed(self, **changes: Any) -> "GalleryManifest":
        """The next generation."""
        return replace(self, generation=self.generation + 1, **changes)

    def save(self, folder: Path) -> None:
        """Replace the manifest in one step, but not in a folder that someone has removed."""
        document = {"format": _FORMAT, "format_version": _FORMAT_VERSION, "recall": None, **asdict(self)}
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
            raise MIVError(f"{path} has format_version {version!r}. Expected {_FORMAT_VERSION}. Update miv.")
        check_shape(document, _SHAPE, str(path), DAMAGED)
        try:
            segments = tuple(SegmentEntry(**one) for one in document.pop("segments"))
            removed = document.pop("removed")
            del document["recall"]  # of an index that earlier versions had, and still expect to be described
            manifest = cls(
                **document,
                segments=segments,
                removed=None if removed is None else Removed(**removed),
            )
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
        names = [segment.name for segment in self.segments]
        counts = [self.channels - 1, self.width, self.generation]
        for segment in self.segments:
            counts += [segment.instances, segment.bags, segment.members - segment.bags, *segment.bytes.values()]
            if not (segment.bytes.keys() <= _FILES and {INSTANCES, BAGS} <= segment.bytes.keys()):
                raise MIVError(f"{path}: {segment.name!r} has the files {sorted(segment.bytes)}. {DAMAGED}")
        if self.removed is not None:
            names.append(self.removed.file)
            counts += [self.removed.bags, self.removed.bytes]
        if len(set(names)) != len(names) or not all(map(_SEGMENT_NAME.fullmatch, names[: len(self.segments)])):
            raise MIVError(f"{path}: the segments are named {names[:3]}. {DAMAGED}")
        if self.removed is not None and not _REMOVED_NAME.fullmatch(self.removed.file):
            raise MIVError(f"{path}: the file of removed bags is named {self.removed.file[:80]!r}. {DAMAGED}")
        if not all(0 <= count < _MOST for count in counts):
            raise MIVError(f"{path}: a count is negative or far too large. {DAMAGED}")


_SHAPE = {
    "fingerprint": str,
    "backbone": str,
    "channels": int,
    "width": int,
    "generation": int,
    "segments": [{"name": str, "instances": int, "bags": int, "members": int, "bytes": {"*": int}}],
    "removed": None,
    "removed?": {"file": str, "bags": int, "bytes": int},
    "recall": None,
    "recall?": {"recall": NUMBER, "top": int, "queries": int, "bags": int, "share?": NUMBER},
    "made_with": dict,
}
