"""Writing whole or not at all: to a temporary sibling first, then one rename."""

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from miv.errors import MIVError

SAVING = ".saving-"  # how temporary folders within one that is written to begin
_SHORT_WRITE = re.compile(r"\d+ requested and \d+ written")  # all that numpy says of a full disk


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Give an empty temporary folder to fill; when the block ends well it takes the place of ``folder``.

    Whatever goes wrong in the block (a full disk, Ctrl-C), the temporary folder is removed and what was at
    ``folder`` stays as it was. An older folder is moved aside, and removed only when the new one is in place;
    whether it may be replaced is for the caller to decide beforehand.
    """
    with said_plainly(folder):
        refuse_current_folder(folder)
        folder = _resolved(folder)  # a path by way of the folder itself ends when that is moved aside
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".part", dir=folder.parent))
        try:
            make_ordinary(temporary)  # mkdtemp makes it private
            yield temporary
            _flush_tree(temporary)
            _put_in_place(temporary, folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def make_ordinary(path: Path) -> None:
    """Let others read what a library wrote for its owner only, as far as the user's own habit (umask) goes."""
    path.chmod((0o777 if path.is_dir() else 0o666) & ~_umask())


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a temporary name to write to; when the block ends well the file takes the place of ``path``."""
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
    """Refuse, before the work, to write where something lies already, unless it may be replaced."""
    with said_plainly(path):
        if path.is_dir():
            raise MIVError(f"{path} is a folder. Expected the name of a file to write.")
        if path.exists() and not overwrite:
            raise MIVError(f"{path} is there already. Choose another name, or replace it with --overwrite.")


def remove_unfinished(folder: Path) -> None:
    """Remove what a killed process had begun to write in a folder; nobody else may be writing there."""
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
    """Refuse to replace the folder that the program runs in, or one that holds it."""
    try:
        here = Path.cwd()
    except FileNotFoundError:  # it was removed meanwhile
        return
    if here.is_relative_to(_resolved(folder)):
        raise MIVError(
            f"{folder} is the current folder, or holds it, and a set takes the place of a whole folder. "
            "Give a new name, such as sets/digits, or go to another folder first."
        )


@contextmanager
def said_plainly(path: Path) -> Iterator[None]:
    """Turn what the disk says while ``path`` is written into one error for people."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno is None and _SHORT_WRITE.fullmatch(reason):
            reason = "the disk is full, or a quota is used up"
        raise MIVError(
            f"Could not write {path}: {reason}. What was there before is untouched; "
            "see that the disk has room and the folder may be written to, then try again."
        ) from error


def _resolved(path: Path) -> Path:
    return Path(os.path.realpath(path))  # Path.resolve meets a loop of links with a RuntimeError


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
    if os.name == "nt":  # a folder cannot be opened there, and a file only for writing
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    current = os.umask(0o022)  # there is no way to read it but to set it
    os.umask(current)
    return current
