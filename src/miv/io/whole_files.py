"""Atomic writes: to a temporary sibling first, then one rename."""

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from miv.errors import MIVError

SAVING = ".saving-"  # prefix of temporary folders
_SHORT_WRITE = re.compile(r"\d+ requested and \d+ written")  # numpy's only message for a full disk


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty temporary folder to fill; if the block succeeds, it replaces ``folder``.

    If anything fails in the block (a full disk, Ctrl-C), the temporary folder is removed and the old
    ``folder`` stays unchanged. An older folder is moved aside and removed only when the new one is in place;
    the caller decides beforehand whether it may be replaced.
    """
    with said_plainly(folder):
        refuse_current_folder(folder)
        folder = _resolved(folder)  # a path through the folder itself breaks when it is moved
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".part", dir=folder.parent))
        try:
            make_ordinary(temporary)  # mkdtemp creates it private
            yield temporary
            _flush_tree(temporary)
            _put_in_place(temporary, folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def make_ordinary(path: Path) -> None:
    """Make files that a library created as private readable by others, as far as the umask allows."""
    path.chmod((0o777 if path.is_dir() else 0o666) & ~_umask())


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary name to write to; if the block succeeds, the file replaces ``path``."""
    with said_plainly(path):
        path = _resolved(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            yield temporary
            _flush(temporary)
            temporary.replace(path)
            _flush(path.parent)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise


def refuse_existing(path: Path, *, overwrite: bool) -> None:
    """Raise an error before the work if the output exists and may not be overwritten."""
    with said_plainly(path):
        if path.is_dir():
            raise MIVError(f"{path} is a folder. Expected a file name.")
        if path.exists() and not overwrite:
            raise MIVError(f"{path} already exists. Choose another name, or use --overwrite.")


def remove_unfinished(folder: Path) -> None:
    """Remove partial files of a killed process from a folder; no other process may be writing there."""
    found = [path for pattern in (".*.part", ".*.old", f"{SAVING}*") for path in folder.rglob(pattern)]
    for path in found:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def refuse_current_folder(folder: Path) -> None:
    """Raise an error for the current folder or one that contains it."""
    try:
        here = Path.cwd()
    except FileNotFoundError:  # it was removed in the meantime
        return
    if here.is_relative_to(_resolved(folder)):
        raise MIVError(
            f"{folder} is the current folder or contains it, and saving a set replaces the whole folder. "
            "Choose a new name, such as sets/digits, or change to another folder first."
        )


@contextmanager
def said_plainly(path: Path) -> Iterator[None]:
    """Turn disk errors while writing ``path`` into one readable error."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno is None and _SHORT_WRITE.fullmatch(reason):
            reason = "the disk is full, or a quota is exceeded"
        raise MIVError(
            f"Could not write {path}: {reason}. Existing files are unchanged; "
            "check free disk space and write permission, then try again."
        ) from error


def _resolved(path: Path) -> Path:
    return Path(os.path.realpath(path))  # Path.resolve raises RuntimeError for a loop of links


def _put_in_place(new: Path, folder: Path) -> None:
    if not folder.exists():
        new.rename(folder)
    else:
        aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".old", dir=folder.parent))
        older = aside / folder.name
        try:
            folder.rename(older)
            new.rename(folder)
        except BaseException:
            if older.exists() and not folder.exists():
                older.rename(folder)
            raise
        finally:
            if folder.exists():
                shutil.rmtree(aside, ignore_errors=True)
    _flush(folder.parent)


def _flush_tree(folder: Path) -> None:
    for parent, _, names in os.walk(folder):
        for name in names:
            _flush(Path(parent) / name)
        _flush(Path(parent))


def _flush(path: Path) -> None:
    if os.name == "nt":  # Windows cannot open folders, and files only for writing
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    current = os.umask(0o022)  # the umask can only be read by setting it
    os.umask(current)
    return current
