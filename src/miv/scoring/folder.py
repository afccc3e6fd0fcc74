"""The output folder of a scoring: one Parquet file per partition, and ``_score.json``, which says what it holds."""

import hashlib
import json
import platform
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from miv.errors import MIVError, needs_extra
from miv.files.atomic import readable_disk_errors, remove_unfinished, sha256_of
from miv.files.images import Fit
from miv.files.json import read_json_object, write_json
from miv.runtime import Advance
from miv.scoring.partitions import Partition, PartitionReader, ScorePlan
from miv.verifier.network import Verifier
from miv.verifier.table_reading import instances_by_id
from miv.verifier.table_writing import RowScoring, Scored, VerdictTally, table_writer
from miv.verifier.verdict import Asked
from miv.verifier.verifying import Verifying

NOTE = "miv.score"  # key of what a partition's file says about itself
_SCORED_SINCE = "0.2.0"  # first version of miv with these verdicts; raise it when a column changes


@dataclass(frozen=True)
class ScoreSettings:
    """Everything that a worker needs besides its partitions.

    Args:
        model: the verifier, under a name that means the same on every machine.
        out: the output folder, likewise.
        fingerprint: of the verifier, see ``fingerprint_of``.
        kept: columns of the table to copy.
        by_instance: write one row per instance instead of one per exemplar.
        resize: as for ``Verifier.verify``.
        witnesses: as for ``Verifier.verify``.
        instances: table of instances by id, if queries and bags contain ids.
        instances_digest: SHA-256 of that table.
        files_below: the folders that paths in the table, and in that of instances, are relative to; ``None`` for an
            exemplar set.
        cores: threads of a worker; ``None`` leaves them as they are.
        gpus: share of a GPU of a worker; 0 computes on the processor.
    """

    model: str
    out: str
    fingerprint: str
    kept: list[str] = field(default_factory=list)
    by_instance: bool = False
    resize: Fit | None = None
    witnesses: Asked | None = None
    instances: str | None = None
    instances_digest: str | None = None
    files_below: str | None = None
    cores: int | None = None
    gpus: float = 0.0

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
        """The output of a partition."""
        return Path(self.out) / f"part-{partition.number:06d}.parquet"


class PartitionScorer:
    """Scores partitions with one verifier, loaded once."""

    def __init__(self, settings: ScoreSettings, verifier: Verifier | None = None) -> None:
        if settings.cores is not None:
            torch.set_num_threads(settings.cores)
        self.settings = settings
        if verifier is None:
            verifier = Verifier.from_pretrained(settings.model, device="cuda" if settings.gpus else None)
            if fingerprint_of(verifier) != settings.fingerprint:
                raise MIVError(f"{settings.model} is another verifier on {platform.node()}. Copy it there again.")
        self.verifier, known = verifier, None
        if settings.instances is not None:
            if sha256_of(Path(settings.instances)) != settings.instances_digest:
                raise MIVError(f"{settings.instances} is another file on {platform.node()}. Copy it there again.")
            known = instances_by_id(Path(settings.instances), verifier.backbone.kind)
        self._reader = PartitionReader(verifier.backbone.kind, verifier.query_kind, known, settings.kept)

    def score(self, partition: Partition, advance: Advance = lambda units: None) -> VerdictTally:
        """Write the file of a partition, whole or not at all, and return its counts."""
        settings = self.settings
        verifying = Verifying(self.verifier, settings.resize, settings.witnesses)  # keeps the features of a partition
        scoring = RowScoring(verifying, settings.kept, settings.by_instance)

        def notes() -> dict[str, str]:
            return {NOTE: json.dumps({"key": settings.key(partition), **vars(scoring.tally)})}

        with table_writer(settings.file(partition), scoring.schema, notes) as write:
            scoring.score(self._reader.rows(partition), partition.first, write, advance)
        return scoring.tally


def fingerprint_of(verifier: Verifier) -> str:
    """Equal if equal exemplars get equal verdicts: the hash of everything that is saved with a verifier."""
    digest = hashlib.sha256()
    with tempfile.TemporaryDirectory() as folder:
        verifier.save_pretrained(folder)
        for path in sorted(Path(folder).iterdir()):
            if path.suffix != ".md":
                digest.update(f"{path.name} {sha256_of(path)} ".encode())
    return digest.hexdigest()


