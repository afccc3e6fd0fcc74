"""The cache: features, sets built by a command and shared stages, all of which can be recomputed.

So nothing in it may stop a run: what is damaged is discarded and made again, and a cache that cannot be written is
left out. Both print a warning.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from miv.errors import MissingLibrary, MIVError, warn
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
            f"The cache {folder} cannot be written ({cause.strerror or cause}), so this run goes on without it. "
            "Check free disk space and permissions, or choose another folder with MIV_CACHE_DIR or --cache.",
            stacklevel=4,
        )


def discard(path: Path, error: Exception, what_now: str) -> None:
    """Remove a damaged file or folder of the cache, with a warning.

    If ``error`` says that it cannot be read now, it may be whole: it is kept, with another warning.
    """
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
    """Hold a lock file of the cache in this block; a process that waits for ``what`` prints a message.

    If the cache cannot be written there is no lock, and nothing that it would guard.
    """
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
