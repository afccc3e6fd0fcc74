"""The cache of what can be recomputed, and downloads.

The cache holds features and sets built by a command. Nothing in it may stop a run: what is damaged is
discarded and made again, and a cache that cannot be written is left out. Both print a warning.
"""

import errno
import http.client
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from miv.errors import MissingLibrary, MIVError, warn
from miv.files.atomic import disk_reason, sha256_of, whole_file
from miv.runtime import Progress

_DAMAGE = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP}  # a file is missing, or is something else


def cache_folder() -> Path:
    """The folder in ``MIV_CACHE_DIR``, or ``miv`` in the user's cache."""
    named = os.environ.get("MIV_CACHE_DIR")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "miv"


def feature_folder(cache: Path | None = None) -> Path:
    """The features folder in a cache, by default ``cache_folder()``; `miv train` writes to it."""
    return (cache or cache_folder()) / "features"


@contextmanager
def ignoring_cache_errors(folder: Path) -> Iterator[None]:
    """Write to the cache in this block; if ``folder`` cannot be written, warn and go on."""
    try:
        yield
    except (MIVError, OSError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, OSError):  # not a problem of the disk
            raise
        warn(
            f"The cache {folder} cannot be written ({disk_reason(cause)}), so this run goes on without it. "
            "Check free disk space and permissions, or choose another folder with MIV_CACHE_DIR or --cache.",
            stacklevel=4,
        )


def discard(path: Path, error: Exception, what_now: str) -> None:
    """Remove a damaged file or folder of the cache, with a warning."""
    reason = str(error) or type(error).__name__
    if _is_passing(error):
        warn(f"{path} in the cache cannot be read ({reason}), so this run goes on without it.", stacklevel=4)
        return
    warn(f"{path} in the cache is damaged ({reason}). {what_now}", stacklevel=4)
    with ignoring_cache_errors(path.parent):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _is_passing(error: BaseException | None) -> bool:
    """Whether the system or a missing library is the cause, such as too many open files, and not the content."""
    while error is not None:
        if isinstance(error, ImportError | MissingLibrary):
            return True
        # pyarrow and zlib raise OSErrors without a number for damaged content.
        if isinstance(error, OSError) and error.errno is not None and error.errno not in _DAMAGE:
            return True
        error = error.__cause__ or error.__context__
    return False


@contextmanager
def cache_lock(path: Path, progress: Progress, what: str) -> Iterator[None]:
    """Hold a lock file of the cache in this block; a process that waits for ``what`` prints a message."""
    lock = FileLock(path)  # released when the process ends for any reason
    with ignoring_cache_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            with progress.step(f"Waiting for another process to finish {what} ({path})"):
                lock.acquire()
    try:
        yield
    finally:
        lock.release()


# Downloads, which must match a size and a hash.

_BLOCK = 1 << 16
_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class RemoteFile:
    """A file at a URL, with its expected size and hash."""

    url: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """File name to store it under."""
        return self.url.rsplit("/", 1)[-1]


def fetch(file: RemoteFile, folder: Path, progress: Progress) -> Path:
    """Download a file into ``folder``, unless it is there; anything but the expected content is an error."""
    target = folder / file.name
    if target.is_file() and sha256_of(target) == file.sha256:
        return target
    problem = ""
    with whole_file(target) as temporary, progress.step(f"Downloading {file.name} (bytes)", total=file.size) as advance:
        try:
            with urllib.request.urlopen(file.url, timeout=_TIMEOUT_S) as answer, temporary.open("wb") as out:  # noqa: S310
                # One byte more than expected detects a file that is too long without storing all of it.
                while (missing := file.size + 1 - out.tell()) and (block := answer.read(min(_BLOCK, missing))):
                    out.write(block)
                    advance(len(block))
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
            problem = f" ({error or type(error).__name__})"
        if problem or sha256_of(temporary) != file.sha256:
            raise MIVError(
                f"Could not download {file.url}{problem}: got {temporary.stat().st_size:,} bytes, expected "
                f"{file.size:,} with the sha256 {file.sha256}. Try again, or put the file in {folder} yourself."
            )
    return target


# Names of local folders or of models on the hub.


def is_path(name: str) -> bool:
    """Return whether a name can only be a folder: hub names are ``name`` or ``owner/name``."""
    path = Path(name)
    if name.startswith((".", "~", "/")) or "\\" in name or path.is_absolute() or len(path.parts) > 2:
        return True
    try:
        return len(path.parts) == 2 and Path(path.parts[0]).is_dir()  # models/nope next to models/resnet
    except OSError:  # too long for a file name
        return False


def folders_near(path: Path) -> str:
    """List the contents of the deepest existing folder of a path, for a message."""
    parent = next((folder for folder in path.parents if folder.is_dir()), Path())
    names = sorted(folder.name for folder in parent.iterdir() if folder.is_dir() and not folder.name.startswith("."))
    return f" {parent} holds: {', '.join(names[:10])}{', …' if len(names) > 10 else ''}." if names else ""


def hub_answers(name: str, options: dict[str, Any] | None = None) -> bool:
    """Query the hub for a model once; without a network, a download would try six times and print a line each time."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

    options = options or {}
    try:
        HfApi(options.get("endpoint"), options.get("token")).model_info(name, revision=options.get("revision"))
    except (HFValidationError, RepositoryNotFoundError, RevisionNotFoundError):
        raise
    except Exception:  # no network, or offline mode; the type depends on the HTTP library
        return False
    return True
