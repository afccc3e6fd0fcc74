"""Score a table of any size into a folder of Parquet files with a ``_score.json``, and resume where it stopped."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from miv.data.folder import TABLE as SET_TABLE
from miv.errors import MIVError, StoppedByUser, needs_extra
from miv.files.atomic import readable_disk_errors, remove_unfinished, sha256_of
from miv.files.images import Fit
from miv.files.instances import is_file, is_folder
from miv.files.json import read_json_object, write_json
from miv.files.tables import require_parquet
from miv.runtime import CTRL_C, TERMINATED, Progress, SilentProgress, Terminated
from miv.scoring.partitions import (
    NOTE,
    Partition,
    PartitionScorer,
    ScorePlan,
    ScoreSettings,
    fingerprint_of,
    is_set,
    plan_partitions,
    tables_of,
)
from miv.scoring.ray import LOCAL, RAY_PURPOSE, Say, check_address, import_ray, score_on_ray
from miv.verifier.network import Verifier
from miv.verifier.table_writing import Scored, VerdictTally
from miv.verifier.verdict import WitnessMethod
from miv.verifier.verifying import BatchVerifier

ROWS = 1000  # exemplars per partition

# Names that begin with _ or . are not data for pyarrow, Spark, DuckDB and their like.
DOCUMENT, _LOCK = "_score.json", "_score.lock"
_PARTS = re.compile(r"part-\d{6,}\.parquet")
_FORMAT = "miv-score-1"
_OTHER_OUT = "Choose another --out, or use --overwrite."
_WORDS = {
    "fingerprint": "the fingerprint of the verifier",
    "instances_digest": "the SHA-256 of the table of --instances",
    "files_below": "the folder of relative paths",
    "kept": "the copied columns",
    "scored_since": "the version of miv that last changed verdicts",
}


def setting_differences(before: dict[str, Any], now: dict[str, Any]) -> str:
    """What differs between the settings of the verdicts in a folder and those of this call.

    >>> setting_differences({"rows": 5, "resize": None}, {"rows": 6, "resize": "crop"})
    '--rows was 5 and is now 6; --resize was None and is now crop'
    """
    changed = [name for name, value in now.items() if name not in before or before[name] != value]
    options = {name: _WORDS.get(name, f"--{name.replace('_', '-')}") for name in changed}
    return "; ".join(f"{options[name]} was {before.get(name)} and is now {now[name]}" for name in changed)


class ScoreFolder:
    """Verdicts in a folder. A partition is done if its file exists and has the key of the partition."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def locked(self) -> Iterator[None]:
        with needs_extra("ray", "Scoring into a folder", "filelock"):
            from filelock import FileLock, Timeout
        with readable_disk_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self.path / _LOCK, timeout=0):
                yield
        except Timeout:
            raise MIVError(f"Another process is scoring into {self.path}. Wait, or choose another --out.") from None

    def check(self, *, overwrite: bool) -> None:
        """Raise an error before the work if the folder holds something else."""
        if self.path.exists() and not self.path.is_dir():
            raise MIVError(f"--out {self.path} is a file. Expected a folder for the verdicts; choose another --out.")
        if not self.path.is_dir() or (self.path / DOCUMENT).is_file():
            return
        foreign = sorted(path.name for path in self.path.iterdir() if path.name != _LOCK)
        if foreign and not overwrite:
            raise MIVError(f"{self.path} holds {foreign[0]}, which is not of `miv score`. Choose another --out.")

    def begin(self, settings: ScoreSettings, plan: ScorePlan, rows: int, *, overwrite: bool) -> int:
        """Record what is scored, and return how many finished partitions are of other rows and will be replaced."""
        path, stale = self.path / DOCUMENT, [] if overwrite else self._stale(settings, plan)
        if path.is_file() and not overwrite:
            document, remedy = read_json_object(path, "Expected the _score.json of `miv score`."), _OTHER_OUT
            before, model, source = (document.get(name) for name in ("settings", "model", "source"))
            if not isinstance(before, dict):
                raise MIVError(f"{path} has no settings, so its verdicts may be of another table or verifier. {remedy}")
            differences = setting_differences(before, {"rows": rows, **settings.decisive()})
            if differences:
                raise MIVError(f"The verdicts of {model} in {self.path} have other settings: {differences}. {remedy}")
            if stale and source not in (None, plan.source):
                raise MIVError(f"{self.path} has the verdicts of another table, {source}, not {plan.source}. {remedy}")
        known = {settings.file(partition).name for partition in plan.partitions}
        known_parts = ((part, _metadata_of(part) if part.is_file() else {}) for part in self._parts())
        is_ours = {part: about is None or NOTE.encode() in about for part, about in known_parts}  # None: damaged
        foreign = [part.name for part, ours in is_ours.items() if part.name in known and not ours]
        if foreign:
            raise MIVError(f"{self.path} holds {foreign[0]}, which is not of `miv score`. Choose another --out.")
        remove_unfinished(self.path)  # of workers that were killed
        for part, ours in is_ours.items():
            if ours and (overwrite or part.name not in known):  # unknown if the table had more rows
                part.unlink()
        self.write(settings, plan, rows)
        return len(stale)

    def _stale(self, settings: ScoreSettings, plan: ScorePlan) -> list[str]:
        """Names of the files that are whole, and not of the rows that their partitions now have."""
        keys = {settings.file(partition).name: settings.key(partition) for partition in plan.partitions}
        notes = ((part.name, _note_of(part)) for part in self._parts())
        return [name for name, note in notes if note is not None and note.get("key") != keys.get(name)]

    def _parts(self) -> list[Path]:
        """What has the name of a partition's file; other programs use such names too."""
        return sorted(path for path in self.path.iterdir() if _PARTS.fullmatch(path.name))

    def write(self, settings: ScoreSettings, plan: ScorePlan, rows: int, scored: Scored | None = None) -> None:
        """Record what is scored and, if everything is done, its counts."""
        document = {
            "format": _FORMAT,
            "model": settings.model,
            "source": plan.source,
            "settings": {"rows": rows, **settings.decisive()},
            "partitions": len(plan.partitions),
            "exemplars": sum(partition.count for partition in plan.partitions),
            "complete": scored is not None,
        }
        write_json(self.path / DOCUMENT, document if scored is None else {**document, "summary": asdict(scored)})

    def done(self, settings: ScoreSettings, partitions: list[Partition]) -> dict[int, VerdictTally]:
        """The counts of the partitions that are done, by number."""
        tallies = {}
        for partition in partitions:
            note = _note_of(settings.file(partition))
            if note is not None and note.pop("key", None) == settings.key(partition):
                tallies[partition.number] = VerdictTally(**note)
        return tallies


