"""Exemplars from a table: one row an exemplar, with its query, bag and label."""

import logging
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from miv.data import ExemplarSet, InstanceKind
from miv.data.connected_exemplars import connected
from miv.data.sources.instance_sources import CellInstances, InstanceTable
from miv.data.sources.pool_builder import ImageForm
from miv.data.sources.split_shares import Shares, split_clusters
from miv.data.sources.table_rows import Columns, Rows
from miv.data.split_folders import SPLIT_DRAW
from miv.errors import MIVError, unknown_name
from miv.io.table_records import read_records
from miv.runtime.progress import Progress

logger = logging.getLogger(__name__)

SplitBy = Literal["instances", "query", "group"]


@dataclass(frozen=True)
class FromTable:
    """Exemplars from a CSV, JSON lines or Parquet file with one exemplar a row.

    Args:
        table: the file. ``query`` is an instance, ``bag`` a list of them, ``label`` 0 or 1. ``witnesses`` are
            positions in the bag from 0, or as many true and false as it has instances; ``split`` is train,
            validation or test; ``group`` is what results are broken down by; exemplars with the same
            ``query_id`` are never dealt out to different splits.
        instances: a second table with ``id``, one of ``path``, ``text`` or ``vector``, and perhaps ``class``;
            queries and bags then hold ids.
        kind: what an instance is; where it is not said, the first one decides.
        images: what every image becomes.
        columns: the names of the columns.
        shares: the shares of validation and test where the table has no column ``split``.
        split_by: what is never in two splits where the table has no column ``split``: an instance (and a
            query id), a query (its id, else its class, else the instance itself), or a group.
        seed: start of the random numbers that deal out the splits.
    """

    table: Path
    instances: Path | None = None
    kind: InstanceKind | None = None
    images: ImageForm = field(default_factory=ImageForm)
    columns: Columns = field(default_factory=Columns)
    shares: Shares = field(default_factory=Shares)
    split_by: SplitBy = "instances"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind is not None and self.kind not in get_args(InstanceKind):
            raise unknown_name("kind of instance", self.kind, get_args(InstanceKind))
        if self.split_by not in get_args(SplitBy):
            raise unknown_name("way to split by", self.split_by, get_args(SplitBy))

    def build(self, progress: Progress) -> dict[str, ExemplarSet]:
        """Make the sets, by split."""
        exemplars, rows = self.read(progress)
        numbers = rows.splits() or self._deal_out(exemplars, rows)
        filled = {split: chosen for split, chosen in numbers.items() if len(chosen)}
        return {split: exemplars.subset(chosen).compact() for split, chosen in filled.items()}

    def read(self, progress: Progress) -> tuple[ExemplarSet, Rows]:
        """Read all rows as one set, whatever their split; and what else the rows say."""
        source: CellInstances | InstanceTable = CellInstances(self.table.parent, self.kind, self.images)
        if self.instances is not None:
            with progress.step("Reading instances") as advance:
                source = InstanceTable(self.instances, self.kind, self.images, advance)
        rows = Rows(self.table, self.columns)
        with progress.step("Reading exemplars") as advance:
            for place, record in read_records(self.table, required=astuple(self.columns)[:3]):
                rows.read(record, place, source)
                advance(1)
        return rows.exemplars(source), rows

    def _deal_out(self, exemplars: ExemplarSet, rows: Rows) -> dict[str, Any]:
        rng = np.random.default_rng([self.seed, 0, SPLIT_DRAW])
        numbers = split_clusters(self._clusters(exemplars, rows), self.shares, rng)
        empty = [split for split, chosen in numbers.items() if not len(chosen)]
        if empty:
            raise MIVError(
                f"{self.table}: without a column {self.columns.split!r} the exemplars could not be split by "
                f"{self.split_by}: {', '.join(empty)} would be empty, as too many exemplars share the same. "
                "Add that column, split by something else (--split-by query or group), or leave splits out "
                "(--validation 0 --test 0)."
            )
        sizes = ", ".join(f"{len(chosen)} {split}" for split, chosen in numbers.items())
        logger.warning("%s has no column %r; split by %s: %s.", self.table, self.columns.split, self.split_by, sizes)
        used = [np.unique(exemplars.subset(chosen).used) for chosen in numbers.values()]
        shared = sum(map(len, used)) - len(exemplars.used)
        if shared:
            logger.warning("%d instances are in more than one split; see `miv data inspect`.", shared)
        return numbers

    def _clusters(self, exemplars: ExemplarSet, rows: Rows) -> Any:
        """``(E,)`` a number for each exemplar; those with the same must stay together."""
        if self.split_by == "group":
            if exemplars.group is None:
                raise MIVError(f"{self.table}: no column {self.columns.group!r} to split by.")
            return np.unique(exemplars.group.astype(str), return_inverse=True)[1]
        names = rows.query_ids
        if self.split_by == "query":
            if names is None and exemplars.pool.classes is not None:
                names = exemplars.pool.classes[exemplars.query].tolist()
            return exemplars.query if names is None else np.unique(names, return_inverse=True)[1]
        links = [np.append(exemplars.bag(row), exemplars.query[row]) for row in range(len(exemplars))]
        nodes = len(exemplars.pool)
        if names is not None:  # a query id is one more node that its exemplars share
            ids, numbers = np.unique(names, return_inverse=True)
            links = [np.append(link, nodes + number) for link, number in zip(links, numbers, strict=True)]
            nodes += len(ids)
        return connected([link.tolist() for link in links], nodes)
