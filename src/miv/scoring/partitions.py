"""Divide exemplars into partitions that any worker can read and score alone: a row of a file, a count, and a hash."""

import hashlib
import json
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from miv.backbones.descriptors import Features
from miv.data import ExemplarSet, InstancePool
from miv.data.folder import NAME as MANIFEST_NAME
from miv.data.folder import TABLE
from miv.data.kinds import KINDS
from miv.errors import MIVError
from miv.files.atomic import sha256_of
from miv.files.images import Fit
from miv.files.instances import is_file
from miv.files.tables import TABLE_SUFFIXES, Record, RowStart, parse_id, read_records, read_records_from
from miv.files.weights import hash_of_file
from miv.runtime import Advance, Progress
from miv.verifier.network import Verifier
from miv.verifier.reading import ErrorLocations
from miv.verifier.table_reading import (
    REQUIRED,
    ExemplarRow,
    Named,
    Survey,
    exemplar_rows,
    instances_by_id,
    instances_of,
)
from miv.verifier.table_writing import RowScoring, VerdictTally, table_writer
from miv.verifier.verdict import WitnessMethod
from miv.verifier.verifying import BatchVerifier

NOTE = "miv.score"  # key of what a partition's file says about itself
_SCORED_SINCE = "0.2.0"  # first version of miv with these verdicts; raise it when a column changes


@dataclass(frozen=True)
class Partition:
    """Consecutive exemplars of one file."""

    number: int  # names its output
    source: str  # the table, or the folder of an exemplar set
    before: int  # where its first row begins, see ``RowStart``; in an exemplar set, the exemplars before it
    lines: int  # before its first row
    first: int  # number of its first exemplar among those of all partitions
    count: int  # of exemplars
    digest: str  # SHA-256 of its rows


@dataclass(frozen=True)
class ScorePlan:
    """What is scored: all partitions, the columns to copy, and the first label that is neither 0 nor 1."""

    source: str
    partitions: list[Partition]
    kept: list[str]
    odd_label: str | None


def plan_partitions(
    source: Path, rows: int, verifying: BatchVerifier, progress: Progress, *, instances: Path | None = None
) -> ScorePlan:
    """Read everything once, and divide it; first see whether the verifier can read the first instances."""
    if is_set(source):
        return _plan_of_set(source, rows, verifying)
    survey, tables = Survey(), tables_of(source)
    if instances is not None:
        _check_first_instance(instances, verifying)
    else:
        _check_first_exemplar(tables[0], verifying)
    partitions: list[Partition] = []
    with progress.step("Reading exemplars") as advance:
        for table in tables:
            for partition in _divided(table, rows, survey, len(partitions)):
                partitions.append(partition)
                advance(partition.count)
    if not partitions:
        raise MIVError(f"{source}: no rows. Expected one row per exemplar.")
    return ScorePlan(str(source), partitions, survey.copied, survey.odd_label)


def is_set(source: Path) -> bool:
    """Whether a path is the folder of an exemplar set."""
    return is_file(source / TABLE) and is_file(source / MANIFEST_NAME)


def tables_of(source: Path) -> list[Path]:
    """The tables of a folder, or the one that is named."""
    if not source.is_dir():
        return [source]
    tables = sorted(path for path in source.iterdir() if path.suffix.lower() in TABLE_SUFFIXES)
    splits = sorted(str(folder) for folder in source.iterdir() if is_set(folder))
    if splits:
        hint = f" To score {tables[0].name}, name this file." if tables else ""
        raise MIVError(f"{source} has splits of a set. Expected one of them: {', '.join(splits)}.{hint}")
    if not tables:
        wanted = f"a folder of {', '.join(sorted(TABLE_SUFFIXES))} files with one row per exemplar"
        raise MIVError(f"{source} has no tables. Expected {wanted}, or one split of a set that `miv data` saved.")
    return tables


def _divided(table: Path, rows: int, survey: Survey, number: int) -> Iterator[Partition]:
    records = read_records_from(table, REQUIRED, RowStart())
    while True:
        first, start, digest = survey.count, None, hashlib.sha256()
        for began, place, record in islice(records, rows):
            start = start or began
            survey.add(place, record)
            digest.update(repr(record).encode("utf-8", "backslashreplace"))
        if start is None:
            return
        yield Partition(number, str(table), *start, first, survey.count - first, digest.hexdigest())
        number += 1


