"""Score a table of any size into a folder of Parquet files with a ``_score.json``, and resume where it stopped."""

import errno
import fcntl
import hashlib
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from miv.errors import MIVError, StoppedByUser
from miv.files.atomic import PART, original_name, readable_disk_errors, remove_unfinished, sha256_of
from miv.files.images import Fit
from miv.files.instances import is_file, is_folder
from miv.files.json import read_json_object, write_json
from miv.files.tables import require_parquet
from miv.runtime import CTRL_C, TERMINATED, Progress, SilentProgress, Terminated
from miv.scoring.partitions import (
    Partition,
    PartitionScorer,
    ScoreSettings,
    fingerprint_of,
    note_of,
    plan_partitions,
    tables_of,
)
from miv.verifier.network import Verifier
from miv.verifier.table_reading import Survey
from miv.verifier.table_writing import Scored
from miv.verifier.verdict import WitnessMethod
from miv.verifier.verifying import BatchVerifier

Say = Callable[[str], None]

DOCUMENT = "_score.json"  # names that begin with _ or . are not data for pyarrow, Spark, DuckDB and their like
_PARTS = re.compile(r"part-\d{6,}\.parquet")
_FORMAT = "miv-score-1"
_REMEDY = "Choose another --out, or use --overwrite."
LOCK_NAME = "_score.lock"
FOLDER = -1  # as a place: the whole folder; partitions have their numbers
_LOOK_SECONDS = 0.2  # between looks at partitions that other processes are scoring


class Claims:
    """Locks on single bytes of a file in the output folder: one for the folder, and one per partition.

    The system frees the locks of a process that ends for any reason, and knows those of other machines if the disk is
    shared. Commands that score share the folder; whoever changes what is scored has it alone.
    """

    def __init__(self, folder: Path) -> None:
        self._file = (folder / LOCK_NAME).open("a+b")

    def close(self) -> None:
        """Free all locks."""
        self._file.close()

    def claim(self, place: int) -> bool:
        """Try to be the only process that has a place."""
        return self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB, place)

    def share(self, place: int) -> None:
        """Share a place with others, once nobody has it alone."""
        self._lock(fcntl.LOCK_SH, place)

    def release(self, place: int) -> None:
        self._lock(fcntl.LOCK_UN, place)

    def _lock(self, kind: int, place: int) -> bool:
        try:
            fcntl.lockf(self._file, kind, 1, 1 + place)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                return False
            reason = f"cannot be locked ({error.strerror}). Expected a disk with file locks"
            raise MIVError(f"{self._file.name} {reason}; choose another --out.") from error
        return True


def score_claimed(
    left: list[Partition], settings: ScoreSettings, claims: Claims, score: Callable[[Partition], object]
) -> None:
    """Score every partition that is neither done nor claimed by another process, until all are done."""
    while left:
        for partition in left:
            if not settings.is_done(partition) and claims.claim(partition.number):
                try:
                    if not settings.is_done(partition):  # another process may have finished it just before
                        score(partition)
                finally:
                    claims.release(partition.number)
        left = [partition for partition in left if not settings.is_done(partition)]
        time.sleep(_LOOK_SECONDS if left else 0)


@dataclass(frozen=True)
class ScoreFolder:
    """The verdicts of some partitions in a folder. A partition is done if its file exists and has its key."""

    path: Path
    settings: ScoreSettings
    source: str
    partitions: list[Partition]

    def join_or_begin(self, claims: Claims, say: Say, *, overwrite: bool) -> None:
        """Join the commands that score the same into this folder, or begin alone."""
        if not claims.claim(FOLDER):
            claims.share(FOLDER)  # waits for a command that is beginning
            if self._document().get("plan") == self._plan:
                return
            if not claims.claim(FOLDER):
                raise MIVError(f"Another process scores something else into {self.path}. Choose another --out.")
        self._begin(say, overwrite=overwrite)
        claims.share(FOLDER)

    def _begin(self, say: Say, *, overwrite: bool) -> None:
        """Make room for these partitions; an error if that would lose something."""
        ours = {self.settings.file(partition).name: self.settings.key(partition) for partition in self.partitions}
        # Other programs use such names too.
        notes = {part.name: note_of(part) for part in sorted(self.path.iterdir()) if _PARTS.fullmatch(part.name)}
        if foreign := [name for name, note in notes.items() if note is not None and "key" not in note and name in ours]:
            raise MIVError(f"{self.path} holds {foreign[0]}, which is not of `miv score`. Choose another --out.")
        keys = {name: note["key"] for name, note in notes.items() if note and "key" in note}
        stale, before = [name for name, key in keys.items() if key != ours.get(name)], self._document()
        if keys and not overwrite:
            settings, now = before.get("settings") or {}, self.settings.decisive().items()
            if changed := [
                f"{name} was {settings.get(name)}, not {it}" for name, it in now if settings.get(name) != it
            ]:
                raise MIVError(f"The verdicts in {self.path} have other settings: {'; '.join(changed)}. {_REMEDY}")
            if stale and (other := before.get("source")) != self.source:
                raise MIVError(f"{self.path} has the verdicts of another table, {other}, not {self.source}. {_REMEDY}")
            if stale:
                say(f"The table has changed: replacing {len(stale):,} of its finished partitions.")
        remove_unfinished(self.path)  # of processes that were killed
        for name, note in notes.items():
            if (note is None or "key" in note) and (overwrite or name not in ours) and (self.path / name).is_file():
                (self.path / name).unlink()
        self.write()

    def _document(self) -> dict[str, Any]:
        path = self.path / DOCUMENT
        return read_json_object(path, "Expected the _score.json of `miv score`.") if path.is_file() else {}

    @property
    def _plan(self) -> str:
        """Equal if all partitions and the settings of their verdicts are equal."""
        return hashlib.sha256(" ".join(map(self.settings.key, self.partitions)).encode()).hexdigest()

    def write(self, scored: Scored | None = None) -> None:
        """Record what is scored and, if everything is done, its counts."""
        document = {
            "format": _FORMAT,
            "model": self.settings.model,
            "source": self.source,
            "settings": self.settings.decisive(),
            "plan": self._plan,
            "partitions": len(self.partitions),
            "exemplars": sum(partition.count for partition in self.partitions),
            "complete": scored is not None,
        }
        write_json(self.path / DOCUMENT, document if scored is None else {**document, "summary": asdict(scored)})


