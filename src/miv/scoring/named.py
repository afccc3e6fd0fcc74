"""Instances by their names on the command line: files, folders, tables, texts, vectors."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from miv.errors import MivError
from miv.exemplars import Kind
from miv.images import IMAGE_SUFFIXES
from miv.tasks.own.instances import check_text, check_vector, read_text_file, read_vectors_file, short
from miv.tasks.own.records import TABLE_SUFFIXES, read_records
from miv.tasks.own.sources import is_blank

_SUFFIXES: dict[Kind, frozenset[str]] = {
    "image": IMAGE_SUFFIXES,
    "text": frozenset({".txt"}),
    "features": frozenset({".npy"}),
}
_COLUMNS: dict[Kind, tuple[str, ...]] = {"image": ("path",), "text": ("text", "path"), "features": ("vector", "path")}


class Named(NamedTuple):
    """An instance as ``Verifier.verify`` takes it, and what to call it."""

    name: str
    instance: Any


def named_query(name: str, kind: Kind) -> Any:
    """Return the one instance of a name: an image file, a text or .txt file, a JSON list or .npy file of numbers."""
    found = list(_instances(name, Path(), kind, "--query"))
    if len(found) != 1:
        raise MivError(f"--query {name} holds {len(found)} instances. Expected one.")
    return found[0].instance


def named_bag(names: list[str], kind: Kind) -> list[Named]:
    """Return the instances of a bag; a name may also be that of a folder, or of a table with an instance a row."""
    found: list[Named] = []
    for name in names:
        path = Path(name)
        if _is_folder(path):
            files = _files(path, kind)
            found += [one for file in files for one in _instances(str(file), Path(), kind, "--bag")]
        elif path.suffix.lower() in TABLE_SUFFIXES and (kind != "text" or _is_file(path)):
            for place, record in read_records(path, required=[]):
                found += instances_of(record, path.parent, kind, place)
        else:
            found += _instances(name, Path(), kind, "--bag")
    if not found:
        raise MivError("The bag is empty. Expected at least one instance.")
    return found


def instances_of(record: dict[str, Any], folder: Path, kind: Kind, place: str) -> list[Named]:
    """Return what a row of a table of instances holds: in its column ``path``, ``text`` or ``vector``."""
    columns = [column for column in _COLUMNS[kind] if not is_blank(record.get(column))]
    if len(columns) != 1:
        wanted = " or ".join(map(repr, _COLUMNS[kind]))
        raise MivError(f"{place}: expected one column {wanted} with an instance; found {short(', '.join(record))}.")
    return list(_instances(record[columns[0]], folder, kind, place, is_path=columns[0] == "path"))


def cell_instance(cell: Any, folder: Path, kind: Kind, place: str) -> Named:
    """Return the one instance in a cell of a table of exemplars; paths are relative to ``folder``."""
    found = list(_instances(cell, folder, kind, place))
    if len(found) != 1:
        raise MivError(f"{place}: {short(cell)} holds {len(found)} vectors; a cell is one instance.")
    return found[0]


def _instances(given: Any, folder: Path, kind: Kind, place: str, is_path: bool = False) -> Iterator[Named]:
    if not isinstance(given, str):
        if kind != "features":
            raise MivError(f"{place}: expected {'a path' if kind == 'image' else 'a text'}, found {short(given)}.")
        yield Named("", check_vector(given, place))
        return
    path = folder / given.strip()
    is_file = is_path or path.suffix.lower() in _SUFFIXES[kind]
    if kind == "image":
        if not given.strip():
            raise MivError(f"{place}: an empty cell; expected the path of an image.")
        yield Named(given, path)
    elif kind == "text":
        # A text may well end in ".txt"; only where there is such a file is it meant.
        as_file = is_path or (is_file and _is_file(path))
        yield Named(given, read_text_file(path)) if as_file else Named("", check_text(given, place))
    elif is_file:
        vectors = read_vectors_file(path)
        for number, vector in enumerate(vectors):
            yield Named(given if len(vectors) == 1 else f"{given}[{number}]", vector)
    else:
        try:
            numbers = json.loads(given)
        except (ValueError, RecursionError) as error:
            raise MivError(
                f"{place}: expected a .npy file or a JSON list of numbers, found {short(given)} ({error})."
            ) from error
        yield Named("", check_vector(numbers, place))


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a text that is too long for a name
        return False


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _files(folder: Path, kind: Kind) -> list[Path]:
    """The instances in a folder, by name; what is hidden or of another kind is not looked at."""
    suffixes = _SUFFIXES[kind]
    files = [
        entry
        for entry in sorted(folder.iterdir())
        if entry.suffix.lower() in suffixes and not entry.name.startswith(".") and entry.is_file()
    ]
    if not files:
        hint = " If these words are meant themselves, put them in a table with the column text." * (kind == "text")
        raise MivError(
            f"The folder {folder} holds no instance for this verifier ({', '.join(sorted(suffixes))}).{hint}"
        )
    return files