def _plan_of_set(folder: Path, rows: int, verifying: BatchVerifier) -> ScorePlan:
    exemplars, manifest = ExemplarSet.load(folder), sha256_of(folder / MANIFEST_NAME)  # it has the hashes of all files
    _check_pool(folder, exemplars.pool, verifying)
    partitions = [
        Partition(number, str(folder), first, 0, first, min(rows, len(exemplars) - first), f"{manifest} {first}")
        for number, first in enumerate(range(0, len(exemplars), rows))
    ]
    known = {"query_id": exemplars.query_id, "group": exemplars.group, "label": exemplars.label}
    return ScorePlan(str(folder), partitions, [name for name, column in known.items() if column is not None], None)


def _check_first_exemplar(table: Path, verifying: BatchVerifier) -> None:
    verifier = verifying.verifier
    records = islice(read_records(table, REQUIRED), 1)
    for row in exemplar_rows(records, table.parent, None, verifier.backbone.kind, []):
        places = ErrorLocations([row.place])
        for reference in row.query:
            verifying.check(reference.instance, places.query(0))
        verifying.check(row.bag[0].instance, places.member(0, 0))


def _check_first_instance(table: Path, verifying: BatchVerifier) -> None:
    first = next(iter(read_records(table, ["id"])), None)
    if first is None:
        raise MIVError(f"{table}: no rows. Expected one row per instance.")
    place, record = first
    parse_id(record["id"], place)
    for named in instances_of(record, table.parent, verifying.verifier.backbone.kind, place):
        verifying.check(named.instance, f"{place}: the instance")


def _check_pool(folder: Path, pool: InstancePool, verifying: BatchVerifier) -> None:
    verifier, set_of, reads = verifying.verifier, f"{KINDS[pool.kind].words}s", ""
    backbone = verifier.backbone
    if pool.kind != backbone.kind:
        reads = f"{KINDS[backbone.kind].words}s"
    elif isinstance(backbone, Features) and pool.values.shape[1] != backbone.channels:
        set_of, reads = f"vectors of {pool.values.shape[1]}", f"vectors of {backbone.channels}"
    elif pool.values.ndim == 4 and verifier.instances is None and backbone.instance_shape[:1] == (1,):
        set_of, reads = "colour images", "grey images"
    if reads:
        raise MIVError(f"{folder} is a set of {set_of}, and the verifier reads {reads}. Give another verifier.")
    verifying.check(np.asarray(pool.values[0]) if pool.kind != "text" else pool.values[0], f"{folder}, instance 0")


@dataclass(frozen=True)
class ScoreSettings:
    """Everything that a worker needs besides its partitions; names mean the same on every machine."""

    model: str
    out: str
    fingerprint: str  # of the verifier, see ``fingerprint_of``
    kept: list[str]  # columns of the table to copy
    by_instance: bool  # write one row per instance instead of one per exemplar
    resize: Fit | None
    witnesses: WitnessMethod | None
    instances: str | None  # table of instances by id, if queries and bags contain ids
    instances_digest: str | None  # SHA-256 of that table
    files_below: str | None  # the folders that paths in the tables are relative to; ``None`` for an exemplar set
    cores: int | None  # threads of a worker; ``None`` leaves them as they are
    gpus: float  # share of a GPU of a worker; 0 computes on the processor

    def decisive(self) -> dict[str, Any]:
        """What the verdicts of equal rows depend on: the settings, and the version of miv that last changed them."""
        elsewhere = ("model", "out", "instances", "cores", "gpus")  # names and hardware; contents have their hashes
        chosen = {name: value for name, value in asdict(self).items() if name not in elsewhere}
        return {"scored_since": _SCORED_SINCE, **chosen}

    def key(self, partition: Partition) -> str:
        """Equal if the output of a partition would be equal."""
        made_of = [self.decisive(), partition.first, partition.count, partition.digest]
        return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()

    def file(self, partition: Partition) -> Path:
        return Path(self.out) / f"part-{partition.number:06d}.parquet"