@dataclass(frozen=True)
class ScoreRun:
    """What a scoring did: its counts, and the numbers of partitions, and of those that were done before."""

    scored: Scored
    partitions: int
    reused: int


def score(
    model: str | Path,
    source: str | Path,
    out: str | Path,
    *,
    instances: str | Path | None = None,
    resize: Fit | None = None,
    witnesses: WitnessMethod | None = None,
    rows: int = 1000,
    device: str | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    say: Say = lambda text: None,
) -> ScoreRun:
    """Verify all exemplars of a table, and write a folder with one Parquet file per partition.

    The columns are those of ``miv verify --bags``. The same call resumes: finished partitions of the same rows,
    verifier and settings are kept. Several such calls at once share the work, in processes of their own, also on
    machines that share a disk.

    Args:
        model: a run, a verifier folder, or a name.
        source: a table as for ``miv verify --bags``, or a folder of such tables.
        out: output folder.
        instances: a table of instances by id; queries and bags then contain ids.
        resize: as for ``Verifier.verify``.
        witnesses: as for ``Verifier.verify``.
        rows: maximum number of exemplars per partition.
        device: device of torch, such as ``cuda``; by default the processor.
        overwrite: replace what another table, verifier or setting left in ``out``; other files stay.
        progress: reports the progress of reading and scoring.
        say: receives lines on what is going on.
    """
    require_parquet()
    if rows < 1:
        raise MIVError(f"--rows is {rows}. Expected 1 or more.")
    if not is_file(source) and not is_folder(source):  # also a loop of links, or a name that no file can have
        raise MIVError(f"There is no file or folder {str(source)!r}. Expected a table of exemplars.")
    source, out, progress = Path(source).absolute(), Path(out).absolute(), progress or SilentProgress()
    table = None if instances is None else Path(instances).absolute()
    if table is not None and not is_file(table):
        raise MIVError(f"--instances {table} is not a file. Expected a table.")
    _check_output(out, [*tables_of(source), *([table] if table else [])], overwrite=overwrite)
    name = str(Path(model).absolute()) if Path(model).exists() else str(model)
    verifier, survey = Verifier.from_pretrained(name, device=device), Survey()
    verifying = BatchVerifier(verifier, resize, witnesses)
    partitions = plan_partitions(source, rows, survey, progress)
    folders = [source if source.is_dir() else source.parent, *([table.parent] if table else [])]
    settings = ScoreSettings(
        model=name,
        out=str(out),
        fingerprint=fingerprint_of(verifier),
        rows=rows,
        kept=survey.copied,
        resize=resize,
        witnesses=witnesses,
        instances=str(table) if table else None,
        instances_digest=sha256_of(table) if table else None,
        files_below=", ".join(map(str, folders)),
        device=device,
    )
    with readable_disk_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        claims = Claims(out)
    folder = ScoreFolder(out, settings, str(source), partitions)
    try:
        folder.join_or_begin(claims, say, overwrite=overwrite)
        left = [partition for partition in partitions if not settings.is_done(partition)]
        if 0 < len(left) < len(partitions):
            say(f"{len(partitions) - len(left):,} of {len(partitions):,} partitions are done already.")
        with progress.step("Scoring", total=sum(partition.count for partition in left)) as advance:
            if left:
                scorer = PartitionScorer(settings)
                score_claimed(left, settings, claims, lambda partition: scorer.score(partition, advance))
        tallies = [tally for partition in partitions if (tally := settings.tally(partition)) is not None]
        if len(tallies) < len(partitions):
            raise MIVError(f"{out} has lost finished partitions. Run the same command again.")
        scored = Scored.of(tallies, verifying)
        folder.write(scored)
    except (KeyboardInterrupt, Terminated) as stop:
        code = TERMINATED if isinstance(stop, Terminated) else CTRL_C
        raise StoppedByUser("Stopped; finished partitions are kept. Run the same command to resume.", code) from None
    finally:
        if claims.claim(FOLDER):
            remove_unfinished(out)  # of processes that were killed
        claims.close()
    return ScoreRun(scored, len(partitions), len(partitions) - len(left))


def _check_output(out: Path, read: list[Path], *, overwrite: bool) -> None:
    """Raise an error before the work if the output folder holds something else, or what is read."""
    if out.exists() and not out.is_dir():
        raise MIVError(f"--out {out} is a file. Expected a folder for the verdicts; choose another --out.")
    for path in read:
        if path.resolve().parent == out.resolve():
            raise MIVError(f"--out {out} contains the input {path.resolve().name}. Choose a separate output folder.")
    if out.is_dir() and not (out / DOCUMENT).is_file() and not overwrite:
        # The lock, and what a write that was killed left, may be there.
        names = {path.name for path in out.iterdir() if not original_name(path.name, PART)}
        foreign = sorted(names - {LOCK_NAME})
        if foreign:
            raise MIVError(f"{out} holds {foreign[0]}, which is not of `miv score`. Choose another --out.")
