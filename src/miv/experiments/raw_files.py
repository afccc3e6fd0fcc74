"""The raw files that an experiment needs; apart from training, so that a report needs no training libraries."""

from collections.abc import Sequence
from pathlib import Path

from miv.errors import MIVError
from miv.experiments.jobs import Job
from miv.tasks import task_options


def raw_folder(job: Job, given: Path | None) -> Path | None:
    """The folder of the raw files of a job; ``None`` if it needs none."""
    task, _ = job.tier.data(job.cell)
    expected = {option.name: option.default for option in task_options(task)}
    return (given or Path(expected["raw"])) if "raw" in expected else None


def check_raw(missing: Sequence[Job], given: Path | None) -> None:
    """Raise an error if the raw files are missing; they are downloaded only to a named folder."""
    if not missing:
        return
    task, _ = missing[0].tier.data(missing[0].cell)
    raw = raw_folder(missing[0], given)
    downloads = any(option.name == "download" for option in task_options(task))
    if raw is None or raw.is_dir() or (downloads and given is not None):
        return
    fetched = "; missing files are downloaded" if downloads else ""
    raise MIVError(
        f"{len(missing)} cells are missing, and there is no folder {raw} with the raw files of {task} to compute them "
        f"from. Pass that folder with --raw (docs/tasks.md describes it{fetched}), or show the cells that "
        "are finished with --report-only."
    )
