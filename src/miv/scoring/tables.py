"""A table of exemplars in, a table of verdicts out: one row an exemplar, or one row an instance."""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from miv.errors import MivError
from miv.exemplars import Kind
from miv.files import whole_file
from miv.images import Fit
from miv.progress import Progress
from miv.scoring.named import Named, cell_instance, instances_of
from miv.tasks.own.cells import SEPARATOR, parse_id, parse_list
from miv.tasks.own.records import read_records
from miv.tasks.own.sources import is_blank
from miv.verdict import Asked, Verdicts
from miv.verifier import Verifier

_KEPT = ("query_id", "group", "split", "label")  # columns of the table that are written again beside the verdicts
_OUTPUTS = (".parquet", ".csv")


@dataclass(frozen=True)
class ScoredTable:
    """The verdicts on the rows of a table, with what the rows were called.

    Args:
        verdicts: one a row.
        query: of each row the name of its query, empty for a vector.
        bags: of each row the names of its instances.
        kept: further columns of the table, as texts.
    """

    verdicts: Verdicts
    query: list[str]
    bags: list[list[str]]
    kept: dict[str, list[str | None]]

    def columns(self, *, by_instance: bool) -> dict[str, Any]:
        """Return what is written, by column, with a row an exemplar or a row an instance."""
        verdicts = self.verdicts
        found: dict[str, Any] = {
            "exemplar": np.arange(len(verdicts)),
            "query": self.query,
            **self.kept,
            "verdict": verdicts.verdict,
            "probability": verdicts.probability,
        }
        if not by_instance:
            found["threshold"] = np.full(len(verdicts), verdicts.threshold)
            found["bag_size"] = np.diff(verdicts.ptr)
            found["witnesses"] = [[witness.index for witness in verdict.witnesses] for verdict in verdicts]
            found["witnesses_by"] = [verdicts.witnesses_by] * len(verdicts)
            return found
        owner = np.repeat(np.arange(len(verdicts)), np.diff(verdicts.ptr))
        found = {name: [column[row] for row in owner] for name, column in found.items()}
        found["place"] = np.arange(len(owner)) - verdicts.ptr[owner]
        found["instance"] = [name for bag in self.bags for name in bag]
        nothing = [None] * len(owner)
        found["attention"] = nothing if verdicts.attention is None else verdicts.attention
        found["share"] = nothing if verdicts.shares is None else verdicts.shares
        found["witnesses_by"] = [verdicts.witnesses_by] * len(owner)
        found["witness"] = nothing if verdicts.witness is None else verdicts.witness
        return found

    def write(self, path: Path, *, by_instance: bool) -> None:
        """Write a .parquet or .csv file, whole or not at all; in CSV, witnesses are separated by ``|``."""
        columns = self.columns(by_instance=by_instance)
        with whole_file(path) as temporary:
            if path.suffix.lower() == ".parquet":
                pq.write_table(pa.table({name: _array(name, column) for name, column in columns.items()}), temporary)
            else:
                with temporary.open("w", newline="", encoding="utf-8") as file:
                    writer = csv.writer(file)
                    writer.writerow(columns)
                    writer.writerows(map(_csv_cells, zip(*columns.values(), strict=True)))


def check_output(path: Path, *, overwrite: bool) -> None:
    """Refuse, before the work, a name that cannot be written, or what would be lost."""
    if path.suffix.lower() not in _OUTPUTS:
        raise MivError(f"The output {path} ends in {path.suffix!r}. Expected {' or '.join(_OUTPUTS)}.")
    if path.exists() and not overwrite:
        raise MivError(f"{path} is there already. Choose another name for --out, or replace it with --overwrite.")


def score_table(
    verifier: Verifier,
    table: Path,
    instances: Path | None,
    resize: Fit | None,
    progress: Progress,
    witnesses: Asked | None = None,
) -> ScoredTable:
    """Verify every row of a table.

    Args:
        verifier: the verifier.
        table: CSV, JSON lines or Parquet with ``query`` and ``bag`` as for ``miv data from-table``; it needs no label.
        instances: a second table with the instances by ``id``; queries and bags then hold ids.
        resize: as for ``Verifier.verify``.
        progress: is told of reading and embedding.
        witnesses: as for ``Verifier.verify``.
    """
    kind = verifier.backbone.kind
    known = None if instances is None else _instances_by_id(instances, kind)
    queries, bags, kept = [], [], []
    with progress.step("Reading exemplars") as advance:
        for place, record in read_records(table, required=["query", "bag"]):
            members = parse_list(record["bag"], "bag", place)
            if not members:
                raise MivError(f"{place}: the bag is empty. Expected at least one instance; else remove the row.")
            cells = [_looked_up(cell, known, table.parent, kind, place) for cell in (record["query"], *members)]
            queries.append(cells[0])
            bags.append(cells[1:])
            kept.append({name: record.get(name) for name in _KEPT})
            advance(1)
    if not queries:
        raise MivError(f"{table}: no rows. Expected one exemplar a row.")
    given = [query.instance for query in queries], [[one.instance for one in bag] for bag in bags]
    verdicts = verifier.verify_many(*given, resize=resize, witnesses=witnesses, progress=progress)
    columns = [name for name in _KEPT if any(not is_blank(row[name]) for row in kept)]
    return ScoredTable(
        verdicts,
        [query.name for query in queries],
        [[one.name for one in bag] for bag in bags],
        {name: [None if row[name] is None else str(row[name]) for row in kept] for name in columns},
    )


def _looked_up(cell: Any, known: dict[str, Named] | None, folder: Path, kind: Kind, place: str) -> Named:
    if known is None:
        found = cell_instance(cell, folder, kind, place)
        return found if found.name or not isinstance(cell, str) else Named(cell, found.instance)
    name = parse_id(cell, place)
    if name not in known:
        raise MivError(f"{place}: there is no instance with the id {name!r}.")
    return Named(name, known[name].instance)


def _instances_by_id(path: Path, kind: Kind) -> dict[str, Named]:
    known: dict[str, Named] = {}
    for place, record in read_records(path, required=["id"]):
        name = parse_id(record["id"], place)
        found = instances_of(record, path.parent, kind, place)
        if name in known or len(found) != 1:
            raise MivError(f"{place}: the id {name!r} must stand for one instance, and stand in the table once.")
        known[name] = found[0]
    return known


def _array(name: str, column: Any) -> Any:
    if name == "witnesses":
        return pa.array(column, pa.list_(pa.int64()))
    return pa.array(column, {"attention": pa.float64(), "share": pa.float64(), "witness": pa.bool_()}.get(name))


def _csv_cells(row: tuple[Any, ...]) -> list[Any]:
    return [SEPARATOR.join(map(str, cell)) if isinstance(cell, list) else cell for cell in row]
