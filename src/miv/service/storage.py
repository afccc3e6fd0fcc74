"""Stored bags: a folder of features that several processes share, limited by age, bytes and count.

The folder is the only truth: no process remembers what is in it. One file per bag, written whole under a random name.
Files are written and removed for room under one lock, so the limits hold however many processes write; reading needs
no lock.
"""

import hashlib
import json
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from miv.errors import MIVError
from miv.files.atomic import PART, original_name, readable_disk_errors, whole_file
from miv.files.cache import cache_folder
from miv.service.errors import RefusedRequest, storage_errors

Rows = NDArray[np.float32]
_FORMAT = "miv-kept-bag-1"
_NAME = "features"


class DamagedBag(MIVError):  # noqa: N818 - named after what is wrong
    """The file does not hold what was written."""


@dataclass(frozen=True, eq=False)
class BagContent:
    """What a file holds.

    Args:
        features: ``(N, C)``, one row per instance.
        fingerprint: of the backbone that computed them.
        model: the name of the verifier that they were kept for.
    """

    features: Rows
    fingerprint: str
    model: str


def packed(content: BagContent) -> bytes:
    """The bytes of a file."""
    features = np.ascontiguousarray(content.features, np.float32)
    about = {"format": _FORMAT, "fingerprint": content.fingerprint, "model": content.model}
    return save({_NAME: features}, {**about, "sha256": _digest(features, about)})


def read_bag_file(path: Path) -> BagContent:
    """Read and check a file; a missing one raises ``FileNotFoundError``."""
    given = path.read_bytes()
    try:
        features, about = load(given)[_NAME], _metadata(given)
        digest = about.pop("sha256")
        if about["format"] != _FORMAT or features.ndim != 2 or features.dtype != np.float32:
            raise ValueError(about["format"])
        if digest != _digest(features, about):
            raise ValueError("other digest")
        return BagContent(features, about["fingerprint"], about["model"])
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise DamagedBag(f"{path} is damaged. Keep the bag again.") from error


def _metadata(given: bytes) -> dict[str, str]:
    """The texts in the header, which ``load`` drops."""
    length = int.from_bytes(given[:8], "little")
    return dict(json.loads(given[8 : 8 + length])["__metadata__"])


def _digest(features: Rows, about: dict[str, str]) -> str:
    digest = hashlib.sha256(repr((features.shape, sorted(about.items()))).encode())
    digest.update(features.data)
    return digest.hexdigest()


_MOST_DAYS = 36_500  # later dates cannot be written
_DAY = 86_400
_MOST_BAGS = 10_000  # every new bag looks at all files: some hundredths of a second for this many
_WAIT = 10.0  # seconds for the lock; a holder needs milliseconds
_IDENTIFIER = re.compile(r"[0-9a-f]{32}")
_ENDING = ".safetensors"
_LOCK_NAME = "kept.lock"


@dataclass(frozen=True)
class StoredBag:
    """A bag in the folder.

    Args:
        id: its random name.
        model: the verifier that it was kept for.
        size: number of instances.
        created: seconds since 1970.
        expires: seconds since 1970.
    """

    id: str
    model: str
    size: int
    created: float
    expires: float

    def document(self) -> dict[str, Any]:
        """Return plain values, for JSON; times are in UTC."""
        created, expires = (
            datetime.fromtimestamp(one, UTC).isoformat(timespec="seconds") for one in (self.created, self.expires)
        )
        return {"id": self.id, "model": self.model, "size": self.size, "created": created, "expires": expires}


