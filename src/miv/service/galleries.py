"""The galleries of the service, in a folder that all its processes share.

Names from requests never become paths unless they match a pattern. Files are changed under a lock that the system
releases when a process ends for any reason; reading needs no lock.
"""

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import disk_usage
from typing import Any

from filelock import FileLock

from miv.errors import MIVError
from miv.files.atomic import readable_disk_errors
from miv.gallery import MANIFEST_NAME, Gallery, GalleryBusy, GalleryManifest, GalleryReplaced, Hits, TooManyPooled
from miv.service.errors import RefusedRequest
from miv.service.models import LoadedModel

logger = logging.getLogger(__name__)
_LOCK_SECONDS = 10.0  # to wait for a lock; creating a gallery copies a verifier
_GALLERY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MOST_GALLERIES = 1_000
_NAMES_SHOWN = 1_000
_FEW_REMOVED = 64  # removed bags that are not worth a compaction
_RESERVE = 16_000_000  # bytes of the disk, or a twentieth of it
_PER_INSTANCE = 64  # bytes beside its features and its name: a digest and its row


class GalleryRegistry:
    """Galleries in one folder, which other processes may change. Methods with a model run in that model's thread."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self.folder = folder.resolve()  # errors that hold this path are about its files
        with readable_disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        self._most_bytes = most_bytes
        self._open: dict[tuple[str, str], Gallery] = {}  # by name and fingerprint

    def names(self) -> list[str]:
        with self._guarded("read"):
            return sorted(path.name for path in self.folder.iterdir() if self._is_gallery(path))

    def all_listed(self, models: Mapping[str, LoadedModel]) -> list[dict[str, Any]]:
        """Describe all galleries, without those that are removed meanwhile."""
        listed = []
        for name in self.names():
            with suppress(RefusedRequest):
                listed.append(self.listed(name, models))
        return listed

    def listed(self, name: str, models: Mapping[str, LoadedModel]) -> dict[str, Any]:
        """Describe a gallery by its manifest; ``models`` by fingerprint."""
        about = {"name": name, "model": None, "bags": 0, "instances": 0, "bytes": 0, "problem": None}
        try:
            model, manifest = self.model_of(name, models)
        except RefusedRequest as error:
            if error.status == 404:
                raise
            return about | {"problem": str(error)}
        counts = {"bags": manifest.live_bags, "instances": manifest.instances, "bytes": manifest.bytes}
        return {**about, "model": model.name, **counts}

    def model_of(self, name: str, models: Mapping[str, LoadedModel]) -> tuple[LoadedModel, GalleryManifest]:
        """The served model that made a gallery, and its manifest; any other model would misread what it stores."""
        with self._guarded("read", name):
            manifest = self._manifest(name)
        model = models.get(manifest.fingerprint)
        if model is None:
            raise RefusedRequest(409, self._other_verifier(name))
        return model, manifest

    def create(self, name: str, model: LoadedModel) -> None:
        """Create an empty gallery with a copy of the model's verifier."""
        if not _GALLERY_NAME.fullmatch(name):
            expected = "Expected 1 to 100 letters from a to z, digits, -, _ or ., with a letter or digit first"
            raise RefusedRequest(422, f"The name of a gallery is {name[:80]!r}. {expected}.")
        lock = FileLock(self.folder / ".miv-galleries.lock", timeout=_LOCK_SECONDS)
        with self._guarded("created"), lock:
            # Gallery.create replaces an empty folder; under the lock, nobody else makes one of this name.
            if (self.folder / name).exists():
                raise RefusedRequest(409, f"There is a gallery or file {name} already. Choose another name.")
            if len(self.names()) >= _MOST_GALLERIES:
                raise RefusedRequest(413, f"There are {_MOST_GALLERIES:,} galleries, and no more are allowed.")
            self._check_room(4 * sum(weights.numel() for weights in model.verifier.parameters()))
            Gallery.create(self.folder / name, model.verifier)

    def put(self, name: str, bag: str, instances: Sequence[Any], names: Sequence[str], model: LoadedModel) -> int:
        """Add or replace a bag; return the number of bags."""
        with self._writing(name, model) as gallery:
            per_instance = 4 * model.verifier.backbone.channels + _PER_INSTANCE
            self._check_room(len(instances) * per_instance + sum(len(name.encode()) for name in names))
            gallery.put(bag, instances, instance_names=names)
            return self._after_change(name, gallery)

    def remove(self, name: str, bag: str, model: LoadedModel) -> None:
        with self._writing(name, model) as gallery:
            if bag not in gallery:
                raise RefusedRequest(404, f"There is no bag {bag[:80]!r} in the gallery {name}.")
            gallery.remove(bag)
            self._after_change(name, gallery)

    def search(self, name: str, query: Any, model: LoadedModel, **options: Any) -> Hits:
        with self._guarded("read", name):
            try:
                return self._gallery(name, model).search(query, **options)
            except TooManyPooled as error:
                raise RefusedRequest(413, str(error)) from error

    def described(self, name: str, model: LoadedModel) -> dict[str, Any]:
        with self._guarded("read", name):
            gallery = self._gallery(name, model)
            about = {**gallery.info(), "name": name, "model": model.name, "problem": None}
            del about["folder"]
            return {**about, "names": gallery.names[:_NAMES_SHOWN]}

    @contextmanager
    def _writing(self, name: str, model: LoadedModel) -> Iterator[Gallery]:
        with self._guarded("written", name):
            try:
                yield self._gallery(name, model)
            except GalleryBusy:
                raise RefusedRequest(503, f"Another process writes to the gallery {name}. Try again later.") from None
            except GalleryReplaced:
                message = f"The gallery {name} was replaced by another meanwhile. Look at it before you ask again."
                raise RefusedRequest(409, message) from None

    @contextmanager
    def _guarded(self, done: str, name: str = "") -> Iterator[None]:
        """Answer trouble with the files of galleries without naming them; other errors are the request's."""
        try:
            yield
        except RefusedRequest:
            raise
        except (MIVError, OSError) as error:
            if name:
                self._require(name)  # it may have been removed meanwhile, which is no damage
            cause = error if isinstance(error, OSError) else error.__cause__
            is_damage = bool(name) and f"{self.folder}{os.sep}" in str(error)
            if isinstance(cause, OSError) and not (is_damage and isinstance(cause, FileNotFoundError)):
                logger.error("The gallery %s could not be %s: %s", name, done, error)
                reason = cause.strerror or type(cause).__name__
                message = f"The gallery could not be {done} on the server: {reason}. Try again later."
                raise RefusedRequest(503, message) from error
            if not is_damage:
                raise
            # Only its type: its words may hold the name of a bag.
            logger.error("The gallery %s is damaged: %s", name, type(error.__cause__ or error).__name__)
            message = f"The gallery {name} is damaged. Restore it from a copy, or create it again."
            raise RefusedRequest(409, message) from error

    def _gallery(self, name: str, model: LoadedModel) -> Gallery:
        """An open gallery, kept by this process; it sees what others change."""
        if self._manifest(name).fingerprint != model.fingerprint:  # it was replaced by another just now
            raise RefusedRequest(409, self._other_verifier(name))
        key = (name, model.fingerprint)
        if key not in self._open:
            self._open[key] = Gallery(self.folder / name, model.verifier)
        return self._open[key]

    def _after_change(self, name: str, gallery: Gallery) -> int:
        """Free the space of removed bags when they are the larger part, or the disk is nearly full; return the bags."""
        manifest = self._manifest(name)
        is_much = len(manifest.removed) > max(manifest.live_bags, _FEW_REMOVED)
        if is_much or disk_usage(self.folder).free < manifest.bytes:
            self._compact(name, gallery)
        return manifest.live_bags

    def _compact(self, name: str, gallery: Gallery | None = None) -> None:
        try:
            if self._manifest(name).removed:
                (gallery or Gallery.open(self.folder / name)).compact()
        except MIVError as error:  # busy, damaged or gone: it keeps its size, and a later change compacts
            logger.warning("The gallery %s could not be compacted: %s", name, type(error).__name__)

    def _check_room(self, needed: int) -> None:
        """Refuse what does not fit, after clearing away removed bags; each worker can exceed the limit by one bag.

        A little of the disk stays free, so that bags can be removed.
        """
        if self._bytes() + needed <= self._most_bytes and self._fits_on_disk(needed):
            return
        for name in self.names():
            self._compact(name)
        total = self._bytes()
        if total + needed > self._most_bytes:
            message = f"The galleries have {total:,} bytes and need {needed:,} more. Expected at most"
            remedy = "Remove bags, or start the server with a larger --gallery-bytes."
            raise RefusedRequest(413, f"{message} {self._most_bytes:,}. {remedy}")
        if not self._fits_on_disk(needed):
            remedy = "Make room on the disk; removed bags free theirs when the others fit in what is free."
            raise RefusedRequest(503, f"The disk of the galleries is full. {remedy}")

    def _fits_on_disk(self, needed: int) -> bool:
        disk = disk_usage(self.folder)
        return needed + min(_RESERVE, disk.total // 20) <= disk.free

    def _bytes(self) -> int:
        return sum(bytes_below(self.folder / name) for name in self.names())

    def _manifest(self, name: str) -> GalleryManifest:
        self._require(name)
        return GalleryManifest.load(self.folder / name)

    def _require(self, name: str) -> None:
        if _GALLERY_NAME.fullmatch(name) and self._is_gallery(self.folder / name):
            return
        for key in list(self._open):  # a copy, because other threads open galleries meanwhile
            if key[0] == name:
                self._open.pop(key, None)  # its mapped files would keep their space on the disk
        raise RefusedRequest(404, f"There is no gallery {name[:80]!r}. GET /v1/galleries lists them.")

    def _is_gallery(self, path: Path) -> bool:
        """Whether a path is the folder of a gallery; a link could lead anywhere."""
        return bool(_GALLERY_NAME.fullmatch(path.name)) and not path.is_symlink() and (path / MANIFEST_NAME).is_file()

    def _other_verifier(self, name: str) -> str:
        remedy = f"Serve that model, or rebuild the gallery for MODEL: miv gallery create NEW MODEL --like {name}"
        return f"The model that made the gallery {name} is not served, and what it stores fits no other. {remedy}"


def bytes_below(folder: Path) -> int:
    """Size of all files in a folder; those that vanish meanwhile do not count."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.lstat().st_size if not path.is_dir() else 0
    return total
