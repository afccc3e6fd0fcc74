"""How much the galleries of a folder may still grow: every file counts, and removed bags make room."""

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from miv.errors import MIVError
from miv.gallery import Gallery
from miv.gallery.store.gallery_manifest import GalleryManifest
from miv.service.refusals import RefusedRequest

logger = logging.getLogger(__name__)
_PER_INSTANCE = 64  # bytes beside its features and its name: a digest and its place


class GalleryRoom:
    """The size limit of all galleries together.

    It is checked before a bag is embedded and without a lock, which would stop all galleries meanwhile; so each worker
    can exceed it by the bag that it is writing.

    Args:
        folders: returns the folders of all galleries, also of damaged ones.
        most_bytes: maximum size of all their files.
    """

    def __init__(self, folders: Callable[[], Iterable[Path]], most_bytes: int) -> None:
        self._folders, self.most_bytes = folders, most_bytes

    def check(self, needed: int) -> None:
        """Refuse what does not fit, after removed bags have been cleared away if that helps."""
        if self._bytes() + needed <= self.most_bytes:
            return
        for folder in self._folders():
            _compact(folder)
        total = self._bytes()
        if total + needed > self.most_bytes:
            raise RefusedRequest(
                413,
                f"The galleries have {total:,} bytes, {needed:,} more are needed, and {self.most_bytes:,} are allowed. "
                "Remove bags, or start the server with a larger --gallery-bytes.",
            )

    def _bytes(self) -> int:
        return sum(map(bytes_below, self._folders()))


def bytes_of_bag(instances: Sequence[Any], names: Sequence[str], channels: int) -> int:
    """About the bytes that a bag adds: float32 features, digests and names."""
    return len(instances) * (4 * channels + _PER_INSTANCE) + sum(len(name.encode()) for name in names)


def bytes_below(folder: Path) -> int:
    """Size of all files in a folder; those that vanish meanwhile do not count."""
    total = 0
    for place, _, files in os.walk(folder):
        for name in files:
            with suppress(OSError):
                total += (Path(place) / name).lstat().st_size
    return total


def _compact(folder: Path) -> None:
    try:
        if GalleryManifest.load(folder).removed is not None:
            Gallery.open(folder).compact()
    except MIVError as error:  # busy or damaged: it keeps its size
        logger.warning("The gallery %s could not be compacted: %s", folder.name, type(error).__name__)
