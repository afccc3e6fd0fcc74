"""Instances named by files, folders, tables, texts or vectors."""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from miv.data import InstanceKind
from miv.data.kinds import KINDS, Kind
from miv.errors import MIVError
from miv.files.images import ImageForm
from miv.files.instances import check_text, is_file, is_folder, is_text_file, read_text_lines, short
from miv.files.tables import (
    TABLE_SUFFIXES,
    Record,
    is_blank,
    parse_id,
    parse_list,
    read_records,
    reference_cells,
    separator_hint,
)

# A word that means a file, existing or not: it has a known suffix, or folders and something like a suffix.
_SUFFIXES = TABLE_SUFFIXES.union(*(kind.suffixes for kind in KINDS.values()))
_SUFFIX = "|".join(suffix[1:] for suffix in sorted(_SUFFIXES))
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
    _refuse_lost(name, KINDS[kind], "--query")
    instances = list(_instances(name, Path(), KINDS[kind], "--query"))
    if len(instances) != 1:
        raise MIVError(
            f"--query {name} holds {len(instances)} vectors, one per row. Expected one vector. For several references "
            "of one class, save each row to a file of its own and repeat --query."
        )
    return instances[0].instance


def named_bag(names: list[str], kind: InstanceKind) -> list[Named]:
    """Return the instances of a bag; a name may also be a folder, or a table with one row per instance.

    A single .txt file with several lines of text is a bag with one instance per line.
    """
    kind_of_bag = KINDS[kind]
    is_texts = not kind_of_bag.is_array
    if is_texts and len(names) == 1 and is_text_file(names[0]):
        lines = read_text_lines(Path(names[0]))
        if len(lines) > 1:
            return [Named(line, check_text(line, names[0]), in_place=True) for line in lines]
    bag: list[Named] = []
    for name in names:
        path = Path(name)
        if not name.strip():
            raise MIVError("--bag is empty. Expected a folder, an instance or a table; use --bag . for this folder.")
        if is_folder(path):
            for file in kind_of_bag.files_in(path):
                bag += _instances(str(file), Path(), kind_of_bag, "--bag")
        elif path.suffix.lower() in TABLE_SUFFIXES and (not is_texts or is_file(path)):
            for place, record in read_records(path, required=[]):
                bag += instances_of(record, path.parent, kind, place)
        else:
            _refuse_lost(name, kind_of_bag, "--bag")
            bag += _instances(name, Path(), kind_of_bag, "--bag")
    if not bag:
        raise MIVError("The bag is empty. Expected at least one instance.")
    return bag


def _refuse_lost(name: str, kind: Kind, option: str) -> None:
    """Raise an error for a name that means a file or folder that this verifier cannot read."""
    path, wanted = Path(name), f"a folder, an instance or a table ({', '.join(sorted(TABLE_SUFFIXES))})"
    exists = is_file(name) or is_folder(name)  # "" is no folder
    if kind.has_form:
        if option == "--bag" and not path.suffix and not exists:
            raise MIVError(f"--bag {name}: there is no such folder or image. Expected {wanted}.")
        return
    hint = "" if kind.is_array else f" {_IN_A_TABLE}"
    if not exists and len(name) <= _LONGEST_PATH and _LIKE_A_PATH.fullmatch(name.strip()):
        raise MIVError(f"{option} {name}: there is no such file or folder. Check the path.{hint}")
    if exists and path.suffix.lower() not in kind.suffixes:
        expected = " or ".join(sorted(kind.suffixes))
        raise MIVError(f"{option} {name}: this verifier reads {kind.words}s. Expected a {expected} file.{hint}")


def instances_of(record: dict[str, Any], folder: Path, kind: InstanceKind, place: str) -> list[Named]:
    """Return the instance in a row of a table, from its column ``path``, ``text`` or ``vector``."""
    columns = [column for column in KINDS[kind].columns if not is_blank(record.get(column))]
    if len(columns) != 1:
        wanted = " or ".join(map(repr, KINDS[kind].columns))
        raise MIVError(f"{place}: the columns are {short(', '.join(record))}. Expected one instance column, {wanted}.")
    return list(_instances(record[columns[0]], folder, KINDS[kind], place, column=columns[0]))


