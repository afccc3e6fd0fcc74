"""The rows of a table of exemplars: check them, look up their instances, and group them for verification."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from miv.data import InstanceKind
from miv.errors import MIVError
from miv.files.instances import is_file, short
from miv.files.tables import (
    Record,
    is_blank,
    is_label,
    parse_id,
    parse_list,
    read_records,
    reference_cells,
    separator_hint,
)
from miv.inference.named_instances import Named, cell_instance, instances_of

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
    records: Iterable[Record],
    folder: Path,
    known: dict[str, Named] | None,
    kind: InstanceKind,
    query_kind: InstanceKind,
    kept: list[str],
) -> Iterator[ExemplarRow]:
    """Look up the instances of rows.

    Args:
        records: the rows, as ``read_records`` gives them.
        folder: paths are relative to it.
        known: instances by id, if queries and bags contain ids.
        kind: kind of the instances of bags.
        query_kind: kind of the queries; those of another kind are not ids.
        kept: columns to copy.
    """
    asked = known if query_kind == kind else None
    for place, record in records:
        members = _members(record, place)
        if known is None:
            _check_separated(members, folder, kind, place)
        references = reference_cells(record, "query", "references", place)
        query = [_looked_up(cell, asked, folder, query_kind, place) for cell in references]
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
