"""Score one partition and write its file, with the same result whoever does it and however often."""

import hashlib
import json
import platform
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from miv.distributed.exemplar_partitions import Partition, PartitionReader
from miv.errors import MIVError
from miv.inference.exemplar_rows import instances_by_id
from miv.inference.table_writing import table_writer
from miv.inference.verdict import Asked
from miv.inference.verdict_tables import RowScoring, VerdictTally
from miv.inference.verifying import Verifying
from miv.io.image_files import Fit
from miv.io.whole_files import sha256_of
from miv.models.verifier import Verifier
from miv.runtime.progress import Advance

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