def _instances(cell: Any, folder: Path, kind: Kind, place: str, column: str = "") -> Iterator[Named]:
    """The instances that a cell of a table or an argument holds; paths are relative to ``folder``."""
    if not isinstance(cell, str):
        instance = kind.parse(cell, folder, ImageForm(), place)
        yield Named(json.dumps(cell), instance, in_place=True)
        return
    if not kind.is_array and column != "path" and not cell.strip():  # a text without content, which is judged as such
        yield Named(cell, "", in_place=True)
        return
    path = folder / cell.strip()
    is_file_name = column == "path" or path.suffix.lower() in kind.suffixes
    if kind.has_form:  # read later, in the form of the verifier
        if not cell.strip():
            raise MIVError(f"{place}: empty cell. Expected {kind.cell}.")
        yield Named(cell, path)
        return
    if not kind.is_array and column != "path":
        # A text may end in ".txt"; it means a file only if that file exists, and never in a column "text".
        is_word = len(cell.split()) == 1 and len(cell) <= _LONGEST_PATH
        if is_file_name and column == "" and is_word and not is_file(path):
            raise MIVError(f"{place}: there is no file {path}. {_IN_A_TABLE}")
        is_file_name = is_file_name and column == "" and is_file(path)
    if is_file_name:
        instances = kind.read(path, ImageForm())
        for number, instance in enumerate(instances):
            yield Named(cell if len(instances) == 1 else f"{cell}[{number}]", instance)
    else:
        yield Named(cell, kind.parse(cell, folder, ImageForm(), place), in_place=True)


# The rows of a table of exemplars: check them, look up their instances, and group them for verification.

COPIED = ("query_id", "group", "split", "label")  # columns of the table that are copied to the output
REQUIRED = (("query", "references"), "bag")


class ExemplarRow(NamedTuple):
    """A row of the table: its place, its query or references and bag, and other columns as texts."""

    place: str
    query: list[Named]
    bag: list[Named]
    copied: dict[str, str | None]

    @property
    def asked(self) -> Any:
        """The query as ``Verifier.verify`` takes it: one instance, or a list of references."""
        return self.query[0].instance if len(self.query) == 1 else [reference.instance for reference in self.query]


class Survey:
    """What a table holds, found by reading it once before the long work: the number of rows and columns to copy."""

    def __init__(self) -> None:
        self.count = 0
        self._copied: set[str] = set()

    @property
    def copied(self) -> list[str]:
        """The columns to copy, in the order of ``COPIED``."""
        return [name for name in COPIED if name in self._copied]

    def add(self, place: str, record: dict[str, Any]) -> None:
        """Count a row; an error if it cannot be an exemplar."""
        _members(record, place)
        reference_cells(record, "query", "references", place)
        self._copied |= {name for name in COPIED if not is_blank(record.get(name))}
        _check_writable(record, place)
        self.count += 1


def exemplar_rows(
    records: Iterable[Record], folder: Path, known: dict[str, Named] | None, kind: InstanceKind, copied: list[str]
) -> Iterator[ExemplarRow]:
    """Look up the instances of rows, in ``known`` by their ids if there are any, else relative to ``folder``."""
    for place, record in records:
        members = _members(record, place)
        if known is None:
            _check_separated(members, folder, KINDS[kind], place)
        references = reference_cells(record, "query", "references", place)
        query = [_looked_up(cell, known, folder, KINDS[kind], place) for cell in references]
        bag = [_looked_up(cell, known, folder, KINDS[kind], place) for cell in members]
        texts = {name: None if record.get(name) is None else str(record[name]) for name in copied}
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
        instances = instances_of(record, path.parent, kind, place)
        if name in known or len(instances) != 1:
            raise MIVError(f"{place}: the id {name!r} is ambiguous. Expected one row per id in the table of instances.")
        known[name] = instances[0]
    return known


def _members(record: dict[str, Any], place: str) -> list[Any]:
    members = parse_list(record["bag"], "bag", place)
    if not members:
        raise MIVError(f"{place}: the bag is empty. Expected at least one instance. Add one, or remove the row.")
    return members


def _check_writable(record: dict[str, Any], place: str) -> None:
    for name in COPIED:
        try:
            str(record.get(name)).encode()
        except UnicodeEncodeError as error:  # half of a surrogate pair, which JSON allows
            raise MIVError(f"{place}: {name} is not valid text ({error.reason}). Expected Unicode.") from error


def _check_separated(members: list[Any], folder: Path, kind: Kind, place: str) -> None:
    """Report a wrong separator between file names, which would otherwise look like a missing file."""
    [name, *others] = members
    hint = "" if others or not isinstance(name, str) or not kind.refers_to_file(name) else separator_hint(name)
    if hint and not is_file(folder / name):
        raise MIVError(f"{place}: the bag {short(name)} is not a file.{hint}")


def _looked_up(cell: Any, known: dict[str, Named] | None, folder: Path, kind: Kind, place: str) -> Named:
    if known is None:
        instances = list(_instances(cell, folder, kind, place))
        if len(instances) != 1:
            raise MIVError(f"{place}: {short(cell)} holds {len(instances)} vectors. Expected one instance per cell.")
        return instances[0]
    name = parse_id(cell, place)
    if name not in known:
        raise MIVError(f"{place}: there is no instance with the id {name!r}.{separator_hint(name)}")
    return Named(name, known[name].instance)
