"""Divide exemplars into partitions that any process can read and score alone: a row of a file, a count, and a hash."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from miv.data.folder import NAME as MANIFEST_NAME
from miv.errors import MIVError
from miv.files.images import Fit
from miv.files.instances import is_file
from miv.files.tables import TABLE_SUFFIXES, Record, RowStart, read_records_from
from miv.files.weights import hash_of_file
from miv.runtime import Advance, Progress
from miv.verifier.network import Verifier
from miv.verifier.table_reading import REQUIRED, Survey, exemplar_rows, instances_by_id
from miv.verifier.table_writing import RowScoring, VerdictTally, table_writer
from miv.verifier.verdict import WitnessMethod
from miv.verifier.verifying import BatchVerifier

NOTE = "miv.score"  # key of what a partition's file says about itself
_SCORED_SINCE = "0.2.0"  # first version of miv with these verdicts; raise it when a column changes


@dataclass(frozen=True)
class Partition:
    """Consecutive exemplars of one file."""

    number: int  # names its output
    source: str  # the table
    start: RowStart  # where its first row begins
    first: int  # number of its first exemplar among those of all partitions
    count: int  # of exemplars
    digest: str  # SHA-256 of its rows


@dataclass(frozen=True)
class ScoreSettings:
    """Everything that a process needs besides the partitions."""

    model: str
    out: str
    fingerprint: str  # of the verifier, see ``fingerprint_of``
    rows: int  # maximum number of exemplars per partition
    kept: list[str]  # columns of the table to copy
    resize: Fit | None
    witnesses: WitnessMethod | None
    instances: str | None  # table of instances by id, if queries and bags contain ids
    instances_digest: str | None  # SHA-256 of that table
    files_below: str  # the folders that paths in the tables are relative to
    device: str | None  # of torch; by default the processor

    def decisive(self) -> dict[str, Any]:
        """What the verdicts of equal rows depend on: the settings, and the version of miv that last changed them."""
        elsewhere = ("model", "out", "instances", "device")  # names and hardware; contents have their hashes
        chosen = {name: value for name, value in asdict(self).items() if name not in elsewhere}
        return {"scored_since": _SCORED_SINCE, **chosen}

    def key(self, partition: Partition) -> str:
        """Equal if the output of a partition would be equal."""
        made_of = [self.decisive(), partition.first, partition.count, partition.digest]
        return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()

    def file(self, partition: Partition) -> Path:
        return Path(self.out) / f"part-{partition.number:06d}.parquet"

    def tally(self, partition: Partition) -> VerdictTally | None:
        """The counts of a partition; ``None`` unless its file is whole, and of these rows and settings."""
        note = note_of(self.file(partition))
        return VerdictTally(**note) if note is not None and note.pop("key", None) == self.key(partition) else None

    def is_done(self, partition: Partition) -> bool:
        return self.tally(partition) is not None


def note_of(path: Path) -> dict[str, Any] | None:
    """What a partition's file says about itself; empty if it is of another program, ``None`` if missing or damaged."""
    from miv.files.parquet import pa, pq

    try:
        note: dict[str, Any] = json.loads((pq.read_metadata(path).metadata or {}).get(NOTE.encode(), b"{}"))
        return note
    except (OSError, ValueError, pa.ArrowInvalid):
        return None


def tables_of(source: Path) -> list[Path]:
    """The tables of a folder, or the one that is named."""
    if not source.is_dir():
        return [source]
    tables = sorted(path for path in source.iterdir() if path.suffix.lower() in TABLE_SUFFIXES)
    if not tables or is_file(source / MANIFEST_NAME):
        wanted = f"a folder of {', '.join(sorted(TABLE_SUFFIXES))} files with one row per exemplar"
        raise MIVError(f"{source} has no such tables. Expected {wanted}. For a saved set, use `miv evaluate`.")
    return tables


def plan_partitions(source: Path, rows: int, survey: Survey, progress: Progress) -> list[Partition]:
    """Read and check everything once, and divide it."""
    partitions: list[Partition] = []
    with progress.step("Reading exemplars") as advance:
        for table in tables_of(source):
            records = read_records_from(table, REQUIRED, RowStart())
            while (first := next(records, None)) is not None:
                count, digest = survey.count, hashlib.sha256()
                for _, place, record in chain([first], islice(records, rows - 1)):
                    survey.add(place, record)
                    _add(digest, record)
                size, number = survey.count - count, len(partitions)
                partitions.append(Partition(number, str(table), first[0], count, size, digest.hexdigest()))
                advance(size)
    if not partitions:
        raise MIVError(f"{source}: no rows. Expected one row per exemplar.")
    return partitions


class PartitionScorer:
    """Scores partitions with one verifier, loaded once."""

    def __init__(self, settings: ScoreSettings) -> None:
        self.settings = settings
        self.verifier = Verifier.from_pretrained(settings.model, device=settings.device)
        if fingerprint_of(self.verifier) != settings.fingerprint:
            raise MIVError(f"{settings.model} has changed. Run the same command again.")
        table, kind = settings.instances, self.verifier.backbone.kind
        self._known = None if table is None else instances_by_id(Path(table), kind)

    def score(self, partition: Partition, advance: Advance = lambda units: None) -> VerdictTally:
        """Write the file of a partition, whole or not at all, and return its counts."""
        settings = self.settings
        verifying = BatchVerifier(self.verifier, settings.resize, settings.witnesses)  # keeps features of a partition
        scoring = RowScoring(verifying, settings.kept)
        folder, kind = Path(partition.source).parent, self.verifier.backbone.kind
        rows = exemplar_rows(_checked(partition), folder, self._known, kind, settings.kept)

        def notes() -> dict[str, str]:
            return {NOTE: json.dumps({"key": settings.key(partition), **vars(scoring.tally)})}

        with table_writer(settings.file(partition), scoring.schema, notes) as write:
            scoring.score(rows, partition.first, write, advance)
        return scoring.tally


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
    records = read_records_from(Path(partition.source), REQUIRED, partition.start)
    for _, place, record in islice(records, partition.count):
        _add(digest, record)
        count += 1
        yield place, record
    if count != partition.count or digest.hexdigest() != partition.digest:
        raise MIVError(f"{partition.source} has changed. Run the same command again.")


def _add(digest: "hashlib._Hash", record: dict[str, Any]) -> None:
    digest.update(repr(record).encode("utf-8", "backslashreplace"))