def _note_of(path: Path) -> dict[str, Any] | None:
    """What a partition's file says about itself; ``None`` if there is no such file, or a damaged one."""
    try:
        note = json.loads((_metadata_of(path) or {})[NOTE.encode()])
    except (KeyError, ValueError):
        return None
    return note if isinstance(note, dict) else None


def _metadata_of(path: Path) -> dict[bytes, bytes] | None:
    """What a Parquet file says about itself; ``None`` if there is no such file, or a damaged one."""
    from miv.files.parquet import pa, pq

    try:
        return pq.read_metadata(path).metadata or {}
    except (OSError, pa.ArrowInvalid):
        return None


@dataclass(frozen=True)
class ScoreRun:
    """What a scoring did: its counts, and the numbers of partitions, of those done before, and of machines."""

    scored: Scored
    partitions: int
    reused: int
    nodes: int


def score(
    model: str | Path,
    source: str | Path,
    out: str | Path,
    *,
    instances: str | Path | None = None,
    by_instance: bool = False,
    resize: Fit | None = None,
    witnesses: WitnessMethod | None = None,
    rows: int = ROWS,
    workers: int | None = 1,
    address: str | None = None,
    cores: int | None = None,
    gpus: float = 0.0,
    overwrite: bool = False,
    progress: Progress | None = None,
    say: Say = lambda text: None,
) -> ScoreRun:
    """Verify all exemplars of a table, and write a folder with one Parquet file per partition.

    The columns are those of ``miv verify --bags``. The same call resumes: finished partitions of the same rows,
    verifier and settings are kept. With one worker and no address, everything happens in this process, else on Ray.

    Args:
        model: a run, a verifier folder, or a name; workers of a cluster read it under the same name.
        source: a table as for ``miv verify --bags``, a folder of such tables, or the folder of an exemplar set.
        out: output folder; for a cluster, in storage that all machines share.
        instances: a table of instances by id; queries and bags then contain ids.
        by_instance: write one row per instance instead of one per exemplar.
        resize: as for ``Verifier.verify``.
        witnesses: as for ``Verifier.verify``.
        rows: maximum number of exemplars per partition.
        workers: number of workers; ``None``: as many as the cluster has room for.
        address: address of a Ray cluster; by default this machine alone.
        cores: cores per worker; by default 1 per Ray worker, and in this process as torch is set.
        gpus: GPUs per worker; a fraction if workers share one.
        overwrite: replace what another table, verifier or setting left in ``out``; other files stay.
        progress: reports the progress of reading and scoring.
        say: receives lines on what is going on.
    """
    require_parquet()
    for name, given, least in (("rows", rows, 1), ("workers", workers, 1), ("cores", cores, 1), ("gpus", gpus, 0)):
        if given is not None and given < least:
            raise MIVError(f"--{name} is {given}. Expected {least} or more.")
    progress, folder = progress or SilentProgress(), ScoreFolder(Path(out).absolute())
    folder.check(overwrite=overwrite)
    if workers != 1 or address is not None:  # before the table is read, which may take hours
        import_ray(RAY_PURPOSE, address)
        check_address(address or LOCAL)
    if not is_file(source) and not is_folder(source):  # also a loop of links, or a name that no file can have
        raise MIVError(f"There is no file or folder {str(source)!r}. Expected a table of exemplars.")
    table = None if instances is None else _instances_table(Path(instances), Path(source))
    _refuse_as_output(folder.path, Path(source), table)
    on_gpu = bool(gpus) and address is None and workers == 1
    if on_gpu and not torch.cuda.is_available():
        raise MIVError(f"--gpus is {gpus:g}, but PyTorch finds no GPU on this machine. Leave --gpus out.")
    name = str(Path(model).absolute()) if Path(model).exists() else str(model)
    verifier = Verifier.from_pretrained(name, device="cuda" if on_gpu else None)
    verifying = BatchVerifier(verifier, resize, witnesses)
    plan = plan_partitions(Path(source).absolute(), rows, verifying, progress, instances=table)
    settings = ScoreSettings(
        model=name,
        out=str(folder.path),
        fingerprint=fingerprint_of(verifier),
        kept=plan.kept,
        by_instance=by_instance,
        resize=resize,
        witnesses=witnesses,
        instances=None if table is None else str(table),
        instances_digest=None if table is None else sha256_of(table),
        files_below=_files_below(Path(source).absolute(), table),
        cores=cores,
        gpus=gpus,
    )
    nodes: set[str] = set()
    with folder.locked():
        stale = folder.begin(settings, plan, rows, overwrite=overwrite)
        if stale:
            say(f"The table has changed: replacing {stale:,} partition{'s' * (stale != 1)} of other rows.")
        tallies = folder.done(settings, plan.partitions)
        reused, left = len(tallies), [partition for partition in plan.partitions if partition.number not in tallies]
        if reused and left:
            say(f"{reused:,} of {len(plan.partitions):,} partitions are done already.")
        shown = progress if left else SilentProgress()
        with shown.step("Scoring", total=sum(partition.count for partition in left)) as advance:
            try:
                if workers == 1 and address is None:
                    scorer = PartitionScorer(settings, verifier)
                    for partition in left:
                        scorer.score(partition, advance)
                elif left:
                    for report in score_on_ray(left, settings, workers, address, say):
                        nodes.add(report["node"])
                        advance(report["exemplars"])
            except (KeyboardInterrupt, Terminated) as stop:
                code = TERMINATED if isinstance(stop, Terminated) else CTRL_C
                message = "Stopped; finished partitions are kept. Run the same command to resume."
                raise StoppedByUser(message, code) from None
        tallies = folder.done(settings, plan.partitions)
        if len(tallies) < len(plan.partitions):
            missing = min({partition.number for partition in plan.partitions} - tallies.keys())
            raise MIVError(f"{folder.path} lacks partition {missing}. Expected a folder that all machines share.")
        scored = Scored.of(tallies.values(), verifying, plan.odd_label)
        remove_unfinished(folder.path)
        folder.write(settings, plan, rows, scored)
    return ScoreRun(scored, len(plan.partitions), reused, max(1, len(nodes)))


def _instances_table(path: Path, source: Path) -> Path:
    if is_set(source):
        raise MIVError(f"--instances is {path}, but {source} is a set, which has its instances. Leave --instances out.")
    if not path.is_file():
        raise MIVError(f"--instances {path} {'is a folder' if path.is_dir() else 'does not exist'}. Expected a table.")
    return path.absolute()


def _refuse_as_output(out: Path, source: Path, instances: Path | None) -> None:
    """Raise an error if the output folder holds what is read, which verdicts could replace."""
    read = [source / SET_TABLE] if is_set(source) else tables_of(source)
    for path in read if instances is None else [*read, instances]:
        if path.resolve().parent == out.resolve():
            raise MIVError(f"--out {out} contains the input {path.resolve().name}. Choose a separate output folder.")


def _files_below(source: Path, instances: Path | None) -> str | None:
    """The folders that relative paths in cells begin at; two tables with equal cells then name different files."""
    folders = [] if instances is None else [instances.parent]
    if not is_set(source):
        folders.insert(0, source if source.is_dir() else source.parent)
    return ", ".join(map(str, folders)) or None
