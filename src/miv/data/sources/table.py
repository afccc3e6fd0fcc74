"""Exemplars from a table with one row per exemplar: query, bag and label."""

from collections.abc import Hashable, Sequence
from dataclasses import astuple, dataclass, field, replace
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from miv.data import csr
from miv.data.exemplars import ExemplarSet
from miv.data.kinds import KINDS, guess_kind, kind_named
from miv.data.pool import InstancePool, PoolBuilder
from miv.data.splits import SPLIT_DRAW, SPLITS, Shares, connected, query_groups, split_clusters
from miv.errors import MIVError, number_of, unknown_name, warn
from miv.files.images import ImageForm
from miv.files.instances import InstanceKind
from miv.files.tables import (
    is_blank,
    parse_id,
    parse_label,
    parse_list,
    parse_witnesses,
    read_records,
    reference_cells,
    separator_hint,
)
from miv.registry import from_options
from miv.runtime import Advance, Progress, SilentProgress

# The instances in the cells of a table: given directly, or by ids of a second table.

# A path may point to an image or a vector; its suffix decides.
_KIND_OF_COLUMN: dict[str, InstanceKind | None] = {"path": None, "text": "text", "vector": "features"}


class CellInstances(PoolBuilder):
    """Reads instances from cells: paths relative to ``folder``, texts, or vectors; each file once."""

    def __init__(self, folder: Path, kind: InstanceKind | None, form: ImageForm) -> None:
        super().__init__(kind, form)
        self._folder = folder
        self._known: dict[Hashable, int] = {}

    def index(self, value: Any, place: str, name: str = "") -> int:
        """Return the number of the instance in a cell; ``name`` is for one that is not in a file."""
        self.kind = self.kind or guess_kind(value)
        kind, key = KINDS[self.kind], value if isinstance(value, str) else None
        if key is None or key not in self._known:
            instance = kind.parse(value, self._folder, self.form, place)
            name = key.strip() if key is not None and kind.refers_to_file(key) else name
            self._known[key] = self.add(instance, place, name)
        return self._known[key]


class InstanceTable(CellInstances):
    """Instances by id from a separate table."""

    def __init__(self, path: Path, kind: InstanceKind | None, form: ImageForm, advance: Advance) -> None:
        super().__init__(path.parent, kind, form)
        self._path = path
        self._ids: dict[str, int] = {}
        self._classes: dict[int, tuple[str, str]] = {}  # class of each instance, and where it was given
        first_place: dict[str, str] = {}
        for place, record in read_records(path, required=["id"]):
            name = parse_id(record["id"], place)
            if name in first_place:
                raise MIVError(f"{place}: the id {name!r} is already in {first_place[name]}. Use each id once.")
            first_place[name] = place
            self._ids[name] = self._read(record, place, name)
            advance(1)
        if not self._ids:
            raise MIVError(f"{path}: no rows. Expected an id and a path, text or vector per row.")
        if self._classes and len(self._classes) < len(set(self._ids.values())):
            raise MIVError(f"{path}: some instances have a class and some do not. Give a class for all or none.")

    def index(self, value: Any, place: str, name: str = "") -> int:
        """Return the number of the instance with the id in a cell."""
        name = parse_id(value, place)
        if name not in self._ids:
            near = get_close_matches(name, self._ids, n=1, cutoff=0.6) if len(self._ids) < 10_000 else []
            suggestion = f" Did you mean {near[0]!r}?" if near else ""
            hint = separator_hint(name) or suggestion
            raise MIVError(f"{place}: {self._path} has no instance with the id {name!r}.{hint}")
        return self._ids[name]

    def pool(self, classes: Sequence[str] | None = None) -> InstancePool:
        """All instances of the table."""
        return super().pool([self._classes[index][0] for index in sorted(self._classes)] or None)

    def _read(self, record: dict[str, Any], place: str, name: str) -> int:
        columns = [column for column in _KIND_OF_COLUMN if not is_blank(record.get(column))]
        if len(columns) != 1:
            names = ", ".join(map(str, record))
            raise MIVError(f"{place}: expected one of path, text and vector besides the id; got {names}.")
        if not self._ids:
            self.kind = _KIND_OF_COLUMN[columns[0]] or self.kind
        index = super().index(record[columns[0]], place, name)
        if not is_blank(record.get("class")):
            named = parse_id(record["class"], place)
            known, known_place = self._classes.setdefault(index, (named, place))
            if known != named:
                raise MIVError(f"{place}: the class is {named!r}, but {known_place} says {known!r}. Remove one.")
        return index


# Read and check the rows of a table of exemplars one by one.


def _column(name: str) -> Any:
    return field(default=name, metadata={"name": f"{name}_column"})


