"""Read a table of exemplars and write a table of verdicts: one row per exemplar, or one row per instance."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from miv.data import InstanceKind, csr
from miv.errors import MIVError
from miv.inference.given_instances import GivenPlaces
from miv.inference.named_instances import Named, cell_instance, instances_of
from miv.inference.table_writing import Schema, table_writer
from miv.inference.unlike_columns import unlike_columns, unlike_schema
from miv.inference.verdict import Asked, Verdicts
from miv.inference.verifying import Verifying
from miv.io.image_files import Fit
from miv.io.instance_files import is_file, short
from miv.io.table_cells import SEPARATOR, is_blank, is_label, parse_id, parse_list, reference_cells, separator_hint
from miv.io.table_records import read_records
from miv.runtime.progress import Progress

if TYPE_CHECKING:
    from miv.models.verifier import Verifier

_KEPT = ("query_id", "group", "split", "label")  # columns of the table that are copied to the output
_REQUIRED = (("query", "references"), "bag")
_TOGETHER = 1024  # instances read before they are verified and written: 150 MB at 224 × 224 in colour


@dataclass(frozen=True)
class Scored:
    """Summary of a verified table.

    Args:
        exemplars: number of rows.
        yes: number of accepted exemplars.
        yes_without_witness: number of accepted exemplars without a witness.
        threshold: the lowest probability that is accepted.
        witnesses_by: how witnesses were chosen.
        odd_label: the first label that is neither 0 nor 1, and its place; it is copied unchanged.
        unsure: number of exemplars between two thresholds, or unlike the training data.
        lower_threshold: the lowest probability that is not rejected; ``None`` if the verifier has one threshold.
    """

    exemplars: int
    yes: int
    yes_without_witness: int
    threshold: float
    witnesses_by: Asked
    odd_label: str | None
    unsure: int = 0
    lower_threshold: float | None = None


class _Row(NamedTuple):
    """A row of the table: its place, its query or references and bag, and other columns as texts."""

    place: str
    query: list[Named]
    bag: list[Named]
    kept: dict[str, str | None]


def score_table(
    verifier: "Verifier",
    table: Path,
    out: Path,
    *,
    instances: Path | None = None,
    by_instance: bool = False,
    resize: Fit | None = None,
    witnesses: Asked | None = None,
    progress: Progress,
) -> Scored:
    """Verify every row of a table and write the verdicts as they are ready. The file appears only when complete.

    Args:
        verifier: the verifier.
        table: CSV, JSON lines or Parquet with ``query`` or ``references``, and ``bag``, as for ``miv data from-table``;
            labels are optional.
        out: the .parquet or .csv file to write; see ``miv.inference.table_writing``.
        instances: a second table of instances with an ``id`` column; queries and bags then contain ids.
        by_instance: write one row per instance instead of one per exemplar.
        resize: as for ``Verifier.verify``.
        witnesses: as for ``Verifier.verify``.
        progress: reports the progress of reading and verifying.
    """
    kind, verifying = verifier.backbone.kind, Verifying(verifier, resize, witnesses)
    known = None if instances is None else _instances_by_id(instances, kind)
    count, kept, odd_label = _survey(table, progress)
    yes = unsure = unshown = done = 0
    point = verifier.operating_point
    schema = _schema(kept, by_instance, two_thresholds=point.lower_threshold is not None)
    schema |= unlike_schema(by_instance) if verifier.unlike is not None else {}
    writer, step = table_writer(out, schema), progress.step("Verifying", total=count)
    with writer as write, step as advance:
        for rows in _parts(table, known, kind, kept):
            given = [_asked(row) for row in rows], [[one.instance for one in row.bag] for row in rows]
            verdicts = verifying.verify(*given, GivenPlaces([row.place for row in rows]))
            write(_columns(rows, verdicts, done, kept, by_instance) | unlike_columns(verdicts, by_instance))
            yes, done = yes + int(verdicts.verdict.sum()), done + len(rows)
            unsure += int((verdicts.decision == "unsure").sum())
            if verdicts.witness is not None:
                unshown += int((verdicts.verdict & ~csr.bag_any(verdicts.witness, verdicts.ptr)).sum())
            advance(len(rows))
    return Scored(done, yes, unshown, point.threshold, verifying.by, odd_label, unsure, point.lower_threshold)


def _survey(table: Path, progress: Progress) -> tuple[int, list[str], str | None]:
    """Read a table once before the long work: its rows, the columns to copy, the first odd label."""
    count, kept, odd_label = 0, set(), None
    with progress.step("Reading exemplars") as advance:
        for place, record in read_records(table, required=_REQUIRED):
            _members(record, place)
            reference_cells(record, "query", "references", place)
            kept |= {name for name in _KEPT if not is_blank(record.get(name))}
            _check_writable(record, place)
            if odd_label is None and not is_blank(record.get("label")) and not is_label(record["label"]):
                odd_label = f"{place}: {short(record['label'])}"
            count += 1
            advance(1)
    if not count:
        raise MIVError(f"{table}: no rows. Expected one row per exemplar.")
    return count, [name for name in _KEPT if name in kept], odd_label


def _check_writable(record: dict[str, Any], place: str) -> None:
    for name in _KEPT:
        try:
            str(record.get(name)).encode()
        except UnicodeEncodeError as error:  # half of a surrogate pair, which JSON allows
            raise MIVError(f"{place}: {name} is not valid text ({error.reason}). Expected Unicode.") from error


def _parts(table: Path, known: dict[str, Named] | None, kind: InstanceKind, kept: list[str]) -> Iterator[list[_Row]]:
    """The rows of the table, in groups that are verified together."""
    rows: list[_Row] = []
    size = 0
    for place, record in read_records(table, required=_REQUIRED):
        members = _members(record, place)
        if known is None:
            _check_separated(members, table.parent, kind, place)
        references = reference_cells(record, "query", "references", place)
        found = [_looked_up(cell, known, table.parent, kind, place) for cell in (*references, *members)]
        query, bag = found[: len(references)], found[len(references) :]
        texts = {name: None if record.get(name) is None else str(record[name]) for name in kept}
        rows.append(_Row(place, query, bag, texts))
        size += len(bag) + len(query) - 1
        if size >= _TOGETHER:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


def _asked(row: _Row) -> Any:
    """The query of a row as ``Verifier.verify`` takes it: one instance, or a list of references."""
    return row.query[0].instance if len(row.query) == 1 else [one.instance for one in row.query]


def _members(record: dict[str, Any], place: str) -> list[Any]:
    members = parse_list(record["bag"], "bag", place)
    if not members:
        raise MIVError(f"{place}: the bag is empty. Expected at least one instance. Add one, or remove the row.")
    return members


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


def _instances_by_id(path: Path, kind: InstanceKind) -> dict[str, Named]:
    known: dict[str, Named] = {}
    for place, record in read_records(path, required=["id"]):
        name = parse_id(record["id"], place)
        found = instances_of(record, path.parent, kind, place)
        if name in known or len(found) != 1:
            raise MIVError(f"{place}: the id {name!r} is ambiguous. Expected one row per id in the table of instances.")
        known[name] = found[0]
    return known


def _schema(kept: list[str], by_instance: bool, *, two_thresholds: bool) -> Schema:
    schema: Schema = {"exemplar": "int64", "query": "string"}
    schema |= dict.fromkeys(kept, "string")
    schema |= {"verdict": "bool", "decision": "string", "probability": "float64"}
    if by_instance:
        schema |= {"place": "int64", "instance": "string", "attention": "float64", "share": "float64"}
        return schema | {"score": "float64", "witnesses_by": "string", "witness": "bool"}
    schema |= {"threshold": "float64"}
    schema |= {"lower_threshold": "float64"} if two_thresholds else {}
    return schema | {"bag_size": "int64", "witnesses": "list<int64>", "witnesses_by": "string"}


def _columns(rows: list[_Row], verdicts: Verdicts, first: int, kept: list[str], by_instance: bool) -> dict[str, Any]:
    """The output columns of one part, given the number of its first exemplar."""
    exemplars, sizes = len(verdicts), np.diff(verdicts.ptr)
    found: dict[str, Any] = {
        "exemplar": np.arange(first, first + exemplars),
        "query": np.array([SEPARATOR.join(one.name for one in row.query) for row in rows], object),
        **{name: np.array([row.kept[name] for row in rows], object) for name in kept},
        "verdict": verdicts.verdict,
        "decision": verdicts.decision.astype(object),
        "probability": verdicts.probability,
    }
    if not by_instance:
        found["threshold"] = np.full(exemplars, verdicts.threshold)
        if verdicts.lower_threshold is not None:
            found["lower_threshold"] = np.full(exemplars, verdicts.lower_threshold)
        found["bag_size"] = sizes
        found["witnesses"] = [[witness.index for witness in verdict.witnesses] for verdict in verdicts]
        return {**found, "witnesses_by": [verdicts.witnesses_by] * exemplars}
    targets = int(verdicts.ptr[-1])
    nothing = [None] * targets
    return {
        **{name: csr.to_rows(column, verdicts.ptr) for name, column in found.items()},
        "place": csr.places(verdicts.ptr),
        "instance": [one.name for row in rows for one in row.bag],
        "attention": nothing if verdicts.attention is None else verdicts.attention,
        "share": nothing if verdicts.shares is None else verdicts.shares,
        "score": nothing if verdicts.scores is None else verdicts.scores,
        "witnesses_by": [verdicts.witnesses_by] * targets,
        "witness": nothing if verdicts.witness is None else verdicts.witness,
    }
