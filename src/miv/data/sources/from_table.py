"""Exemplars from a table with one row per exemplar: query, bag and label."""

import logging
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from miv.data import ExemplarSet, InstanceKind
from miv.data.connected_exemplars import connected, kept_together
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
    """Exemplars from a CSV, JSON lines or Parquet file with one exemplar per row.

    Args:
        table: the file. ``query`` is an instance, ``bag`` a list of them, ``label`` 0 or 1. ``witnesses`` are
            positions in the bag from 0, or one true or false per instance; ``split`` is train,
            validation or test; ``group`` is used to group results; exemplars with the same
            ``query_id`` are never assigned to different splits. ``references`` is a list of instances to ask with,
            in addition to the query or instead of it.
        instances: a second table with ``id``, one of ``path``, ``text`` or ``vector``, and optionally ``class``;
            queries and bags then contain ids.
        kind: kind of instance; inferred from the first one by default.
        images: target form of all images.
        columns: the names of the columns.
        shares: shares of validation and test if the table has no column ``split``.
        split_by: what to keep within one split if the table has no column ``split``: an instance (and a
            query id), a query (its id, else its class, else its instances), or a group.
        seed: random seed for assigning the splits.
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
            raise unknown_name("split_by value", self.split_by, get_args(SplitBy))

    def build(self, progress: Progress) -> dict[str, ExemplarSet]:
        """Build the sets by split."""
        exemplars, rows = self.read(progress)
        numbers = rows.splits() or self._deal_out(exemplars, rows)
        filled = {split: chosen for split, chosen in numbers.items() if len(chosen)}
        sets = {split: exemplars.subset(chosen).compact() for split, chosen in filled.items()}
        # Witnesses may be known in some splits only, such as test.
        return {
            split: one if rows.marks_witnesses(filled[split]) else replace(one, witness=None)
            for split, one in sets.items()
        }

    def read(self, progress: Progress) -> tuple[ExemplarSet, Rows]:
        """Read the rows of all splits as one set; also return the other columns."""
        source: CellInstances | InstanceTable = CellInstances(self.table.parent, self.kind, self.images)
        if self.instances is not None:
            with progress.step("Reading instances") as advance:
                source = InstanceTable(self.instances, self.kind, self.images, advance)
        rows = Rows(self.table, self.columns)
        with progress.step("Reading exemplars") as advance:
            for place, record in read_records(self.table, required=self.columns.required):
                rows.read(record, place, source)
                advance(1)
        return rows.exemplars(source), rows

    def _deal_out(self, exemplars: ExemplarSet, rows: Rows) -> dict[str, Any]:
        rng = np.random.default_rng([self.seed, 0, SPLIT_DRAW])
        numbers = split_clusters(self._clusters(exemplars, rows), self.shares, rng)
        empty = [split for split, chosen in numbers.items() if not len(chosen)]
        if empty:
            raise MIVError(
                f"{self.table}: without a column {self.columns.split!r}, the exemplars cannot be split by "
                f"{self.split_by}: {', '.join(empty)} would be empty, because shared values link nearly all exemplars. "
                "Add that column, split by something else (--split-by query or group), or disable splits "
                "(--validation 0 --test 0)."
            )
        sizes = ", ".join(f"{len(chosen)} {split}" for split, chosen in numbers.items())
        by_class = self.split_by == "query" and rows.query_ids is None and exemplars.pool.classes is not None
        by = "class of the query" if by_class else self.split_by
        logger.warning("%s has no column %r; split by %s: %s.", self.table, self.columns.split, by, sizes)
        self._warn_of_shares(numbers, len(exemplars))
        used = [np.unique(exemplars.subset(chosen).used) for chosen in numbers.values()]
        shared = sum(map(len, used)) - len(exemplars.used)
        if shared:
            logger.warning("%d instances are in more than one split; see `miv data inspect`.", shared)
        return numbers

    def _warn_of_shares(self, numbers: dict[str, Any], total: int) -> None:
        """Warn of a split that is far smaller than asked for: large clusters cannot be divided."""
        asked = self.shares.by_split()
        small = [split for split, chosen in numbers.items() if len(chosen) < asked[split] * total / 2]
        if small:
            wanted = ", ".join(f"{round(asked[split] * total)} for {split}" for split in small)
            logger.warning(
                "Asked for about %s. Exemplars that share %s must stay together, and they form a few large clusters. "
                "Results on so few exemplars are not reliable. Add a column %r, or split by something else "
                "(--split-by %s).",
                wanted,
                {"instances": "an instance", "query": "a query", "group": "a group"}[self.split_by],
                self.columns.split,
                " or ".join(one for one in ("instances", "query", "group") if one != self.split_by),
            )

    def _clusters(self, exemplars: ExemplarSet, rows: Rows) -> Any:
        """``(E,)`` a number per exemplar; exemplars with equal numbers must stay together."""
        if self.split_by == "group":
            if exemplars.group is None:
                raise MIVError(f"{self.table}: there is no column {self.columns.group!r} to split by.")
            return np.unique(exemplars.group.astype(str), return_inverse=True)[1]
        names = rows.query_ids
        if self.split_by == "query":
            return kept_together(exemplars) if names is None else np.unique(names, return_inverse=True)[1]
        links = [np.append(exemplars.references(row), exemplars.bag(row)) for row in range(len(exemplars))]
        nodes = len(exemplars.pool)
        if names is not None:  # a query id is an extra node shared by its exemplars
            ids, numbers = np.unique(names, return_inverse=True)
            links = [np.append(link, nodes + number) for link, number in zip(links, numbers, strict=True)]
            nodes += len(ids)
        return connected([link.tolist() for link in links], nodes)
