"""The files of a gallery: any number of readers, one writer, and small segments that are merged."""

import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from miv.errors import MIVError, warn
from miv.files.atomic import PART, readable_disk_errors, remove_unfinished, siblings, whole_file
from miv.gallery import files
from miv.gallery.files import BAGS, INSTANCES, KEPT, MANIFEST_NAME, GalleryManifest, Removed, SegmentEntry
from miv.gallery.snapshot import SEGMENTS, Batches, Segment, Snapshot, write_segment

_LOCK_NAME = "gallery.lock"
_TOGETHER = 4  # segments of about one size are merged when there are this many
_SMALLEST = 64  # rows; up to this, segments count as equally small
_LARGEST = 1 << 19  # rows of a merged segment: merging takes seconds
_ROWS_PER_BATCH = 1 << 16
_BAGS_PER_BATCH = 1 << 12  # damage loses all bags of a batch


class GalleryBusy(MIVError):  # noqa: N818 - named after what is wrong
    """Another process or thread is writing; the same call works when it has ended."""


class GalleryReplaced(MIVError):  # noqa: N818 - named after what is wrong
    """The gallery was removed while it was written to, and another one was made under its name."""


def remove_unlisted(folder: Path, manifest: GalleryManifest) -> None:
    """Remove the files that no manifest lists any more, or that a killed writer never listed, if the system lets us."""
    listed = {entry.name for entry in manifest.segments}
    with suppress(OSError):
        remove_unfinished(folder / SEGMENTS)
        for path in siblings(folder / MANIFEST_NAME, PART):
            path.unlink()
        for path in (folder / SEGMENTS).glob("segment-*"):
            if path.name not in listed and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
        for path in folder.glob("removed-*.arrow"):
            if manifest.removed is None or path.name != manifest.removed.file:
                path.unlink()


