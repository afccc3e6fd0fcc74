"""The galleries of one folder, for requests: names that are never paths, a size limit, and models that fit."""

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from miv.errors import MIVError
from miv.files.atomic import readable_disk_errors
from miv.gallery import (
    MANIFEST_NAME,
    Gallery,
    GalleryBusy,
    GalleryManifest,
    GalleryReplaced,
    Snapshot,
    require_arrow,
    used_instances,
)
from miv.service.errors import RefusedRequest, storage_errors
from miv.service.models import LoadedModel

logger = logging.getLogger(__name__)


_PER_INSTANCE = 64  # bytes beside its features and its name: a digest and its place


class GalleryQuota:
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


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LOCK_NAME = ".miv-galleries.lock"
_WAIT = 10.0  # seconds for the lock; creating a gallery copies a verifier
_MOST_GALLERIES = 1_000
_NAMES_SHOWN = 1_000
_FEW_REMOVED = 64  # removed bags that are not worth a compaction


class _NoGallery(RefusedRequest):
    """The gallery that a request names is not there."""


class GalleryRegistry:
    """Galleries made by ``miv gallery`` or over the network, all directly inside one folder.

    Every request looks at the files, so what other processes add or remove is seen at once. The methods that take a
    model must run in the thread of that model.

    Args:
        folder: of the galleries; created if it is missing.
        most_bytes: maximum size of all galleries together.
    """

    def __init__(self, folder: Path, most_bytes: int) -> None:
        require_arrow()
        self.folder = folder.resolve()  # errors that hold this path are about its files
        with readable_disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        self._room = GalleryQuota(lambda: [self.folder / name for name in self.names()], most_bytes)
        self._open: dict[tuple[str, str], Gallery] = {}  # by name and fingerprint

    def names(self) -> list[str]:
        """Names of all galleries."""
        with storage_errors("The galleries", "read"):
            return sorted(path.name for path in self.folder.iterdir() if self._is_gallery(path))

    def all_listed(self, models: Mapping[str, LoadedModel]) -> list[dict[str, Any]]:
        """Describe all galleries, without those that are removed meanwhile."""
        found = []
        for name in self.names():
            with suppress(_NoGallery):
                found.append(self.listed(name, models))
        return found

    def listed(self, name: str, models: Mapping[str, LoadedModel]) -> dict[str, Any]:
        """Describe a gallery by its manifest; ``models`` by fingerprint."""
        try:
            with self._guarded(name, "read"):
                manifest = self._manifest(name)
                instances = manifest.instances
                if manifest.removed is not None:  # instances of removed bags are stored until they are compacted
                    instances = used_instances(Snapshot.open(self.folder / name, None))
        except _NoGallery:
            raise
        except RefusedRequest as error:
            return {"name": name, "model": None, "bags": 0, "instances": 0, "bytes": 0, "problem": str(error)}
        model = models.get(manifest.fingerprint)
        return {
            "name": name,
            "model": None if model is None else model.name,
            "bags": _live(manifest),
            "instances": instances,
            "bytes": _bytes(manifest),
            "problem": None if model is not None else self._other_verifier(name),
        }

    def model_of(self, name: str, models: Mapping[str, LoadedModel]) -> LoadedModel:
        """The served model that made a gallery; any other would misread what it stores."""
        with self._guarded(name, "read"):
            found = models.get(self._manifest(name).fingerprint)
        if found is None:
            raise RefusedRequest(409, self._other_verifier(name))
        return found

    def create(self, name: str, model: LoadedModel) -> None:
        """Create an empty gallery with a copy of the model's verifier."""
        if not _NAME.fullmatch(name):
            raise RefusedRequest(
                422,
                f"The name of a gallery is {name[:80]!r}. Expected 1 to 100 letters from a to z, digits, -, _ or ., "
                "with a letter or digit first.",
            )
        with storage_errors("The gallery", "created"), self._locked():
            # Gallery.create replaces an empty folder; under the lock, nobody else makes one of this name.
            if (self.folder / name).exists():
                raise RefusedRequest(409, f"There is a gallery or file {name} already. Choose another name.")
            if len(self.names()) >= _MOST_GALLERIES:
                raise RefusedRequest(413, f"There are {_MOST_GALLERIES:,} galleries, and no more are allowed.")
            self._room.check(4 * sum(weights.numel() for weights in model.verifier.parameters()))
            Gallery.create(self.folder / name, model.verifier)

    def put(self, name: str, bag: str, instances: Sequence[Any], names: Sequence[str], model: LoadedModel) -> int:
        """Add or replace a bag; return the number of bags."""
        with self._writing(name, model) as gallery:
            self._room.check(bytes_of_bag(instances, names, model.verifier.backbone.channels))
            gallery.put(bag, instances, instance_names=names)
            return self._after_change(name, gallery)

    def remove(self, name: str, bag: str, model: LoadedModel) -> None:
        """Remove a bag."""
        with self._writing(name, model) as gallery:
            if bag not in gallery:
                raise RefusedRequest(404, f"There is no bag {bag[:80]!r} in the gallery {name}.")
            gallery.remove(bag)
            self._after_change(name, gallery)

    def search(self, name: str, query: Any, model: LoadedModel, **options: Any) -> dict[str, Any]:
        """The document of a search."""
        with self._guarded(name, "read"):
            return {"model": model.name, **self._gallery(name, model).search(query, **options).document()}

    def described(self, name: str, model: LoadedModel) -> dict[str, Any]:
        """Counts and sizes, and the names of the first bags."""
        with self._guarded(name, "read"):
            gallery = self._gallery(name, model)
            counts = {key: value for key, value in gallery.info().items() if key != "folder"}
            of_all = {"name": name, "model": model.name, "problem": None}
            return {**counts, **of_all, "names": gallery.names[:_NAMES_SHOWN]}

    @contextmanager
    def _writing(self, name: str, model: LoadedModel) -> Iterator[Gallery]:
        with self._guarded(name, "written"):
            try:
                yield self._gallery(name, model)
            except GalleryBusy:
                message = f"Another process is writing to the gallery {name}. Try again in a second."
                raise RefusedRequest(503, message) from None
            except GalleryReplaced:
                message = f"The gallery {name} was replaced by another meanwhile. Look at it before you ask again."
                raise RefusedRequest(409, message) from None

    @contextmanager
    def _guarded(self, name: str, done: str) -> Iterator[None]:
        """Answer trouble with the files of a gallery without naming them; other errors are the request's."""
        with storage_errors("The gallery", done):
            try:
                yield
            except RefusedRequest:
                raise
            except (MIVError, OSError) as error:
                self._require(name)  # it may have been removed meanwhile, which is no damage
                cause = error if isinstance(error, OSError) else error.__cause__
                is_trouble = isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError)
                if is_trouble or f"{self.folder}{os.sep}" not in str(error):
                    raise
                raise self._damaged(name, error) from error

    def _gallery(self, name: str, model: LoadedModel) -> Gallery:
        """An open gallery, kept by this process; it sees what others change."""
        if self._manifest(name).fingerprint != model.fingerprint:  # it was replaced by another just now
            raise RefusedRequest(409, self._other_verifier(name))
        key = (name, model.fingerprint)
        if key not in self._open:
            self._open[key] = Gallery(self.folder / name, model.verifier)
        return self._open[key]

    def _after_change(self, name: str, gallery: Gallery) -> int:
        """Free the space of removed bags when they are the larger part; return the number of bags."""
        manifest = self._manifest(name)
        live = _live(manifest)
        if manifest.removed is not None and manifest.removed.bags > max(live, _FEW_REMOVED):
            with suppress(GalleryBusy):  # the change is made; a later one compacts
                gallery.compact()
        return live

    def _manifest(self, name: str) -> GalleryManifest:
        self._require(name)
        return GalleryManifest.load(self.folder / name)

    def _require(self, name: str) -> None:
        if _NAME.fullmatch(name) and self._is_gallery(self.folder / name):
            return
        for key in list(self._open):  # a copy, because other threads open galleries meanwhile
            if key[0] == name:
                self._open.pop(key, None)  # its mapped files would keep their space on the disk
        raise _NoGallery(404, f"There is no gallery {name[:80]!r}. GET /v1/galleries lists them.")

    def _is_gallery(self, path: Path) -> bool:
        """Whether a path is the folder of a gallery; a link could lead anywhere."""
        return bool(_NAME.fullmatch(path.name)) and not path.is_symlink() and (path / MANIFEST_NAME).is_file()

    def _damaged(self, name: str, error: Exception) -> RefusedRequest:
        # Only its type: its words may hold the name of a bag.
        logger.error("The gallery %s is damaged: %s", name, type(error.__cause__ or error).__name__)
        return RefusedRequest(409, f"The gallery {name} is damaged. Restore it from a copy, or create it again.")

    def _other_verifier(self, name: str) -> str:
        return (
            f"No model of this server made the gallery {name}, and what it stores fits no other. Serve the model that "
            f"made it, or rebuild it for MODEL on the server: miv gallery create NEW MODEL --like {name}"
        )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = FileLock(self.folder / _LOCK_NAME)  # released when the process ends for any reason
        try:
            lock.acquire(timeout=_WAIT)
        except Timeout:
            raise RefusedRequest(503, "Another process is creating a gallery. Try again in a second.") from None
        try:
            yield
        finally:
            lock.release()


def _live(manifest: GalleryManifest) -> int:
    removed = 0 if manifest.removed is None else manifest.removed.bags
    return sum(segment.bags for segment in manifest.segments) - removed


def _bytes(manifest: GalleryManifest) -> int:
    return sum(sum(segment.bytes.values()) for segment in manifest.segments)
