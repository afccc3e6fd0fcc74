"""Atomic writes: to a temporary sibling first, then one rename."""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from miv.errors import MIVError
from miv.io.exchange import exchange
from miv.io.temporary_names import OLD, PART, name_beneath, new_file, new_folder, remove_tree, siblings, with_ending

_SHORT_WRITE = re.compile(r"\d+ requested and \d+ written")  # numpy's only message for a full disk


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty temporary folder to fill; if the block succeeds, it replaces ``folder``.

    If anything fails in the block (a full disk, Ctrl-C), the temporary folder is removed and the old
    ``folder`` stays unchanged. An older folder is exchanged for the new one in one step, then removed; the caller
    decides beforehand whether it may be replaced. If the system cannot exchange folders, the older one is moved aside
    first; after a kill between the two renames, ``bring_back`` returns it.
    """
    with said_plainly(folder):
        refuse_current_folder(folder)
        folder = _resolved(folder)  # a path through the folder itself breaks when it is moved
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = new_folder(folder)
        try:
            yield temporary
            flush_tree(temporary)
            _put_in_place(temporary, folder)
        except BaseException:
            remove_tree(temporary)
            raise


def bring_back(folder: Path) -> None:
    """Return an older folder that a killed process moved aside and did not replace; otherwise do nothing."""
    try:
        folder = _resolved(folder)
    except (OSError, ValueError):  # not a valid path
        return
    if os.path.lexists(folder):
        return
    for aside in siblings(folder, OLD):
        # Without the new folder, the replacement was complete, and someone removed the folder later.
        if with_ending(aside, PART).is_dir() and (aside / folder.name).is_dir():
            with suppress(OSError):  # another process brought it back, or the disk is read-only
                (aside / folder.name).rename(folder)
                aside.rmdir()
            return


def remove_unfinished(folder: Path) -> None:
    """Remove what a killed process left incomplete below a folder; no other process may be writing there.

    Only names that ``whole_folder``, ``whole_file`` and ``files_together`` make are removed.
    """
    for parent, folders, files in os.walk(folder):  # does not follow links
        for name in [name for name in folders if name_beneath(name, OLD)]:
            bring_back(Path(parent) / str(name_beneath(name, OLD)))
        for name in [name for name in folders if name_beneath(name, OLD) or name_beneath(name, PART)]:
            folders.remove(name)
            remove_tree(Path(parent) / name)
        for name in [name for name in files if name_beneath(name, PART)]:
            (Path(parent) / name).unlink(missing_ok=True)


@contextmanager
def whole_file(path: Path, *, make_folder: bool = True) -> Iterator[Path]:
    """Yield a temporary name to write to; if the block succeeds, the file replaces ``path``."""
    with said_plainly(path):
        path = _resolved(path)
        if make_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        temporary = new_file(path)
        try:
            yield temporary
            flush(temporary)
            temporary.replace(path)
            flush(path.parent)
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
            raise MIVError(
                f"{path} already exists. Choose another name, or use --overwrite (overwrite=True in Python)."
            )


def refuse_existing_in(folder: Path, names: Iterable[str], *, overwrite: bool) -> None:
    """Raise an error before the work if a folder for output is a file, or has one of these files already."""
    with said_plainly(folder):
        if folder.exists() and not folder.is_dir():
            raise MIVError(f"{folder} is a file. Expected a folder.")
    for name in names:
        refuse_existing(folder / name, overwrite=overwrite)


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
    elif exchange(new, folder):
        remove_tree(new)  # now the older one
    else:
        _rename_twice(new, folder)
    flush(folder.parent)


def _rename_twice(new: Path, folder: Path) -> None:
    aside = with_ending(new, OLD)
    aside.mkdir()
    older = aside / folder.name
    try:
        folder.rename(older)
        new.rename(folder)
    except BaseException:
        if older.exists() and not folder.exists():
            older.rename(folder)
        with suppress(OSError):  # it stays if it still holds the older folder
            aside.rmdir()
        raise
    remove_tree(aside)


def flush_tree(folder: Path) -> None:
    """Write everything in a folder to the disk."""
    for parent, _, names in os.walk(folder):
        for name in names:
            flush(Path(parent) / name)
        flush(Path(parent))


def flush(path: Path) -> None:
    """Write a file, or the names in a folder, to the disk."""
    if os.name == "nt":  # Windows cannot open folders, and files only for writing
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
