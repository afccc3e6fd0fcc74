"""Read and check the rows of a table of exemplars one by one."""

import logging
from dataclasses import astuple, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.data import SPLITS, ExemplarSet
from miv.data.sources.instance_sources import CellInstances, InstanceTable
from miv.errors import MIVError, unknown_name
from miv.io.table_cells import is_blank, parse_id, parse_label, parse_list, parse_witnesses, reference_cells

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Columns:
    """Column names; the columns after ``label`` are optional unless renamed. ``references`` may replace ``query``."""

    query: str = "query"
    bag: str = "bag"
    label: str = "label"
    witnesses: str = "witnesses"
    split: str = "split"
    group: str = "group"
    query_id: str = "query_id"
    references: str = "references"

    @property
    def required(self) -> tuple[tuple[str, str], str, str]:
        """The columns that every table has; of the first two names, one is enough."""
        return (self.query, self.references), self.bag, self.label


class Rows:
    """The exemplars read so far, as indices into the pool, with the other columns."""

    def __init__(self, table: Path, columns: Columns) -> None:
        self._table = table
        self._columns = columns
        self._references: list[list[int]] = []
        self._bags: list[list[int]] = []
        self._labels: list[int] = []
        self._witnesses: list[list[bool]] = []
        self._marked: list[bool] = []  # whether the cell of the witnesses is not empty
        self._optional: dict[str, list[str]] = {columns.split: [], columns.group: [], columns.query_id: []}
        self._not_seen = set(astuple(columns)) - set(astuple(Columns()))  # named by the user, so they must exist
        self._seen: dict[str, None] = {}
        self._contradictions: dict[int, str] = {}
        self._own_queries: list[str] = []

    def read(self, record: dict[str, Any], place: str, source: CellInstances | InstanceTable) -> None:
        """Read one row."""
        columns = self._columns
        bag, label = record[columns.bag], record[columns.label]
        if not self._references:
            self._warn_of_misspelt_columns(record)
        if self._not_seen:
            self._not_seen.difference_update(record)
            self._seen |= dict.fromkeys(map(str, record))
        self._labels.append(parse_label(label, place))
        cells = reference_cells(record, columns.query, columns.references, place)
        references = [source.index(cell, f"{place}, query") for cell in cells]
        members = [source.index(entry, f"{place}, bag") for entry in parse_list(bag, "bag", place)]
        if not members:
            raise MIVError(f"{place}: the bag is empty. Expected at least one instance. Add one, or remove the row.")
        self._references.append(references)
        self._bags.append(members)
        if not set(references).isdisjoint(members):
            self._own_queries.append(place)
        self._read_witnesses(record.get(columns.witnesses), place)
        for name, values in self._optional.items():
            self._read_optional(name, record.get(name), values, place)

    @property
    def query_ids(self) -> list[str] | None:
        """The id of each query, if the table has that column."""
        return self._optional[self._columns.query_id] or None

    def splits(self) -> dict[str, NDArray[np.int64]] | None:
        """The exemplar numbers of each split, if the table has that column."""
        given = self._optional[self._columns.split]
        return {split: np.flatnonzero(np.array(given) == split) for split in SPLITS} if given else None

    def marks_witnesses(self, rows: NDArray[np.int64]) -> bool:
        """Whether any of these rows names witnesses; if none does, they are unknown there, not absent."""
        return bool(np.array(self._marked)[rows].any())

    def exemplars(self, source: CellInstances | InstanceTable) -> ExemplarSet:
        """All rows as one set."""
        if not self._references:
            raise MIVError(f"{self._table}: no rows. Expected one exemplar per row.")
        for name in sorted(self._not_seen):
            raise MIVError(f"{self._table}: {unknown_name('column', name, self._seen)}")
        splits = (self.splits() or {"all": np.arange(len(self._bags))}).values()
        known = {row for rows in splits if self.marks_witnesses(rows) for row in rows.tolist()}
        contradictions = [place for row, place in self._contradictions.items() if row in known]
        if contradictions:
            _warn_of("rows have a label that contradicts their witnesses", contradictions)
        if self._own_queries:
            _warn_of("rows have their query in their own bag", self._own_queries)
        return ExemplarSet.from_lists(
            source.pool(),
            None,
            self._bags,
            self._labels,
            self._witnesses if any(self._marked) else None,
            self._optional[self._columns.group] or None,
            references=self._references,
            query_ids=self.query_ids,
        )

    def _read_witnesses(self, cell: Any, place: str) -> None:
        flags = parse_witnesses(cell, len(self._bags[-1]), place)
        if any(flags) != bool(self._labels[-1]):
            self._contradictions[len(self._marked)] = place
        self._marked.append(not is_blank(cell))
        self._witnesses.append(flags)

    def _read_optional(self, name: str, cell: Any, values: list[str], place: str) -> None:
        # `values` has an entry for every earlier row, or none.
        if len(self._references) > 1 and is_blank(cell) == bool(values):
            which = "is empty here, but not in earlier rows" if values else "is empty in earlier rows"
            raise MIVError(f"{place}: the column {name!r} {which}. Fill it in every row, or remove it.")
        if is_blank(cell):
            return
        value = parse_id(cell, f"{place}, {name}")
        if name == self._columns.split and value not in SPLITS:
            raise MIVError(f"{place}: {unknown_name('split', value, SPLITS)}")
        values.append(value)

    def _warn_of_misspelt_columns(self, record: dict[str, Any]) -> None:
        names = astuple(self._columns)
        for column in map(str, record):
            missing = [name for name in names if name not in record]
            near = get_close_matches(column, missing, n=1, cutoff=0.75) if column not in names else []
            if near:
                logger.warning("%s: the column %r is not used. Did you mean %r?", self._table, column, near[0])


def _warn_of(what: str, places: list[str]) -> None:
    logger.warning("%d %s, first %s; see `miv data inspect`.", len(places), what, places[0])
