"""Score a table of exemplars of any size, partition by partition, here or on a cluster, and resume where it stopped."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from miv.data.folder import TABLE as SET_TABLE
from miv.errors import MIVError, StoppedByUser
from miv.files.atomic import sha256_of
from miv.files.images import Fit
from miv.files.tables import require_parquet
from miv.runtime import CTRL_C, TERMINATED, Progress, SilentProgress, Terminated
from miv.scoring.folder import PartitionScorer, ScoreFolder, ScoreSettings, fingerprint_of
from miv.scoring.partitions import Partition, is_set, plan_partitions, tables_of
from miv.scoring.ray import LOCAL, RAY_PURPOSE, Say, check_address, import_ray, score_on_ray
from miv.verifier.network import Verifier
from miv.verifier.table_writing import Scored, VerdictTally
from miv.verifier.verdict import Asked
from miv.verifier.verifying import Verifying

ROWS = 1000  # exemplars per partition


@dataclass(frozen=True)
class ScoreRun:
    """What a scoring did.

    Args:
        scored: counts over all partitions.
        partitions: number of partitions.
        reused: number of partitions that were done before.
        nodes: number of machines of a cluster that scored some; 1 without a cluster.
    """

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
    witnesses: Asked | None = None,
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

    The columns are those of ``miv verify --bags``. Files appear only when complete. The same call resumes: partitions
    whose file exists and belongs to the same rows, verifier and settings are not scored again. With one worker and no
    address, everything happens in this process; otherwise in a pool of Ray workers.

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
    table = None if instances is None else _instances_table(Path(instances), Path(source))
    _refuse_as_output(folder.path, Path(source), table)
    on_gpu = bool(gpus) and address is None and workers == 1
    if on_gpu and not torch.cuda.is_available():
        raise MIVError(f"--gpus is {gpus:g}, but PyTorch finds no GPU on this machine. Leave --gpus out.")
    name = str(Path(model).absolute()) if Path(model).exists() else str(model)
    verifier = Verifier.from_pretrained(name, device="cuda" if on_gpu else None)
    if verifier.query_backbone is not None and is_set(Path(source)):
        raise MIVError(
            f"{source} is a set, whose queries are embedded already, and the verifier embeds queries itself. Expected "
            "a table of queries and bags; `miv evaluate --predictions` scores the set."
        )
    verifying = Verifying(verifier, resize, witnesses)
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
        reused, left = len(tallies), [one for one in plan.partitions if one.number not in tallies]
        if reused and left:
            say(f"{reused:,} of {len(plan.partitions):,} partitions are done already.")
        shown = progress if left else SilentProgress()
        with shown.step("Scoring", total=sum(one.count for one in left)) as advance:
            try:
                if workers == 1 and address is None:
                    _score_here(left, settings, verifier, advance)
                elif left:

                    def report(one: dict[str, Any]) -> None:
                        nodes.add(one["node"])
                        advance(one["exemplars"])

                    score_on_ray(left, settings, workers, address, report, say)
            except (KeyboardInterrupt, Terminated) as stop:
                code = TERMINATED if isinstance(stop, Terminated) else CTRL_C
                raise StoppedByUser(
                    "Stopped; finished partitions are kept. Run the same command to resume.", code
                ) from None
        tallies = folder.done(settings, plan.partitions)
        if len(tallies) < len(plan.partitions):
            missing = min(one.number for one in plan.partitions if one.number not in tallies)
            raise MIVError(
                f"The file of partition {missing} is not in {folder.path}. Expected a folder that all machines of the "
                "cluster share, under the same name."
            )
        scored = _sum(list(tallies.values())).scored(verifier, verifying.by, plan.odd_label)
        folder.finish(settings, plan, rows, scored)
    return ScoreRun(scored, len(plan.partitions), reused, max(1, len(nodes)))


def _instances_table(path: Path, source: Path) -> Path:
    """The table of instances, after a look at both names."""
    if is_set(source):
        raise MIVError(f"--instances is {path}, but {source} is a set, which has its instances. Leave --instances out.")
    if not path.is_file():
        raise MIVError(f"--instances {path} {'is a folder' if path.is_dir() else 'does not exist'}. Expected a table.")
    return path.absolute()


def _refuse_as_output(out: Path, source: Path, instances: Path | None) -> None:
    """Raise an error if the output folder holds what is read, which verdicts could replace."""
    read = [source / SET_TABLE] if is_set(source) else tables_of(source)
    for path in read if instances is None else [*read, instances]:
        found = path.resolve()
        if found.parent == out.resolve():
            raise MIVError(
                f"--out {out} holds {found.name}, which is to be read. Expected a folder of its own for the verdicts; "
                "choose another --out."
            )


def _files_below(source: Path, instances: Path | None) -> str | None:
    """The folders that relative paths in cells begin at; two tables with equal cells then name different files."""
    folders = [] if instances is None else [instances.parent]
    if not is_set(source):
        folders.insert(0, source if source.is_dir() else source.parent)
    return ", ".join(map(str, folders)) or None


def _score_here(
    left: list[Partition], settings: ScoreSettings, verifier: Verifier, advance: Callable[[int], None]
) -> None:
    scorer = PartitionScorer(settings, verifier)
    for partition in left:
        scorer.score(partition, advance)


def _sum(tallies: list[VerdictTally]) -> VerdictTally:
    return VerdictTally(*(sum(counts) for counts in zip(*(vars(one).values() for one in tallies), strict=True)))
