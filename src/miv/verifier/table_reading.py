"""Instances named by files, folders, tables, texts or vectors."""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from miv.data import InstanceKind
from miv.data.kinds import KINDS
from miv.errors import MIVError
from miv.files.instances import (
    check_text,
    check_vector,
    is_file,
    is_folder,
    is_text_file,
    read_text_file,
    read_text_lines,
    read_vectors_file,
    short,
)
from miv.files.tables import (
    TABLE_SUFFIXES,
    Record,
    is_blank,
    is_label,
    parse_id,
    parse_list,
    read_records,
    reference_cells,
    separator_hint,
)

# A word that means a file, existing or not: it has a known suffix, or folders and something like a suffix.
_SUFFIX = "|".join(
    suffix[1:] for suffix in sorted({*frozenset().union(*(kind.suffixes for kind in KINDS.values())), *TABLE_SUFFIXES})
)
_LIKE_A_PATH = re.compile(rf"\S+\.({_SUFFIX}|md|json|html?|pdf|docx?)|\S*[/\\]\S*\.\w{{1,5}}|\S+[/\\]", re.IGNORECASE)
_LONGEST_PATH = 255
_IN_A_TABLE = "To use these words as a text, put them in a table of instances with a column text."


class Named(NamedTuple):
    """An instance as ``Verifier.verify`` takes it, and its name: its file, or its words or numbers."""

    name: str
    instance: Any
    in_place: bool = False


def named_query(name: str, kind: InstanceKind) -> Any:
    """Return the instance for a name: an image file, a text or .txt file, a JSON list or .npy file of numbers."""
    _refuse_lost(name, kind, "--query")
    found = list(_instances(name, Path(), kind, "--query"))
    if len(found) != 1:
        raise MIVError(
            f"--query {name} holds {len(found)} vectors, one per row. Expected one vector. For several references of "
            "one class, save each row to a file of its own and repeat --query."
        )
    return found[0].instance


def named_bag(names: list[str], kind: InstanceKind) -> list[Named]:
    """Return the instances of a bag; a name may also be a folder, or a table with one row per instance.

    A single .txt file with several lines of text is a bag with one instance per line.
    """
    if kind == "text" and len(names) == 1 and is_text_file(names[0]):
        lines = read_text_lines(Path(names[0]))
        if len(lines) > 1:
            return [Named(line, check_text(line, names[0]), in_place=True) for line in lines]
    found: list[Named] = []
    for name in names:
        path = Path(name)
        if not name.strip():
            raise MIVError("--bag is empty. Expected a folder, an instance or a table; use --bag . for this folder.")
        if is_folder(path):
            files = KINDS[kind].files_in(path)
            found += [one for file in files for one in _instances(str(file), Path(), kind, "--bag")]
        elif path.suffix.lower() in TABLE_SUFFIXES and (kind != "text" or is_file(path)):
            for place, record in read_records(path, required=[]):
                found += instances_of(record, path.parent, kind, place)
        else:
            _refuse_lost(name, kind, "--bag")
            found += _instances(name, Path(), kind, "--bag")
    if not found:
        raise MIVError("The bag is empty. Expected at least one instance.")
    return found


def _refuse_lost(name: str, kind: InstanceKind, option: str) -> None:
    """Raise an error for a name that means a file or folder that this verifier cannot read."""
    path, wanted = Path(name), f"a folder, an instance or a table ({', '.join(sorted(TABLE_SUFFIXES))})"
    if kind == "image" and option == "--bag" and not path.suffix and not is_file(path):
        raise MIVError(f"--bag {name}: there is no such folder or image. Expected {wanted}.")
    if kind != "text" or len(name) > _LONGEST_PATH or (path.suffix.lower() in KINDS["text"].suffixes and is_file(path)):
        return
    if is_file(path) or is_folder(path):
        raise MIVError(f"{option} {name}: this verifier reads texts, and this is not a .txt file. {_IN_A_TABLE}")
    if _LIKE_A_PATH.fullmatch(name.strip()):
        raise MIVError(f"{option} {name}: there is no such file or folder. Check the path. {_IN_A_TABLE}")