class BagStore:
    """The kept bags of a folder.

    Args:
        folder: created if it is missing, readable only by its user; ``None`` is ``kept-bags`` in the user's cache.
        days: a bag is removed when it is older.
        most_bytes: when all files together have more, the oldest are removed.
        most_bags: as ``most_bytes``, for the number of files.

    >>> import tempfile, numpy as np
    >>> bags = BagStore(tempfile.mkdtemp(), days=1)
    >>> kept = bags.keep(np.eye(3), "fingerprint", "miv/digits")
    >>> kept.size, bags.features(kept.id, "fingerprint").shape
    (3, (3, 3))
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        days: float = 7.0,
        most_bytes: int = 1_000_000_000,
        most_bags: int = _MOST_BAGS,
    ) -> None:
        if not 0 < days <= _MOST_DAYS or most_bytes < 1 or most_bags < 1:
            raise MIVError(
                f"Got {days} days, {most_bytes} bytes and {most_bags} bags. Expected numbers above 0, and at most "
                f"{_MOST_DAYS:,} days."
            )
        self.folder = cache_folder() / "kept-bags" if folder is None else Path(folder)
        self.days, self.most_bytes, self.most_bags = days, most_bytes, most_bags
        if folder is not None:  # so that a wrong one is an error at the start
            self._create_folder()

    def keep(self, features: Rows, fingerprint: str, model: str) -> StoredBag:
        """Keep the features ``(N, C)`` of a bag; the oldest bags make room for it."""
        content = packed(BagContent(features, fingerprint, model))
        if len(content) > self.most_bytes:
            raise RefusedRequest(
                413,
                f"The bag has {len(content):,} bytes as features. Expected at most {self.most_bytes:,}: start the "
                "server with a larger --keep-bytes, or keep a smaller bag.",
            )
        name = secrets.token_hex(16)
        path = self._path(name)
        with self._locked():
            self._make_room(len(content), 1)
            with whole_file(path) as temporary:
                temporary.write_bytes(content)
            created = path.stat().st_mtime
        return self._described(name, len(features), model, created)

    def find(self, name: str) -> StoredBag:
        """Describe a bag."""
        content, created = self._read(name)
        return self._described(name, len(content.features), content.model, created)

    def features(self, name: str, fingerprint: str) -> Rows:
        """The features ``(N, C)`` of a bag, for the backbone that computed them."""
        content, _ = self._read(name)
        if content.fingerprint != fingerprint:
            raise MIVError(
                f"The bag {name} was kept for {content.model}, whose features do not fit this verifier. Ask "
                f"{content.model}, or keep the bag again for this verifier."
            )
        return content.features

    def remove(self, name: str) -> None:
        """Remove a bag."""
        path = self._path(name)
        with storage_errors("The kept bag", "removed"):
            try:
                path.unlink()
            except FileNotFoundError:
                raise self._missing(name) from None

    def tidy(self) -> None:
        """Remove what is too old or too much, and what killed processes left."""
        if self.folder.is_dir():
            with self._locked():
                self._make_room(0, 0)

    def _read(self, name: str) -> tuple[BagContent, float]:
        path = self._path(name)
        with storage_errors("The kept bag", "read"):
            try:
                created = path.stat().st_mtime
                if created + self.days * _DAY < time.time():
                    raise self._missing(name)
                return read_bag_file(path), created
            except FileNotFoundError:
                raise self._missing(name) from None
            except DamagedBag as error:
                path.unlink(missing_ok=True)
                raise self._missing(name) from error

    def _path(self, name: str) -> Path:
        """The file of a bag; a name that this class did not make never becomes part of a path."""
        if not _IDENTIFIER.fullmatch(name):
            raise self._missing(name)
        return self.folder / f"{name}{_ENDING}"

    def _create_folder(self) -> None:
        with readable_disk_errors(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _described(self, name: str, size: int, model: str, created: float) -> StoredBag:
        return StoredBag(name, model, size, created, created + self.days * _DAY)

    def _missing(self, name: str) -> RefusedRequest:
        return RefusedRequest(
            404,
            f"There is no kept bag {name[:80]!r}. Bags are kept for {self.days:g} days at most, and the oldest make "
            "room for new ones. Keep it again.",
        )

    def _make_room(self, size: int, count: int) -> None:
        """Remove old bags until ``count`` more files of ``size`` bytes in total fit; the caller has the lock."""
        found = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if original_name(entry.name, PART):  # under the lock, nobody is writing it any more
                    Path(entry.path).unlink(missing_ok=True)
                elif entry.name.endswith(_ENDING) and _IDENTIFIER.fullmatch(entry.name.removesuffix(_ENDING)):
                    with suppress(FileNotFoundError):  # removed by its user just now
                        status = entry.stat(follow_symlinks=False)
                        found.append((status.st_mtime_ns, status.st_size, entry.path))
        oldest = (time.time() - self.days * _DAY) * 1e9
        total, left = size + sum(one for _, one, _ in found), count + len(found)
        for changed, freed, path in sorted(found):
            if changed >= oldest and total <= self.most_bytes and left <= self.most_bags:
                break
            Path(path).unlink(missing_ok=True)
            total, left = total - freed, left - 1

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Be the only process that writes; the system releases the lock when a process ends for any reason."""
        with storage_errors("Kept bags", "written"):
            self._create_folder()  # someone may have cleared the cache
            lock = FileLock(self.folder / _LOCK_NAME)
            try:
                lock.acquire(timeout=_WAIT)
            except Timeout:
                raise RefusedRequest(503, "Other processes are keeping bags. Try again in a few seconds.") from None
            try:
                yield
            finally:
                lock.release()