class PartitionScorer:
    """Scores partitions with one verifier, loaded once."""

    def __init__(self, settings: ScoreSettings, verifier: Verifier | None = None) -> None:
        if settings.cores is not None:
            torch.set_num_threads(settings.cores)
        if verifier is None:
            verifier = Verifier.from_pretrained(settings.model, device="cuda" if settings.gpus else None)
            if fingerprint_of(verifier) != settings.fingerprint:
                raise MIVError(f"{settings.model} is another verifier on {platform.node()}. Copy it there again.")
        self.settings, self.verifier = settings, verifier
        self._known: dict[str, Named] | None = None
        if settings.instances is not None:
            if sha256_of(Path(settings.instances)) != settings.instances_digest:
                raise MIVError(f"{settings.instances} is another file on {platform.node()}. Copy it there again.")
            self._known = instances_by_id(Path(settings.instances), verifier.backbone.kind)
        self._set: ExemplarSet | None = None  # opened once

    def score(self, partition: Partition, advance: Advance = lambda units: None) -> VerdictTally:
        """Write the file of a partition, whole or not at all, and return its counts."""
        settings = self.settings
        verifying = BatchVerifier(self.verifier, settings.resize, settings.witnesses)  # keeps features of a partition
        scoring = RowScoring(verifying, settings.kept, settings.by_instance)

        def notes() -> dict[str, str]:
            return {NOTE: json.dumps({"key": settings.key(partition), **vars(scoring.tally)})}

        with table_writer(settings.file(partition), scoring.schema, notes) as write:
            scoring.score(self._rows(partition), partition.first, write, advance)
        return scoring.tally

    def _rows(self, partition: Partition) -> Iterator[ExemplarRow]:
        """The rows of a partition; an error if they are not those that were planned."""
        path, kind = Path(partition.source), self.verifier.backbone.kind
        if is_set(path):
            return self._rows_of_set(partition)
        return exemplar_rows(_checked(partition), path.parent, self._known, kind, self.settings.kept)

    def _rows_of_set(self, partition: Partition) -> Iterator[ExemplarRow]:
        folder = Path(partition.source)
        if self._set is None:
            self._set = ExemplarSet.load(folder)
        exemplars = self._set
        if not partition.digest.startswith(sha256_of(folder / MANIFEST_NAME)):
            raise _changed(partition.source)
        pool, values = exemplars.pool, np.asarray(exemplars.pool.values)  # a row of an np.memmap costs far more

        def named(row: int) -> Named:
            name, value = "" if pool.names is None else str(pool.names[row]), values[row]
            return Named(name or (str(value) if pool.kind == "text" else str(row)), value)

        for number in range(partition.before, partition.before + partition.count):
            kept: dict[str, str | None] = {name: str(getattr(exemplars, name)[number]) for name in self.settings.kept}
            query, bag = exemplars.references(number).tolist(), exemplars.bag(number).tolist()
            yield ExemplarRow(f"{folder}, exemplar {number}", list(map(named, query)), list(map(named, bag)), kept)


def fingerprint_of(verifier: Verifier) -> str:
    """Equal if equal exemplars get equal verdicts: the hash of everything that is saved with a verifier."""
    digest = hashlib.sha256()
    with TemporaryDirectory() as folder:
        verifier.save_pretrained(folder)
        for path in sorted(Path(folder).iterdir()):
            if path.suffix != ".md":
                digest.update(f"{path.name} {hash_of_file(path)} ".encode())
    return digest.hexdigest()


def _checked(partition: Partition) -> Iterator[Record]:
    """The rows as they were when the partitions were planned; else an error, after the last of them."""
    digest, count = hashlib.sha256(), 0
    records = read_records_from(Path(partition.source), REQUIRED, RowStart(partition.before, partition.lines))
    for _, place, record in islice(records, partition.count):
        digest.update(repr(record).encode("utf-8", "backslashreplace"))
        count += 1
        yield place, record
    if count != partition.count or digest.hexdigest() != partition.digest:
        raise _changed(partition.source)


def _changed(source: str) -> MIVError:
    return MIVError(f"{source} has changed, or another machine has another file there. Run the same command again.")
