"""The files of a gallery: a manifest, and Arrow files that are mapped and checked before they are believed."""

import re
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miv.errors import MIVError, needs_extra
from miv.files.json import check_shape, read_json_object, write_json
from miv.runtime import pause

HASH_BYTES = 16
INSTANCES, KEPT, BAGS, REMOVED = "instances.arrow", "kept.arrow", "bags.arrow", "removed"
DAMAGED = "The gallery is damaged. Restore a copy, or save what is left: miv gallery check FOLDER --rebuild NEW."
BLOCK = 1 << 20  # bytes with a checksum of their own, so that little is lost with one
_MAGIC = b"ARROW1\0\0"
_HEADER, _COMPRESSION = 2, 3  # numbers of the fields in the tables Message and RecordBatch of Arrow's format


class _Arrow:
    """pyarrow, imported when it is first used: `import miv` and its names must work without it."""

    def __getattr__(self, name: str) -> Any:
        with needs_extra("gallery", "A gallery", "pyarrow"):
            import pyarrow
        return getattr(pyarrow, name)


pa: Any = _Arrow()


def schema(file: str, width: int = 1) -> Any:
    """The columns of a file; rows have ``width`` numbers."""
    rows, texts = pa.list_(pa.float32(), width), pa.large_list(pa.string())
    bags = [("name", pa.string()), ("members", pa.large_list(pa.int64())), ("instance_names", texts)]
    instances = [("hash", pa.binary(HASH_BYTES)), ("features", rows)]
    return pa.schema({INSTANCES: instances, KEPT: [("kept", rows)], BAGS: bags, REMOVED: [("bag", pa.int64())]}[file])


def require_arrow() -> None:
    """Raise an error before any work if pyarrow is missing."""
    _ = pa.__version__


def write_batches(path: Path, schema: Any, batches: Iterable[Any]) -> int:
    """Write record batches, uncompressed, so that they can be mapped; return the number of rows."""
    rows = 0
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += len(batch)
    return rows


def checksums_of(path: Path) -> str:
    """The CRC-32 of each block of a file, 8 digits each."""
    sums = []
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            pause()
            sums.append(f"{zlib.crc32(block):08x}")
    return "".join(sums)