class OpenGallery:
    """The current snapshot, and commits by the one writer; ``per`` is what a kept row belongs to."""

    def __init__(self, folder: Path, per: str) -> None:
        self.folder, self._per, self._is_writing = folder, per, False
        self._stamp = self._stamp_now()
        self.snapshot = Snapshot.open(folder, per)

    @property
    def manifest(self) -> GalleryManifest:
        """The manifest of the snapshot."""
        return self.snapshot.manifest

    def refresh(self) -> Snapshot:
        """See what other processes have committed since; a writer between two steps sees its own commits only."""
        return self.snapshot if self._is_writing else self._read()

    def _read(self) -> Snapshot:
        stamp = self._stamp_now()
        if stamp != self._stamp:
            self.snapshot = Snapshot.open(self.folder, self._per, self.snapshot.segments)
            self._stamp = stamp
        return self.snapshot

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Be the only writer in this block, starting from the newest files; readers go on with what they opened."""
        GalleryManifest.require(self.folder)
        path = self.folder / _LOCK_NAME
        with readable_disk_errors(path):
            try:
                lock = FileLock(path).acquire(timeout=0)  # released when the process ends for any reason
            except Timeout:
                remedy = "Wait until it has ended, and try again. Searching works meanwhile."
                raise GalleryBusy(f"Another process is writing to the gallery {self.folder}. {remedy}") from None
        with lock:
            remove_unlisted(self.folder, GalleryManifest.load(self.folder))
            self._read()
            self._is_writing = True
            try:
                yield
            finally:
                self._is_writing = False

    def require_same(self) -> None:
        """Raise an error if the gallery is no longer the one that this writer locked: its lock protects no other."""
        if self._stamp_now() == self._stamp:
            return
        GalleryManifest.require(self.folder)
        happened = "was removed while it was written to, and there is another one of that name, which is left as it is"
        raise GalleryReplaced(f"The gallery {self.folder} {happened}. Look at it before you repeat the change.")

    def write_segment(self, instances: Batches, bags: Batches, kept: Batches) -> SegmentEntry:
        """Write a segment; ``commit`` must list it."""
        self.require_same()
        together = (rebatched(instances), rebatched(bags, _BAGS_PER_BATCH), rebatched(kept))
        return write_segment(self.folder, self.manifest, *together)

    def write_removed(self, bags: NDArray[np.int64]) -> Removed | None:
        """Write the numbers of all removed bags; ``commit`` must list the file."""
        self.require_same()
        if not len(bags):
            return None
        path, numbers = self.folder / f"removed-{secrets.token_hex(8)}.arrow", np.unique(bags)
        batch = files.pa.record_batch([files.pa.array(numbers, files.pa.int64())], schema=files.schema(files.REMOVED))
        with whole_file(path) as temporary:
            files.write_batches(temporary, files.schema(files.REMOVED), [batch])
            checksum = files.checksums_of(temporary)
        return Removed(path.name, len(numbers), path.stat().st_size, checksum)

    def commit(self, manifest: GalleryManifest) -> None:
        """Replace the manifest, which lists new files."""
        self.require_same()
        manifest.save(self.folder)
        self._read()
        self.require_same()
        remove_unlisted(self.folder, manifest)

    def _stamp_now(self) -> tuple[int, int, int] | None:
        try:
            status = (self.folder / MANIFEST_NAME).stat()
        except OSError:
            return None  # reading it says what is wrong
        return status.st_ino, status.st_mtime_ns, status.st_size


def merge_if_possible(store: OpenGallery) -> None:
    """Merge small segments; a failure, as on a full disk, is a warning: the change before it has been made."""
    try:
        merge_small(store)
    except GalleryReplaced:
        raise
    except MIVError as error:
        warn(f"The bags are in the gallery, but its small files could not be merged: {error}")


def merge_small(store: OpenGallery) -> None:
    """Merge the last segments if there are several of one size; bags and instances keep their numbers."""
    while count := _count_to_merge([entry.size for entry in store.manifest.segments]):
        merged = store.snapshot.segments[-count:]
        batches = (_batches(merged, name) for name in (INSTANCES, BAGS, KEPT))
        entry = store.write_segment(*batches)
        store.commit(store.manifest.changed(segments=(*store.manifest.segments[:-count], entry)))


def compact(store: OpenGallery) -> None:
    """Rewrite everything as one segment, without removed bags and without instances that no bag uses."""
    snapshot, segments = store.snapshot, store.snapshot.segments
    is_used = np.zeros(len(snapshot.features), bool)
    is_used[snapshot.members[snapshot.live_members]] = True
    kept = {"instance": is_used, "member": snapshot.live_members, "bag": snapshot.is_live}[snapshot.per]
    entry = store.write_segment(
        _filtered(_batches(segments, INSTANCES), is_used),
        _renumbered(_filtered(_batches(segments, BAGS), snapshot.is_live), np.cumsum(is_used) - 1),
        _filtered(_batches(segments, KEPT), kept),
    )
    store.commit(store.manifest.changed(segments=(entry,) if entry.bags else (), removed=None))


def _batches(segments: Sequence[Segment], name: str) -> Iterator[Any]:
    return (batch for segment in segments for batch in segment.batches(name))


def rebatched(batches: Batches, rows: int = _ROWS_PER_BATCH) -> Iterator[Any]:
    """The same rows in batches of a useful size: thousands of tiny ones would be slow to read."""
    waiting: list[Any] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= rows:
            yield from _joined(waiting, rows)
            waiting = []
    yield from _joined(waiting, rows)


def _joined(batches: list[Any], rows: int) -> Iterator[Any]:
    if any(len(batch) for batch in batches):
        yield from files.pa.Table.from_batches(batches).combine_chunks().to_batches(max_chunksize=rows)


def _count_to_merge(sizes: list[int]) -> int:
    limit = _SMALLEST
    while limit <= _LARGEST:
        count = total = 0
        for size in reversed(sizes):
            if size > limit or total + size > _LARGEST:
                break
            count, total = count + 1, total + size
        if count >= _TOGETHER:
            return count
        limit *= _TOGETHER
    return 0


def _filtered(batches: Batches, mask: NDArray[np.bool_]) -> Iterator[Any]:
    start = 0
    for batch in batches:
        yield batch.filter(files.pa.array(mask[start : start + len(batch)]))
        start += len(batch)


def _renumbered(bags: Batches, new_number: NDArray[np.int64]) -> Iterator[Any]:
    for batch in bags:
        column = batch.column(1)
        sizes, members = np.diff(column.offsets.to_numpy()), new_number[column.flatten().to_numpy()]
        yield files.flat_bag_batch(batch.column(0), sizes, members, batch.column(2).flatten())
