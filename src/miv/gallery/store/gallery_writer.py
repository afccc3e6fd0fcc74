"""One writer at a time: commit segments, remove bags, and clear what a killed writer left."""

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from miv.errors import MIVError
from miv.gallery.store import arrow_files as arrow
from miv.gallery.store.gallery_manifest import MANIFEST_NAME, GalleryManifest, Removed
from miv.gallery.store.segments import SEGMENTS
from miv.io.temporary_names import PART, siblings
from miv.io.whole_files import remove_unfinished, said_plainly, whole_file

_LOCK_NAME = "gallery.lock"


class GalleryBusy(MIVError):  # noqa: N818 - named after what is wrong
    """Another process or thread is writing; the same call works when it has ended."""


class GalleryReplaced(MIVError):  # noqa: N818 - named after what is wrong
    """The gallery was removed while it was written to, and another one was made under its name."""


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Be the only writer of a gallery in this block; readers go on with what they opened."""
    GalleryManifest.require(folder)
    lock = FileLock(folder / _LOCK_NAME)  # released when the process ends for any reason
    with said_plainly(folder / _LOCK_NAME):
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise GalleryBusy(
                f"Another process is writing to the gallery {folder}. Wait until it has ended, and try again. "
                "Searching works meanwhile."
            ) from None
    try:
        remove_unlisted(folder, GalleryManifest.load(folder))
        yield
    finally:
        lock.release()


def remove_unlisted(folder: Path, manifest: GalleryManifest) -> None:
    """Remove the files that no manifest lists any more, or that a killed writer never listed.

    Readers that have mapped them keep them until they end. Where the system does not allow to remove such files, they
    stay until the next change.
    """
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


def write_removed(folder: Path, bags: NDArray[np.int64]) -> Removed | None:
    """Write the numbers of all removed bags under a new name."""
    if not len(bags):
        return None
    path = folder / f"removed-{secrets.token_hex(8)}.arrow"
    with whole_file(path) as temporary:
        arrow.write_batches(temporary, arrow.removed_schema(), [arrow.removed_batch(np.unique(bags))])
    return Removed(path.name, len(np.unique(bags)), path.stat().st_size)