class MappedFile:
    """The mapped record batches of a file; anything but this schema, size and number of rows is an error."""

    def __init__(self, path: Path, schema: Any, expected_bytes: int, rows: int, checksums: str = "") -> None:
        self.path, self._checksums, self._is_verified = path, checksums, False
        try:
            size = path.stat().st_size
            if size != expected_bytes:
                raise MIVError(f"{path} has {size:,} bytes. Expected {expected_bytes:,}. {DAMAGED}")
            self._content = pa.memory_map(str(path)).read_buffer()
            self.batches = list(_record_batches(self._content, schema))
            for batch in self.batches:
                batch.validate(full=True)  # borders outside their texts would crash; rows of numbers have none to check
            counted = sum(len(batch) for batch in self.batches)
            # Mapped columns are no larger than their file, unless several claim the same bytes.
            if counted != rows or sum(batch.nbytes for batch in self.batches) > expected_bytes:
                raise MIVError(f"{path} has {counted:,} rows. Expected {rows:,}, each with bytes of its own. {DAMAGED}")
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise MIVError(f"{path} cannot be read: {error}. {DAMAGED}") from error

    @property
    def address(self) -> int:
        """Where the file begins in memory."""
        return int(self._content.address)

    def verify(self) -> None:
        """Raise an error, the first time, if the content is not what was written; older files have no checksums."""
        if self._checksums and not self._is_verified and checksums_of(self.path) != self._checksums:
            raise MIVError(f"{self.path} is damaged: its checksum is of other content. {DAMAGED}")
        self._is_verified = True

    def intact(self, address: int, width: int, rows: int) -> NDArray[np.bool_]:
        """Which rows of ``width`` bytes, of which the first is at an address, are as they were written."""
        starts = address - self.address + np.arange(rows) * width
        before = self._damaged_before
        return np.asarray(before[starts // BLOCK] == before[(starts + width - 1) // BLOCK + 1])

    @cached_property
    def _damaged_before(self) -> NDArray[np.int64]:
        """How many blocks before each one have other content than was written."""
        now, written = checksums_of(self.path), self._checksums
        damaged = [bool(written) and now[k : k + 8] != written[k : k + 8] for k in range(0, len(now), 8)]
        return np.cumsum([0, *damaged])


def row_column(rows: NDArray[np.float32]) -> Any:
    """Rows ``(N, K)`` as a column."""
    values = pa.array(np.ascontiguousarray(rows, np.float32).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(values, rows.shape[1])


def column_rows(column: Any, width: int) -> NDArray[np.float32]:
    """A column of ``N`` lists of ``K`` numbers as rows ``(N, K)``, without a copy."""
    if column.null_count or column.values.null_count:
        raise MIVError(f"A column of numbers has empty cells. {DAMAGED}")
    values = column.values.to_numpy(zero_copy_only=True).reshape(-1, width)
    return np.asarray(values[column.offset : column.offset + len(column)])


def bag_batch(names: list[str], members: list[NDArray[np.int64]], instance_names: list[list[str]]) -> Any:
    """Bags as a record batch."""
    sizes, joined = [len(bag) for bag in members], np.concatenate([np.zeros(0, np.int64), *members])
    flat = pa.array([name for bag in instance_names for name in bag], pa.string())
    return flat_bag_batch(pa.array(names, pa.string()), sizes, joined, flat)


def flat_bag_batch(names: Any, sizes: ArrayLike, members: NDArray[np.int64], instance_names: Any) -> Any:
    """Bags as a record batch, from the members of all bags one after the other."""
    borders = pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))
    lists = [pa.array(members, pa.int64()), instance_names]
    columns = [names, *(pa.LargeListArray.from_arrays(borders, values) for values in lists)]
    return pa.record_batch(columns, schema=schema(BAGS))


def _record_batches(content: Any, schema: Any) -> Iterator[Any]:
    """Yield the record batches of a mapped file; each is checked before it is unpacked, which can take all memory."""
    if content.slice(0, len(_MAGIC)).to_pybytes() != _MAGIC:
        raise pa.ArrowInvalid("it is not an Arrow file")
    messages = iter(pa.ipc.MessageReader.open_stream(pa.BufferReader(content.slice(len(_MAGIC)))))
    first = next(messages, None)
    if first is None:
        raise pa.ArrowInvalid("it has no schema")
    columns = pa.ipc.read_schema(first)
    if not columns.equals(schema):
        raise pa.ArrowInvalid(f"it has other columns: {str(columns)[:200]}")
    for message in messages:
        if message.type != "record batch":
            raise pa.ArrowInvalid(f"it has a message of another type: {message.type}")
        if _is_compressed(message.metadata.to_pybytes()):
            raise pa.ArrowInvalid("it is compressed")
        yield pa.ipc.read_record_batch(message, schema)


def _is_compressed(metadata: bytes) -> bool:
    """Whether the metadata of a record batch, a FlatBuffer that pyarrow has verified, has the field BodyCompression."""
    message = struct.unpack_from("<I", metadata)[0]
    header = _field(metadata, message, _HEADER)
    if header == message:
        return False  # reading it says that the header is missing
    batch = header + struct.unpack_from("<I", metadata, header)[0]
    return _field(metadata, batch, _COMPRESSION) != batch


def _field(metadata: bytes, table: int, number: int) -> int:
    """The place of a field of a FlatBuffers table; that of the table itself if it does not have the field."""
    offsets = table - struct.unpack_from("<i", metadata, table)[0]
    size = struct.unpack_from("<H", metadata, offsets)[0]
    place = 4 + 2 * number
    return table + (struct.unpack_from("<H", metadata, offsets + place)[0] if place + 2 <= size else 0)


MANIFEST_NAME = "gallery.json"
_FORMAT, _FORMAT_VERSION = "miv-gallery", 1
_SEGMENT_NAME = re.compile(r"segment-[0-9a-f]{16}")
_REMOVED_NAME = re.compile(r"removed-[0-9a-f]{16}\.arrow")
_FILES = {INSTANCES, KEPT, BAGS}
_NO_GALLERY = "Expected a folder made by `miv gallery create`."
_MOST = 1 << 40  # instances, channels and bytes of a gallery are far fewer


@dataclass(frozen=True)
class SegmentEntry:
    """One segment: its folder, its counts, and the sizes and checksums of its files."""

    name: str
    instances: int
    bags: int
    members: int
    bytes: dict[str, int]
    checksums: dict[str, str] = field(default_factory=dict)  # see ``checksums_of``; empty before version 0.2

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
    checksum: str = ""


@dataclass(frozen=True)
class GalleryManifest:
    """Which files belong to a gallery, and what a reader must know before it opens them. Replacing it is a change."""

    fingerprint: str  # of the verifier
    backbone: str  # fingerprint; with the same, features can be used again
    channels: int
    width: int  # of a kept row; 0 if the features themselves are read
    segments: tuple[SegmentEntry, ...] = ()  # in the order of their bags and instances
    removed: Removed | None = None  # bags that no longer count
    generation: int = 0  # number of changes so far
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
        del document["recall"]  # of an index that earlier versions had
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


_SEGMENT_SHAPE = {"name": str, "instances": int, "bags": int, "members": int, "bytes": {"*": int}}
_SHAPE = {
    "fingerprint": str,
    "backbone": str,
    "channels": int,
    "width": int,
    "generation": int,
    "segments": [{**_SEGMENT_SHAPE, "checksums?": {"*": str}}],
    "removed": None,
    "removed?": {"file": str, "bags": int, "bytes": int, "checksum?": str},
    "recall": None,
    "made_with": dict,
}