@dataclass(frozen=True)
class Columns:
    """Column names; a column that is renamed must exist.

    Args:
        query: column with the query.
        bag: column with the bag: a list, a JSON list, or a|b|c.
        label: column with the label, 0 or 1.
        witnesses: column with the positions of witnesses in the bag, from 0, or one true or false per instance;
            optional.
        split: column with train, validation or test; optional.
        group: column to group results by; optional.
        query_id: column with an id shared by equivalent queries, which stay in one split; optional.
        references: column with a list of reference instances; replaces or extends the query; optional.
    """

    query: str = _column("query")
    bag: str = _column("bag")
    label: str = _column("label")
    witnesses: str = _column("witnesses")
    split: str = _column("split")
    group: str = _column("group")
    query_id: str = _column("query_id")
    references: str = _column("references")

    @property
    def required(self) -> tuple[str | tuple[str, ...], ...]:
        """The columns that a table must have; of the first two names, one is enough."""
        renamed = [name for name in astuple(self) if name not in astuple(Columns())]
        return ((self.query, self.references), self.bag, self.label, *renamed)


class Rows:
    """The exemplars read so far, as indices into the pool, with the other columns."""

    def __init__(self, table: Path | str, columns: Columns) -> None:
        self._table = table
        self._columns = columns
        self._references: list[list[int]] = []
        self._bags: list[list[int]] = []
        self._labels: list[int] = []
        self._witnesses: list[list[bool]] = []
        self._marked: list[bool] = []  # whether the cell of the witnesses is not empty
        self._optional: dict[str, list[str]] = {columns.split: [], columns.group: [], columns.query_id: []}
        self._contradictions: dict[int, str] = {}
        self._own_queries: list[str] = []

    def read(self, record: dict[str, Any], place: str, source: PoolBuilder) -> None:
        """Read one row."""
        columns = self._columns
        if not self._references:
            self._warn_of_misspelt_columns(record)
        label = parse_label(record[columns.label], place)
        cells = reference_cells(record, columns.query, columns.references, place)
        references = [source.index(cell, f"{place}, query") for cell in cells]
        bag = [source.index(cell, f"{place}, bag") for cell in parse_list(record[columns.bag], "bag", place)]
        if not bag:
            raise MIVError(f"{place}: the bag is empty. Expected at least one instance. Add one, or remove the row.")
        witnesses = parse_witnesses(record.get(columns.witnesses), len(bag), place)
        if any(witnesses) != bool(label):
            self._contradictions[len(self._bags)] = place
        if not set(references).isdisjoint(bag):
            self._own_queries.append(place)
        self._references.append(references)
        self._bags.append(bag)
        self._labels.append(label)
        self._witnesses.append(witnesses)
        self._marked.append(not is_blank(record.get(columns.witnesses)))
        for name, values in self._optional.items():
            self._read_optional(name, record.get(name), values, place)

    @property
    def query_ids(self) -> list[str] | None:
        """The id of each query, if the table has that column."""
        return self._optional[self._columns.query_id] or None

    def splits(self) -> dict[str, NDArray[np.int64]] | None:
        """The exemplar numbers of each split, if the table has that column."""
        names = self._optional[self._columns.split]
        return {split: np.flatnonzero(np.array(names) == split) for split in SPLITS} if names else None

    def marks_witnesses(self, rows: NDArray[np.int64]) -> bool:
        """Whether any of these rows names witnesses; if none does, they are unknown there, not absent."""
        return bool(np.array(self._marked)[rows].any())

    def exemplars(self, source: PoolBuilder) -> ExemplarSet:
        """All rows as one set."""
        if not self._references:
            raise MIVError(f"{self._table}: no rows. Expected one exemplar per row.")
        splits = (self.splits() or {"all": np.arange(len(self._bags))}).values()
        known = {row for rows in splits if self.marks_witnesses(rows) for row in rows.tolist()}
        contradictions = [place for row, place in self._contradictions.items() if row in known]
        doubtful = {"a label that contradicts their witnesses": contradictions}
        for what, places in (doubtful | {"their query in their own bag": self._own_queries}).items():
            if places:
                warn(f"{number_of(len(places), 'row')} with {what}, first {places[0]}; see `miv data inspect`.")
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
            same = [name for name in names if name != column and name.casefold() == column.strip().casefold()]
            if same and same[0] in record and column not in names:
                warn(f"{self._table}: there are the columns {same[0]!r} and {column!r}. Only {same[0]!r} is used.")
                continue
            missing = [name for name in names if name not in record]
            near = get_close_matches(column, missing, n=1, cutoff=0.75) if column not in names else []
            if near:
                warn(f"{self._table}: the column {column!r} is not used. Did you mean {near[0]!r}?")


_KIND_NAMES: Any = Literal.__getitem__(tuple(KINDS))  # a choice on the command line
SplitBy = Literal["instances", "query", "group"]


