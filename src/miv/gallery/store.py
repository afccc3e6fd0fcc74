"""The files of a gallery: any number of readers, one writer, and small segments that are merged."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from miv.errors import MIVError, warn
from miv.files.atomic import PART, readable_disk_errors, remove_unfinished, siblings
from miv.gallery.files import COLUMNS, MANIFEST_NAME, SEGMENTS, Arrays, GalleryManifest, SegmentEntry, write_segment
from miv.gallery.snapshot import Snapshot

_LOCK_NAME = "gallery.lock"
_TOGETHER = 4  # segments of about one size are merged when there are this many
_SMALLEST = 64  # rows; up to this, segments count as equally small
_LARGEST = 1 << 19  # rows of a merged segment: merging takes seconds
_ROWS_COPIED = 1 << 16


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
            if path.name not in listed:
                path.unlink()


class OpenGallery:
    """The current snapshot, and commits by the one writer."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._is_writing = folder, False
        self._stamp = self._stamp_now()
        self.snapshot = Snapshot.open(folder)

    @property
    def manifest(self) -> GalleryManifest:
        return self.snapshot.manifest

    def refresh(self) -> Snapshot:
        """See what other processes have committed since; a writer between two steps sees its own commits only."""
        return self.snapshot if self._is_writing else self._read()

    def _read(self) -> Snapshot:
        stamp = self._stamp_now()
        if stamp != self._stamp:
            self.snapshot = Snapshot.open(self.folder, self.snapshot.segments)
            self._stamp = stamp
        return self.snapshot

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Be the only writer in this block, starting from the newest files; readers go on with what they opened."""
        GalleryManifest.load(self.folder)  # an error if someone has removed it, before the lock makes its folder again
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
        GalleryManifest.load(self.folder)
        happened = "was removed while it was written to, and there is another one of that name, which is left as it is"
        raise GalleryReplaced(f"The gallery {self.folder} {happened}. Look at it before you repeat the change.")

    def write_segment(self, arrays: Arrays) -> SegmentEntry:
        """Write a segment; ``commit`` must list it."""
        self.require_same()
        return write_segment(self.folder, arrays)

    def commit(self, **changes: Any) -> None:
        """Replace the manifest, which lists new files."""
        self.require_same()
        manifest = replace(self.manifest, **changes)
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


def merge_small(store: OpenGallery) -> None:
    """Merge the last segments if there are several of one size; bags and instances keep their numbers.

    A failure, as on a full disk, is a warning: the change before it has been made.
    """
    try:
        while count := _count_to_merge([entry.instances + entry.members for entry in store.manifest.segments]):
            merged = store.snapshot.segments[-count:]
            entry = store.write_segment({name: [segment.array(name) for segment in merged] for name in COLUMNS})
            store.commit(segments=(*store.manifest.segments[:-count], entry))
    except GalleryReplaced:
        raise
    except MIVError as error:
        warn(f"The bags are in the gallery, but its small files could not be merged: {error}")


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


def compact(store: OpenGallery) -> None:
    """Rewrite everything as one segment, without removed bags and without instances that no bag uses."""
    snapshot = store.snapshot
    is_used = np.zeros(len(snapshot.features), bool)
    is_used[snapshot.members[snapshot.live_members]] = True
    new_number = np.cumsum(is_used) - 1

    def rows(name: str) -> Iterator[NDArray[Any]]:
        instances = bags = 0
        for segment in snapshot.segments:
            used = is_used[instances : instances + segment.entry.instances]
            live = snapshot.is_live[bags : bags + segment.entry.bags]
            instances, bags = instances + len(used), bags + len(live)
            masks = {"instance": used, "bag": live, "member": np.repeat(live, segment.sizes)}
            masks["stored"] = masks[snapshot.per]
            masks["byte"] = np.repeat(live, segment.views["text_sizes"])
            array, mask = segment.array(name), masks[COLUMNS[name][1]]
            for start in range(0, len(array), _ROWS_COPIED):
                part = array[start : start + _ROWS_COPIED][mask[start : start + _ROWS_COPIED]]
                yield new_number[part] if name == "members" else part

    entry = store.write_segment({name: rows(name) for name in COLUMNS})
    store.commit(segments=(entry,) if entry.bags else (), removed=())