_OPTIONS = {"rows": "--rows", "resize": "--resize", "witnesses": "--witnesses"}


def setting_differences(before: dict[str, Any], now: dict[str, Any], models: tuple[str | None, str]) -> list[str]:
    """What differs, one clause each; see ``ScoreSettings.decisive`` for the names.

    Args:
        before: the settings of the verdicts in the folder.
        now: those of this call.
        models: names of the verifiers, before and now.

    >>> setting_differences({"rows": 5, "resize": None}, {"rows": 6, "resize": "crop"}, ("a", "a"))
    ['--rows was 5 and is now 6', '--resize was not given and is now crop']
    >>> setting_differences({}, {"by_instance": False}, ("a", "a"))
    ['_score.json has no by_instance']
    >>> setting_differences({"scored_since": "0.2.0"}, {"scored_since": "0.3.0"}, ("a", "a"))
    ['they are as miv writes them since version 0.2.0, and it writes others since version 0.3.0']
    """
    other = [(name, value) for name, value in now.items() if before.get(name) != value]
    return [
        _words(name, before[name], value, models) if name in before else f"_score.json has no {name}"
        for name, value in other
    ]


def _words(name: str, before: Any, now: Any, models: tuple[str | None, str]) -> str:
    if name in _OPTIONS:
        return f"{_OPTIONS[name]} was {_given(before)} and is now {_given(now)}"
    if name == "scored_since":
        return f"they are as miv writes them since version {before}, and it writes others since version {now}"
    if name == "fingerprint":
        if models[0] == models[1]:
            return f"the verifier {models[1]} has changed since, in its weights, calibration or configuration"
        return f"the verifier was {models[0] or 'another one'} and is now {models[1]}"
    if name == "by_instance":
        return "--by-instance was not given and now is" if now else "--by-instance was given and now is not"
    if name == "instances_digest":
        if before is None or now is None:
            return f"--instances was {'not given and now is' if before is None else 'given and now is not'}"
        return "the table of --instances has other content"
    if name == "files_below":
        return f"paths in the tables began at {before or 'no folder'} and now begin at {now or 'no folder'}"
    if name == "kept":
        return f"the copied columns were {_listed(before)} and are now {_listed(now)}"
    return f"{name} was {before} and is now {now}"


def _given(value: Any) -> str:
    return "not given" if value is None else str(value)


def _listed(names: Any) -> str:
    return ", ".join(names) if names else "none"


# Names that begin with _ or . are not data for pyarrow, Spark, DuckDB and their like.
DOCUMENT, _LOCK = "_score.json", "_score.lock"
_PARTS = re.compile(r"part-\d{6,}\.parquet")
_FORMAT = "miv-score-1"


