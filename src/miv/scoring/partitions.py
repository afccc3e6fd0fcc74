"""Divide exemplars into partitions that any worker can read alone: a place in a file, a count, and a hash."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from miv.backbones.features import Features
from miv.data import ExemplarSet, InstanceKind, InstancePool
from miv.data.folder import TABLE
from miv.data.manifest import NAME as MANIFEST_NAME
from miv.errors import MIVError
from miv.files.atomic import sha256_of
from miv.files.instances import is_file
from miv.files.tables import TABLE_SUFFIXES, Record, RowStart, parse_id, read_records, read_records_from
from miv.runtime import Progress
from miv.verifier.reading import KIND_WORDS, GivenPlaces
from miv.verifier.table_reading import REQUIRED, ExemplarRow, Named, Survey, exemplar_rows, instances_of
from miv.verifier.verifying import Verifying

_REMEDY = "Give the verifier that was trained on such a set."


def check_first_exemplar(table: Path, verifying: Verifying) -> None:
    """Raise an error unless the verifier can read the first exemplar of a table without ids."""
    verifier = verifying.verifier
    records = islice(read_records(table, REQUIRED), 1)
    for row in exemplar_rows(records, table.parent, None, verifier.backbone.kind, verifier.query_kind, []):
        places = GivenPlaces([row.place])
        if verifier.query_backbone is None:
            for one in row.query:
                verifying.check(one.instance, places.query(0))
        verifying.check(row.bag[0].instance, places.member(0, 0))


def check_first_instance(table: Path, verifying: Verifying) -> None:
    """Raise an error unless the verifier can read the first row of a table of instances by id."""
    for place, record in islice(read_records(table, ["id"]), 1):
        parse_id(record["id"], place)
        for one in instances_of(record, table.parent, verifying.verifier.backbone.kind, place):
            verifying.check(one.instance, f"{place}: the instance")
        return
    raise MIVError(f"{table}: no rows. Expected one row per instance.")


def check_pool(folder: Path, pool: InstancePool, verifying: Verifying) -> None:
    """Raise an error unless the verifier can read the instances of a set."""
    backbone = verifying.verifier.backbone
    if pool.kind != backbone.kind:
        raise MIVError(
            f"{folder} is a set of {KIND_WORDS[pool.kind]}s, and the verifier reads {KIND_WORDS[backbone.kind]}s. "
            f"{_REMEDY}"
        )
    if isinstance(backbone, Features) and pool.values.shape[1] != backbone.channels:
        raise MIVError(
            f"The vectors in {folder} have {pool.values.shape[1]} numbers, and the verifier reads vectors of "
            f"{backbone.channels}. {_REMEDY}"
        )
    is_colour = pool.kind == "image" and pool.values.ndim == 4
    if is_colour and verifying.verifier.instances is None and backbone.instance_shape[:1] == (1,):
        raise MIVError(f"{folder} is a set of colour images, and the verifier reads grey images. {_REMEDY}")
    verifying.check(np.asarray(pool.values[0]) if pool.kind != "text" else pool.values[0], f"{folder}, instance 0")


@dataclass(frozen=True)
class Partition:
    """Consecutive exemplars of one file.

    Args:
        number: its number, which names its output.
        source: the table, or the folder of an exemplar set.
        before: where its first row begins, see ``RowStart``; in an exemplar set, the exemplars before it.
        lines: lines before its first row.
        first: number of its first exemplar among those of all partitions.
        count: number of exemplars.
        digest: SHA-256 of its rows.
    """

    number: int
    source: str
    before: int
    lines: int
    first: int
    count: int
    digest: str


@dataclass(frozen=True)
class ScorePlan:
    """What is scored.

    Args:
        source: the table, the folder of tables, or the folder of an exemplar set.
        partitions: all partitions.
        kept: columns to copy to the output.
        odd_label: the first label that is neither 0 nor 1.
    """

    source: str
    partitions: list[Partition]
    kept: list[str]
    odd_label: str | None

    @property
    def exemplars(self) -> int:
        """Number of exemplars."""
        return sum(one.count for one in self.partitions)


def plan_partitions(
    source: Path, rows: int, verifying: Verifying, progress: Progress, *, instances: Path | None = None
) -> ScorePlan:
    """Read everything once, and divide it; first see whether the verifier can read the first instances.

    Args:
        source: a table as for ``miv verify --bags``, a folder of such tables, or the folder of an exemplar set.
        rows: maximum number of exemplars per partition. A partition never spans two files.
        verifying: with the verifier that will read them.
        progress: reports the progress of reading.
        instances: table of instances by id, if queries and bags contain ids.
    """
    if is_set(source):
        return _plan_of_set(source, rows, verifying)
    survey, tables = Survey(), tables_of(source)
    if instances is not None:
        check_first_instance(instances, verifying)
    else:
        check_first_exemplar(tables[0], verifying)
    partitions: list[Partition] = []
    with progress.step("Reading exemplars") as advance:
        for table in tables:
            for partition in _divided(table, rows, survey, len(partitions)):
                partitions.append(partition)
                advance(partition.count)
    if not partitions:
        raise MIVError(f"{source}: no rows. Expected one row per exemplar.")
    return ScorePlan(str(source), partitions, survey.kept, survey.odd_label)


def is_set(source: Path) -> bool:
    """Whether a path is the folder of an exemplar set."""
    return is_file(source / TABLE) and is_file(source / MANIFEST_NAME)


def tables_of(source: Path) -> list[Path]:
    """The tables of a folder, or the one that is named."""
    if not source.is_dir():
        return [source]
    found = sorted(path for path in source.iterdir() if path.suffix.lower() in TABLE_SUFFIXES)
    splits = sorted(str(folder) for folder in source.iterdir() if is_set(folder))
    if splits:
        what = "several splits. Expected one of them" if len(splits) > 1 else "one split of a set. Expected its folder"
        tables = f" To score {found[0].name}, name this file." if found else ""
        raise MIVError(f"{source} has {what}: {', '.join(splits)}.{tables}")
    if not found:
        raise MIVError(
            f"{source} has no tables. Expected a folder of {', '.join(sorted(TABLE_SUFFIXES))} files with one row per "
            "exemplar, or one split of a set that `miv data` saved."
        )
    return found


def _divided(table: Path, rows: int, survey: Survey, number: int) -> Iterator[Partition]:
    records = read_records_from(table, REQUIRED, RowStart())
    while True:
        first, start, digest = survey.count, None, hashlib.sha256()
        for began, place, record in islice(records, rows):
            start = start or began
            survey.add(place, record)
            digest.update(_as_bytes(record))
        if start is None:
            return
        yield Partition(number, str(table), *start, first, survey.count - first, digest.hexdigest())
        number += 1


def _as_bytes(record: object) -> bytes:
    return repr(record).encode("utf-8", "backslashreplace")


def _plan_of_set(folder: Path, rows: int, verifying: Verifying) -> ScorePlan:
    exemplars, manifest = ExemplarSet.load(folder), sha256_of(folder / MANIFEST_NAME)  # it has the hashes of all files
    check_pool(folder, exemplars.pool, verifying)
    partitions = [
        Partition(number, str(folder), first, 0, first, min(rows, len(exemplars) - first), f"{manifest} {first}")
        for number, first in enumerate(range(0, len(exemplars), rows))
    ]
    known = {"query_id": exemplars.query_id, "group": exemplars.group, "label": exemplars.label}
    return ScorePlan(str(folder), partitions, [name for name, column in known.items() if column is not None], None)


class PartitionReader:
    """Reads the rows of partitions; a set is opened once.

    Args:
        kind: kind of the instances of bags.
        query_kind: kind of the queries.
        known: instances by id, if queries and bags contain ids.
        kept: columns to copy.
    """

    def __init__(
        self, kind: InstanceKind, query_kind: InstanceKind, known: dict[str, Named] | None, kept: list[str]
    ) -> None:
        self._kind, self._query_kind, self._known, self._kept = kind, query_kind, known, kept
        self._sets: dict[str, ExemplarSet] = {}

    def rows(self, partition: Partition) -> Iterator[ExemplarRow]:
        """The rows of a partition; an error if they are not those that were planned."""
        path = Path(partition.source)
        if is_set(path):
            yield from self._rows_of_set(partition)
            return
        kinds = self._kind, self._query_kind
        yield from exemplar_rows(_checked(partition), path.parent, self._known, *kinds, self._kept)

    def _rows_of_set(self, partition: Partition) -> Iterator[ExemplarRow]:
        folder = Path(partition.source)
        if partition.source not in self._sets:
            self._sets[partition.source] = ExemplarSet.load(folder)
        exemplars = self._sets[partition.source]
        if not partition.digest.startswith(sha256_of(folder / MANIFEST_NAME)):
            raise _changed(partition.source)
        pool, values = exemplars.pool, np.asarray(exemplars.pool.values)  # a row of an np.memmap costs far more

        def named(row: int) -> Named:
            name, value = "" if pool.names is None else str(pool.names[row]), values[row]
            return Named(name or (str(value) if pool.kind == "text" else str(row)), value)

        for number in range(partition.before, partition.before + partition.count):
            kept: dict[str, str | None] = {name: str(getattr(exemplars, name)[number]) for name in self._kept}
            asked, bag = exemplars.references(number), exemplars.bag(number)
            place = f"{folder}, exemplar {number}"
            yield ExemplarRow(place, [named(row) for row in asked.tolist()], [named(row) for row in bag.tolist()], kept)


def _checked(partition: Partition) -> Iterator[Record]:
    """The rows as they were when the partitions were planned; else an error, after the last of them."""
    digest, count = hashlib.sha256(), 0
    records = read_records_from(Path(partition.source), REQUIRED, RowStart(partition.before, partition.lines))
    for _, place, record in islice(records, partition.count):
        digest.update(_as_bytes(record))
        count += 1
        yield place, record
    if count != partition.count or digest.hexdigest() != partition.digest:
        raise _changed(partition.source)


def _changed(source: str) -> MIVError:
    return MIVError(
        f"{source} is not as it was when it was divided: it was changed since, or another machine has another file "
        "under this name. Run the same command again; unchanged partitions are not scored again."
    )