def instances_of(record: dict[str, Any], folder: Path, kind: InstanceKind, place: str) -> list[Named]:
    """Return the instance in a row of a table, from its column ``path``, ``text`` or ``vector``."""
    columns = [column for column in KINDS[kind].columns if not is_blank(record.get(column))]
    if len(columns) != 1:
        wanted = " or ".join(map(repr, KINDS[kind].columns))
        raise MIVError(f"{place}: the columns are {short(', '.join(record))}. Expected one instance column, {wanted}.")
    return list(_instances(record[columns[0]], folder, kind, place, column=columns[0]))


def cell_instance(cell: Any, folder: Path, kind: InstanceKind, place: str) -> Named:
    """Return the instance in a cell of a table of exemplars; paths are relative to ``folder``."""
    found = list(_instances(cell, folder, kind, place))
    if len(found) != 1:
        raise MIVError(f"{place}: {short(cell)} holds {len(found)} vectors. Expected one instance per cell.")
    return found[0]


def _instances(given: Any, folder: Path, kind: InstanceKind, place: str, column: str = "") -> Iterator[Named]:
    if not isinstance(given, str):
        if kind != "features":
            raise MIVError(f"{place}: expected {'a path' if kind == 'image' else 'a text'}, found {short(given)}.")
        vector = check_vector(given, place)
        yield Named(json.dumps(given), vector, in_place=True)
        return
    path = folder / given.strip()
    means_file = column == "path" or path.suffix.lower() in KINDS[kind].suffixes
    if kind == "image":
        if not given.strip():
            raise MIVError(f"{place}: empty cell. Expected the path of an image.")
        yield Named(given, path)
    elif kind == "text":
        # A text may end in ".txt"; it means a file only if that file exists, and never in a column "text".
        as_file = column == "path" or (column != "text" and means_file and is_file(path))
        if column == "" and means_file and not as_file and len(given.split()) == 1 and len(given) <= _LONGEST_PATH:
            raise MIVError(f"{place}: there is no file {path}. {_IN_A_TABLE}")
        yield Named(given, read_text_file(path)) if as_file else Named(given, check_text(given, place), in_place=True)
    elif means_file:
        vectors = read_vectors_file(path)
        for number, vector in enumerate(vectors):
            yield Named(given if len(vectors) == 1 else f"{given}[{number}]", vector)
    else:
        if not given.strip():
            raise MIVError(f"{place}: empty cell. Expected a .npy file or a JSON list of numbers.")
        try:
            numbers = json.loads(given)
        except (ValueError, RecursionError) as error:
            if _LIKE_A_PATH.fullmatch(given.strip()) or re.fullmatch(r"[^\s\[]+[/\\]\S+", given.strip()):
                found = f"{path} is not a .npy file" if is_file(path) else f"there is no file or folder {path}"
                raise MIVError(
                    f"{place}: {found}. Expected a .npy file, which numpy.save writes, or the numbers themselves as a "
                    "JSON list, as in '[0.1, 0.2]'."
                ) from error
            raise MIVError(
                f"{place}: expected a .npy file or a JSON list of numbers, found {short(given)} ({error})."
            ) from error
        yield Named(given, check_vector(numbers, place), in_place=True)


# The rows of a table of exemplars: check them, look up their instances, and group them for verification.

KEPT = ("query_id", "group", "split", "label")  # columns of the table that are copied to the output
REQUIRED = (("query", "references"), "bag")


class ExemplarRow(NamedTuple):
    """A row of the table: its place, its query or references and bag, and other columns as texts."""

    place: str
    query: list[Named]
    bag: list[Named]
    kept: dict[str, str | None]

    @property
    def asked(self) -> Any:
        """The query as ``Verifier.verify`` takes it: one instance, or a list of references."""
        return self.query[0].instance if len(self.query) == 1 else [one.instance for one in self.query]