@dataclass(frozen=True)
class FromTable:
    """Exemplars from a CSV, JSON lines or Parquet file with one exemplar per row.

    Args:
        table: a .csv, .tsv, .jsonl or .parquet file.
        instances: table with id, one of path, text or vector, and optionally class; queries and bags then contain ids.
        kind: kind of instance.
        split_by: without a split column, what to keep within one split: an instance (and a query id), a query (its id,
            else its class, else its instances), or a group.
        seed: random seed for assigning the splits.
    """

    table: Path
    instances: Path | None = None
    kind: InstanceKind | None = field(
        default=None, metadata={"shown": "inferred from the first instance", "type": _KIND_NAMES | None}
    )
    images: ImageForm = field(default_factory=ImageForm)
    columns: Columns = field(default_factory=Columns)
    shares: Shares = field(default_factory=Shares)
    split_by: SplitBy = "instances"
    seed: int = field(default=0, metadata={"least": 0})

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", Path(self.table))
        if self.instances is not None:
            object.__setattr__(self, "instances", Path(self.instances))
        if self.kind is not None:
            kind_named(self.kind)
        if self.split_by not in get_args(SplitBy):
            raise unknown_name("split_by value", self.split_by, get_args(SplitBy))

    def build(self, progress: Progress) -> dict[str, ExemplarSet]:
        """Build the sets by split."""
        exemplars, rows = self.read(progress)
        numbers = rows.splits() or self._deal_out(exemplars, rows)
        filled = {split: chosen for split, chosen in numbers.items() if len(chosen)}
        sets = {split: exemplars.subset(chosen).compact() for split, chosen in filled.items()}
        for split, chosen in filled.items():  # witnesses may be known in some splits only, such as test
            if not rows.marks_witnesses(chosen):
                sets[split] = replace(sets[split], witness=None)
        _warn_of_shared(exemplars, filled)
        return sets

    def read(self, progress: Progress) -> tuple[ExemplarSet, Rows]:
        """Read the rows of all splits as one set; also return the other columns."""
        source: PoolBuilder = CellInstances(self.table.parent, self.kind, self.images)
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
                f"{self.table}: the exemplars cannot be split by {self.split_by}: {', '.join(empty)} would be empty, "
                "because shared values link nearly all exemplars. Split by something else (--split-by query or group), "
                f"add a column {self.columns.split!r}, or disable splits (--validation 0 --test 0)."
            )
        total, shares = len(exemplars), self.shares.by_split()
        small = any(len(chosen) < shares[split] * total / 2 for split, chosen in numbers.items())
        remedy = " Shared values link many exemplars: add that column, or use another --split-by." * small
        sizes = ", ".join(f"{len(chosen)} {split}" for split, chosen in numbers.items())
        by_class = self.split_by == "query" and rows.query_ids is None and exemplars.pool.classes is not None
        by = "class of the query" if by_class else self.split_by
        warn(f"{self.table} has no column {self.columns.split!r}; split by {by}: {sizes}.{remedy}")
        shared = sum(len(exemplars.subset(chosen).used) for chosen in numbers.values()) - len(exemplars.used)
        if shared:
            warn(f"{number_of(shared, 'instance')} in more than one split; see `miv data inspect`.")
        return numbers

    def _clusters(self, exemplars: ExemplarSet, rows: Rows) -> Any:
        """``(E,)`` a number per exemplar; exemplars with equal numbers must stay together."""
        if self.split_by == "group":
            if exemplars.group is None:
                raise MIVError(f"{self.table}: there is no column {self.columns.group!r} to split by.")
            return np.unique(exemplars.group.astype(str), return_inverse=True)[1]
        names = rows.query_ids
        if self.split_by == "query":
            return query_groups(exemplars) if names is None else np.unique(names, return_inverse=True)[1]
        reference_ptr, references = exemplars.all_references
        node, owner = [references, exemplars.bag_index], [csr.owners(reference_ptr), exemplars.owner]
        nodes = len(exemplars.pool)
        if names is not None:  # a query id is an extra node shared by its exemplars
            ids, numbers = np.unique(names, return_inverse=True)
            node, owner = [*node, nodes + numbers], [*owner, np.arange(len(names))]
            nodes += len(ids)
        owners = np.concatenate(owner)
        ptr = csr.borders(np.bincount(owners))
        return connected(ptr, np.concatenate(node)[np.argsort(owners, kind="stable")], nodes)


def _warn_of_shared(exemplars: ExemplarSet, numbers: dict[str, NDArray[np.int64]]) -> None:
    """Warn of exemplars with equal instances in two splits: what is measured on them is too good."""
    splits: dict[tuple[bytes, bytes], dict[str, int]] = {}
    for split, chosen in numbers.items():
        for number in chosen.tolist():
            parts = (np.sort(exemplars.references(number)), np.sort(exemplars.bag(number)))
            splits.setdefault((parts[0].tobytes(), parts[1].tobytes()), {}).setdefault(split, number)
    shared = [known for known in splits.values() if len(known) > 1]
    if shared:
        example = " and ".join(f"row {number + 1} ({split})" for split, number in shared[0].items())
        count = number_of(len(shared), "exemplar")
        warn(f"{count} in more than one split, such as {example}. Keep each in one split only.")


def splits_from_table(table: str | PathLike[str], **options: Any) -> dict[str, ExemplarSet]:
    """Read exemplars from a table, by split. The options are the flags of ``miv data from-table``."""
    return from_options(FromTable, {"table": table, **options}).build(SilentProgress())