class ScoreFolder:
    """Verdicts in a folder. A partition is done if its file exists and has the key of the partition."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from scoring into the folder."""
        with needs_extra("ray", "Scoring into a folder", "filelock"):
            from filelock import FileLock, Timeout
        with readable_disk_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self.path / _LOCK, timeout=0):
                yield
        except Timeout:
            raise MIVError(
                f"Another process is scoring into {self.path}. Wait until it has ended, or choose another --out."
            ) from None

    def check(self, *, overwrite: bool) -> None:
        """Raise an error before the work if the folder holds something else."""
        if self.path.exists() and not self.path.is_dir():
            raise MIVError(f"--out {self.path} is a file. Expected a folder for the verdicts; choose another --out.")
        if not self.path.is_dir() or (self.path / DOCUMENT).is_file():
            return
        foreign = sorted(one.name for one in self.path.iterdir() if one.name != _LOCK)
        if foreign and not overwrite:
            raise MIVError(f"{self.path} holds {foreign[0]}, which is not of `miv score`. Choose another --out.")

    def begin(self, settings: ScoreSettings, plan: ScorePlan, rows: int, *, overwrite: bool) -> int:
        """Record what is scored, and return how many finished partitions are of other rows and will be replaced.

        Different settings, and verdicts of another table, are errors unless ``overwrite`` is true.
        """
        asked = {"rows": rows, **settings.decisive()}
        path, stale = self.path / DOCUMENT, [] if overwrite else self._stale(settings, plan)
        if path.is_file() and not overwrite:
            document = read_json_object(path, "Expected the _score.json of `miv score`.")
            before = document.get("settings")
            if not isinstance(before, dict):
                raise MIVError(
                    f"{path} has no settings, so it does not say what the verdicts beside it are of. Choose another "
                    "--out, or use --overwrite."
                )
            other = setting_differences(before, asked, (document.get("model"), settings.model))
            if other:
                raise MIVError(
                    f"The verdicts in {self.path} are of other settings: {'; '.join(other)}. Choose another --out, or "
                    "use --overwrite."
                )
            if stale and document.get("source") not in (None, plan.source):
                raise MIVError(
                    f"{self.path} has the verdicts of another table, {document['source']}, and now it is "
                    f"{plan.source}. Choose another --out, or use --overwrite."
                )
        known = {settings.file(partition).name for partition in plan.partitions}
        is_ours = {part: _is_ours(part) for part in self._parts()}
        foreign = [part.name for part, ours in is_ours.items() if part.name in known and not ours]
        if foreign:
            raise MIVError(
                f"{self.path} holds {foreign[0]}, which is not of `miv score`, and a partition needs this name. Choose "
                "another --out."
            )
        remove_unfinished(self.path)  # of workers that were killed
        for part, ours in is_ours.items():
            if ours and (overwrite or part.name not in known):  # unknown if the table had more rows
                part.unlink()
        self._write(settings, plan, rows, complete=False)
        return len(stale)

    def _stale(self, settings: ScoreSettings, plan: ScorePlan) -> list[str]:
        """Names of the files that are whole, and not of the rows that their partitions now have."""
        keys = {settings.file(partition).name: settings.key(partition) for partition in plan.partitions}
        notes = ((part.name, _note_of(part)) for part in self._parts())
        return [name for name, note in notes if note is not None and note.get("key") != keys.get(name)]

    def _parts(self) -> list[Path]:
        """What has the name of a partition's file; other programs use such names too."""
        return sorted(one for one in self.path.iterdir() if _PARTS.fullmatch(one.name))

    def finish(self, settings: ScoreSettings, plan: ScorePlan, rows: int, scored: Scored) -> None:
        """Record that everything is done."""
        remove_unfinished(self.path)
        self._write(settings, plan, rows, complete=True, summary=asdict(scored))

    def _write(self, settings: ScoreSettings, plan: ScorePlan, rows: int, **more: Any) -> None:
        counts = {"partitions": len(plan.partitions), "exemplars": plan.exemplars}
        asked = {"rows": rows, **settings.decisive()}
        write_json(
            self.path / DOCUMENT,
            {
                "format": _FORMAT,
                "model": settings.model,
                "source": plan.source,
                "settings": asked,
                **counts,
                **more,
            },
        )

    def done(self, settings: ScoreSettings, partitions: list[Partition]) -> dict[int, VerdictTally]:
        """The counts of the partitions that are done, by number."""
        found = {}
        for partition in partitions:
            note = _note_of(settings.file(partition))
            if note is not None and note.pop("key", None) == settings.key(partition):
                found[partition.number] = VerdictTally(**note)
        return found


def _note_of(path: Path) -> dict[str, Any] | None:
    """What a partition's file says about itself; ``None`` if there is no such file, or a damaged one."""
    try:
        note = json.loads((_metadata_of(path) or {})[NOTE.encode()])
    except (KeyError, ValueError):
        return None
    return note if isinstance(note, dict) else None


def _is_ours(path: Path) -> bool:
    """Whether a file with the name of a partition's file has a note, or is damaged so that it cannot have one."""
    metadata = _metadata_of(path) if path.is_file() else {}
    return metadata is None or NOTE.encode() in metadata


def _metadata_of(path: Path) -> dict[bytes, bytes] | None:
    """What a Parquet file says about itself; ``None`` if there is no such file, or a damaged one."""
    from miv.files.parquet import pa, pq

    try:
        return pq.read_metadata(path).metadata or {}
    except (OSError, pa.ArrowInvalid):
        return None
