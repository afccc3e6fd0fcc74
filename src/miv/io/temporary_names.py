"""Temporary siblings of files and folders, under random names that only this package makes."""

import os
import re
import secrets
import shutil
from pathlib import Path

PART, OLD, SAVED = "part", "old", "saved"
"""Endings: something incomplete, an older folder that was moved aside, and complete files that wait to be moved."""

_OURS = re.compile(r"\.(?P<name>.+)\.miv-[0-9a-f]{16}\.(?P<ending>part|old|saved)", re.DOTALL)
_MOST_NAMES = 100  # a random name of 64 bits is never taken twice by chance


def new_file(path: Path) -> Path:
    """Create an empty sibling of ``path`` under a random name; an existing file or link is never used."""
    for _ in range(_MOST_NAMES):
        temporary = _random_sibling(path)
        try:
            # The system applies the umask; reading the umask would change it for a moment, also for other threads.
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        except FileExistsError:
            continue
        return temporary
    raise FileExistsError(f"no free temporary name beside {path}")


def new_folder(path: Path) -> Path:
    """Create an empty folder beside ``path`` under a random name; an existing one is never used."""
    for _ in range(_MOST_NAMES):
        temporary = _random_sibling(path)
        try:
            temporary.mkdir()
        except FileExistsError:
            continue
        return temporary
    raise FileExistsError(f"no free temporary name beside {path}")


def make_ordinary(path: Path) -> None:
    """Make a file that a library created as private readable by others, as far as the umask allows."""
    example = new_file(path)
    try:
        path.chmod(example.stat().st_mode & 0o777)
    finally:
        example.unlink()


def name_beneath(temporary: str, ending: str) -> str | None:
    """The name whose temporary sibling this is; ``None`` if this package did not make it.

    >>> name_beneath(".set.miv-0123456789abcdef.part", "part"), name_beneath(".notes.part", "part")
    ('set', None)
    """
    found = _OURS.fullmatch(temporary)
    return found["name"] if found and found["ending"] == ending else None


def siblings(path: Path, ending: str) -> list[Path]:
    """The temporary siblings of a path, whether it exists or not."""
    try:
        return sorted(entry for entry in path.parent.iterdir() if name_beneath(entry.name, ending) == path.name)
    except OSError:  # the parent is missing or not readable
        return []


def remove_tree(path: Path) -> None:
    """Remove a temporary folder as far as possible; a link is not followed."""
    if not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)


def with_ending(temporary: Path, ending: str) -> Path:
    """The same temporary name with another ending."""
    return temporary.with_name(f"{temporary.name.rpartition('.')[0]}.{ending}")


def _random_sibling(path: Path) -> Path:
    return path.with_name(f".{path.name}.miv-{secrets.token_hex(8)}.{PART}")
