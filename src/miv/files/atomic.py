"""Atomic writes: to a temporary sibling first, then one rename."""

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from safetensors import SafetensorError

from miv.errors import MIVError

# Temporary siblings of files and folders, under random names that only this package makes.

PART, OLD, SAVED = "part", "old", "saved"
"""Endings: something incomplete, an older folder that was moved aside, and complete files that wait to be moved."""

_OURS = re.compile(r"\.(?P<name>.+)\.miv-[0-9a-f]{16}\.(?P<ending>part|old|saved)", re.DOTALL)


def new_file(path: Path) -> Path:
    """Create an empty sibling of ``path`` under a random name; an existing file or link is never used."""
    temporary = _random_sibling(path)
    # The system applies the umask; reading the umask would change it for a moment, also for other threads.
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    return temporary


def new_folder(path: Path) -> Path:
    """Create an empty folder beside ``path`` under a random name; an existing one is never used."""
    temporary = _random_sibling(path)
    temporary.mkdir()
    return temporary


def _random_sibling(path: Path) -> Path:
    return path.with_name(f".{path.name}.miv-{secrets.token_hex(8)}.{PART}")


def make_ordinary(path: Path) -> None:
    """Make a file that a library created as private readable by others, as far as the umask allows."""
    example = new_file(path)
    try:
        path.chmod(example.stat().st_mode & 0o777)
    finally:
        example.unlink()


def original_name(temporary: str, ending: str) -> str | None:
    """The name whose temporary sibling this is; ``None`` if this package did not make it."""
    match = _OURS.fullmatch(temporary)
    return match["name"] if match and match["ending"] == ending else None


def siblings(path: Path, ending: str) -> list[Path]:
    """The temporary siblings of a path, whether it exists or not."""
    try:
        return sorted(entry for entry in path.parent.iterdir() if original_name(entry.name, ending) == path.name)
    except OSError:  # the parent is missing or not readable
        return []


def remove_tree(path: Path) -> None:
    """Remove a temporary folder as far as possible; a link is not followed."""
    if not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)


def with_ending(temporary: Path, ending: str) -> Path:
    """The same temporary name with another ending."""
    return temporary.with_name(f"{temporary.name.rpartition('.')[0]}.{ending}")


_SHORT_WRITE = re.compile(r"\d+ requested and \d+ written")  # numpy's only message for a full disk


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty temporary folder to fill; if the block succeeds, it replaces ``folder``.

    If anything fails in the block (a full disk, Ctrl-C), the temporary folder is removed and the old
    ``folder`` stays unchanged. An older folder is moved aside first, and removed at the end; the caller decides
    beforehand whether it may be replaced. After a kill between the two renames, ``bring_back`` returns it.
    """
    with readable_disk_errors(folder):
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
    for aside in [] if os.path.lexists(folder) else siblings(folder, OLD):
        # Without the new folder, the replacement was complete, and someone removed the folder later.
        if with_ending(aside, PART).is_dir() and (aside / folder.name).is_dir():
            with suppress(OSError):  # another process brought it back, or the disk is read-only
                (aside / folder.name).rename(folder)
                aside.rmdir()
            return


def remove_unfinished(folder: Path) -> None:
    """Remove what a killed process left incomplete below a folder; no other process may be writing there."""
    for parent, folders, files in os.walk(folder):  # does not follow links
        for name in [name for name in folders if original_name(name, OLD)]:
            bring_back(Path(parent) / str(original_name(name, OLD)))
        for name in [name for name in folders if original_name(name, OLD) or original_name(name, PART)]:
            folders.remove(name)
            remove_tree(Path(parent) / name)
        for name in [name for name in files if original_name(name, PART)]:
            (Path(parent) / name).unlink(missing_ok=True)


@contextmanager
def whole_file(path: Path, *, make_folder: bool = True) -> Iterator[Path]:
    """Yield a temporary name to write to; if the block succeeds, the file replaces ``path``."""
    with readable_disk_errors(path):
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
    with readable_disk_errors(path):
        if path.is_dir():
            raise MIVError(f"{path} is a folder. Expected a file name.")
        if path.exists() and not overwrite:
            raise MIVError(f"{path} already exists. Choose another name, or use --overwrite (overwrite=True).")


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
        raise MIVError(f"{folder} is the current folder or contains it, and would be replaced. Choose a new name.")


@contextmanager
def readable_disk_errors(path: Path) -> Iterator[None]:
    """Turn disk errors while writing ``path`` into one readable error."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = disk_reason(error)
        raise MIVError(f"Could not write {path}: {reason}. Nothing is changed; check free disk space.") from error


def disk_reason(error: Exception) -> str:
    """Why reading or writing failed, in words."""
    reason: str = getattr(error, "strerror", None) or str(error)
    return "the disk is full, or a quota is exceeded" if _SHORT_WRITE.fullmatch(reason) else reason


def _resolved(path: Path) -> Path:
    return Path(os.path.realpath(path))  # Path.resolve raises RuntimeError for a loop of links


def _put_in_place(new: Path, folder: Path) -> None:
    if not folder.exists():
        new.rename(folder)
    else:
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
    flush(folder.parent)


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


# Replace several files of a folder together, so that a kill at any moment leaves either all old or all new files.

_NAME = "files"
_REMOVED = ".removed."  # prefix of an empty file that stands for one to remove


@contextmanager
def files_together(folder: Path, keep: Iterable[str] = (), remove: Iterable[str] = ()) -> Iterator[Path]:
    """Yield an empty temporary folder; if the block succeeds, its files replace those of the same name in ``folder``.

    Args:
        folder: where the files go; created if missing. Other files in it stay.
        keep: names that are not replaced if they exist.
        remove: names that are removed if the block wrote no file of that name.
    """
    with readable_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        finish_replacing(folder)
        temporary = new_folder(folder / _NAME)
        try:
            yield temporary
            for name in keep:
                if (folder / name).exists():
                    (temporary / name).unlink(missing_ok=True)
            for name in remove:
                if not (temporary / name).exists():
                    (temporary / f"{_REMOVED}{name}").touch()
            flush_tree(temporary)
            temporary.rename(with_ending(temporary, SAVED))
        except BaseException:
            remove_tree(temporary)
            raise
        finish_replacing(folder)


def finish_replacing(folder: Path) -> None:
    """Move files into place that a killed process had completely saved; otherwise do nothing."""
    try:
        complete = [path for path in folder.iterdir() if original_name(path.name, SAVED) == _NAME and path.is_dir()]
    except OSError:  # whoever reads the folder next says what is wrong with it
        return
    for saved in complete:
        try:
            _move_into(saved, folder)
        except OSError as error:
            raise MIVError(
                f"Saving in {folder} was interrupted, and finishing it failed: {error.strerror or error}. Make the "
                f"folder writable and try again, or move the files in {saved.name} into it."
            ) from error


def _move_into(saved: Path, folder: Path) -> None:
    for path in [path for path in saved.rglob("*") if not path.is_dir()]:
        with suppress(FileNotFoundError):
            if path.name.startswith(_REMOVED):
                (folder / path.name.removeprefix(_REMOVED)).unlink(missing_ok=True)
                path.unlink()
            else:
                target = folder / path.relative_to(saved)
                target.parent.mkdir(parents=True, exist_ok=True)
                path.replace(target)
    flush(folder)
    remove_tree(saved)