class Survey:
    """What a table holds, found by reading it once before the long work: rows, columns to copy, first odd label."""

    def __init__(self) -> None:
        self.count = 0
        self.odd_label: str | None = None
        self._kept: set[str] = set()

    @property
    def kept(self) -> list[str]:
        """The columns to copy, in the order of ``KEPT``."""
        return [name for name in KEPT if name in self._kept]

    def add(self, place: str, record: dict[str, Any]) -> None:
        """Count a row; an error if it cannot be an exemplar."""
        _members(record, place)
        reference_cells(record, "query", "references", place)
        self._kept |= {name for name in KEPT if not is_blank(record.get(name))}
        _check_writable(record, place)
        if self.odd_label is None and not is_blank(record.get("label")) and not is_label(record["label"]):
            self.odd_label = f"{place}: {short(record['label'])}"
        self.count += 1


def exemplar_rows(
    records: Iterable[Record], folder: Path, known: dict[str, Named] | None, kind: InstanceKind, kept: list[str]
) -> Iterator[ExemplarRow]:
    """Look up the instances of rows, in ``known`` by their ids if there are any, else relative to ``folder``."""
    for place, record in records:
        members = _members(record, place)
        if known is None:
            _check_separated(members, folder, kind, place)
        references = reference_cells(record, "query", "references", place)
        query = [_looked_up(cell, known, folder, kind, place) for cell in references]
        bag = [_looked_up(cell, known, folder, kind, place) for cell in members]
        texts = {name: None if record.get(name) is None else str(record[name]) for name in kept}
        yield ExemplarRow(place, query, bag, texts)


def grouped(rows: Iterable[ExemplarRow], instances: int) -> Iterator[list[ExemplarRow]]:
    """Consecutive rows that are verified together: at least ``instances`` instances, except in the last group."""
    group: list[ExemplarRow] = []
    size = 0
    for row in rows:
        group.append(row)
        size += len(row.bag) + len(row.query) - 1
        if size >= instances:
            yield group
            group, size = [], 0
    if group:
        yield group


def instances_by_id(path: Path, kind: InstanceKind) -> dict[str, Named]:
    """The instances of a table with one row per id."""
    known: dict[str, Named] = {}
    for place, record in read_records(path, required=["id"]):
        name = parse_id(record["id"], place)
        found = instances_of(record, path.parent, kind, place)
        if name in known or len(found) != 1:
            raise MIVError(f"{place}: the id {name!r} is ambiguous. Expected one row per id in the table of instances.")
        known[name] = found[0]
    return known


def _members(record: dict[str, Any], place: str) -> list[Any]:
    members = parse_list(record["bag"], "bag", place)
    if not members:
        raise MIVError(f"{place}: the bag is empty. Expected at least one instance. Add one, or remove the row.")
    return members


def _check_writable(record: dict[str, Any], place: str) -> None:
    for name in KEPT:
        try:
            str(record.get(name)).encode()
        except UnicodeEncodeError as error:  # half of a surrogate pair, which JSON allows
            raise MIVError(f"{place}: {name} is not valid text ({error.reason}). Expected Unicode.") from error


def _check_separated(members: list[Any], folder: Path, kind: InstanceKind, place: str) -> None:
    """Report a wrong separator between file names, which would otherwise look like a missing file."""
    if kind != "text" and len(members) == 1 and isinstance(members[0], str) and not is_file(folder / members[0]):
        hint = separator_hint(members[0])
        if hint and not members[0].startswith("["):
            raise MIVError(f"{place}: the bag {short(members[0])} is not a file.{hint}")


def _looked_up(cell: Any, known: dict[str, Named] | None, folder: Path, kind: InstanceKind, place: str) -> Named:
    if known is None:
        return cell_instance(cell, folder, kind, place)
    name = parse_id(cell, place)
    if name not in known:
        raise MIVError(f"{place}: there is no instance with the id {name!r}.{separator_hint(name)}")
    return Named(name, known[name].instance)
