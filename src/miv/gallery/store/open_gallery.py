"""The files of a gallery as this process sees them; reloaded when another process has changed them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from miv.gallery.store.gallery_manifest import MANIFEST_NAME, GalleryManifest, Removed, SegmentEntry
from miv.gallery.store.gallery_writer import GalleryReplaced, remove_unlisted, write_removed, writing
from miv.gallery.store.known_instances import KnownInstances
from miv.gallery.store.segments import SegmentContent, write_segment
from miv.gallery.store.snapshot import Snapshot


class OpenGallery:
    """The current snapshot, and commits by the one writer.

    Args:
        folder: of the gallery.
        per: what a kept row belongs to.
    """

    def __init__(self, folder: Path, per: str) -> None:
        self.folder, self._per = folder, per
        self._stamp = self._stamp_now()
        self.snapshot = Snapshot.open(folder, per)
        self._known: KnownInstances | None = None

    @property
    def manifest(self) -> GalleryManifest:
        """The manifest of the snapshot."""
        return self.snapshot.manifest

    def refresh(self) -> Snapshot:
        """See what other processes have committed since."""
        stamp = self._stamp_now()
        if stamp != self._stamp:
            self._open()
            self._stamp, self._known = stamp, None
        return self.snapshot

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Be the only writer in this block, starting from the newest files."""
        with writing(self.folder):
            self.refresh()
            yield

    @property
    def known_instances(self) -> KnownInstances:
        """The instances by hash; kept over commits of this process."""
        if self._known is None:
            self._known = KnownInstances(self.snapshot)
        return self._known

    def require_same(self) -> None:
        """Raise an error if the gallery is no longer the one that this writer locked: its lock protects no other."""
        if self._stamp_now() == self._stamp:
            return
        GalleryManifest.require(self.folder)
        raise GalleryReplaced(
            f"The gallery {self.folder} was removed while it was written to, and there is another one of that name, "
            "which is left as it is. Look at it, and repeat the change if it still makes sense."
        )

    def write_segment(self, content: SegmentContent) -> SegmentEntry:
        """Write a segment; ``commit`` must list it."""
        self.require_same()
        return write_segment(self.folder, content, self.manifest)

    def write_removed(self, bags: NDArray[np.int64]) -> Removed | None:
        """Write the numbers of all removed bags; ``commit`` must list the file."""
        self.require_same()
        return write_removed(self.folder, bags)

    def commit(self, manifest: GalleryManifest, new_hashes: Sequence[bytes] | None = None) -> None:
        """List new files; ``new_hashes`` are those of added instances, ``None`` if instances were renumbered."""
        before = self.snapshot
        self.require_same()
        manifest.save(self.folder)
        self._stamp = self._stamp_now()
        self._open()
        if new_hashes is None:
            self._known = None
        elif self._known is not None:
            self._known.add(new_hashes)
        names = before.__dict__.get("number_of")
        if names is not None and new_hashes is not None and self.manifest.removed == before.manifest.removed:
            for segment in self.snapshot.segments[len(before.segments) :]:
                names.update(zip(segment.names, range(before.bags, before.bags + len(segment.names)), strict=True))
            self.snapshot.__dict__["number_of"] = names  # of a cached property
        self.require_same()
        remove_unlisted(self.folder, manifest)

    def _open(self) -> None:
        known = {segment.entry.name: segment for segment in self.snapshot.segments if segment.entry.bytes}
        entries = {entry.name: entry for entry in GalleryManifest.load(self.folder).segments}
        same = {name: segment for name, segment in known.items() if entries.get(name) == segment.entry}
        self.snapshot = Snapshot.open(self.folder, self._per, same)

    def _stamp_now(self) -> tuple[int, int, int] | None:
        try:
            status = (self.folder / MANIFEST_NAME).stat()
        except OSError:
            return None  # reading it says what is wrong
        return status.st_ino, status.st_mtime_ns, status.st_size
