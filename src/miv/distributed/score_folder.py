"""The output folder of a scoring: one Parquet file per partition, and ``_score.json``, which says what it holds."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from miv.distributed.exemplar_partitions import Partition, ScorePlan
from miv.distributed.partition_scoring import NOTE, ScoreSettings
from miv.distributed.setting_words import setting_words
from miv.errors import MIVError, needs_extra
from miv.inference.verdict_tables import Scored, VerdictTally
from miv.io.json_files import read_json_object, write_json
from miv.io.whole_files import remove_unfinished, said_plainly

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
        with said_plainly(self.path):
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
            other = setting_words(before, asked, (document.get("model"), settings.model))
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
    from miv.io.parquet import pa, pq

    try:
        return pq.read_metadata(path).metadata or {}
    except (OSError, pa.ArrowInvalid):
        return None
