"""A job: a cell in a tier, with all its settings, its paths on disk, and the raw files that it needs."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from miv.backbones.hf_files import MINILM
from miv.errors import MIVError
from miv.reproduction.grids import Cell, Setup
from miv.reproduction.tiers import Tier, find_tier
from miv.tasks import task_options
from miv.training.config import TrainingConfig


@dataclass(frozen=True)
class JobFolders:
    """Where things are."""

    results: Path  # finished cells, small enough to keep with the code
    work: Path  # running trainings, with checkpoints and logs; safe to delete
    cache: Path  # features and built sets; safe to delete
    raw: Path | None = None  # the raw files of the task; None for its default folder


def default_options(task: str) -> dict[str, Any]:
    """The defaults of the options that determine what a task builds, without the folder of raw files."""
    return {option.name: option.default for option in task_options(task) if option.name not in ("raw", "download")}


@dataclass(frozen=True)
class Job:
    """A cell in a tier."""

    cell: Cell
    tier_name: str
    encoder: str = MINILM

    @property
    def tier(self) -> Tier:
        return find_tier(self.tier_name)

    @cached_property
    def settings(self) -> TrainingConfig:
        """The settings, with the encoder's short name, so that they are the same on every machine."""
        return self.tier.settings(self.cell, self.encoder)

    @cached_property
    def description(self) -> dict[str, Any]:
        """All settings and options with their values, defaults included, as JSON values."""
        task, options = self.tier.data(self.cell)
        description = {
            "task": self.cell.task,
            "name": self.cell.setup.name,
            "round": self.cell.round,
            "tier": self.tier_name,
            "data": {"task": task, "options": {**default_options(task), **options}},
            "config": self.settings.document(),
        }
        if self.tier.is_frozen:
            description["backbone_of"] = self.tier.backbone_of(self.cell.task)
        return dict(json.loads(json.dumps(description)))

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.description, sort_keys=True).encode()).hexdigest()

    def task_folder(self, results: Path) -> Path:
        """Folder of the finished cells of this tier and task; the packed file is next to it."""
        return results / self.tier_name / self.cell.task

    def result_folder(self, results: Path) -> Path:
        return self.task_folder(results) / self.cell.setup.name / f"round-{self.cell.round}"

    def work_folder(self, work: Path) -> Path:
        """Folder of the training run; other settings have another folder."""
        return self.task_folder(work) / f"{self.cell.setup.name}-{self.digest[:8]}" / f"round-{self.cell.round}"

    def log(self, work: Path) -> Path:
        return self.work_folder(work).with_suffix(".log")

    def lock(self, work: Path) -> Path:
        return self.work_folder(work).with_suffix(".lock")

    def document(self) -> dict[str, Any]:
        return {**asdict(self.cell), "tier": self.tier_name, "encoder": self.encoder}

    @classmethod
    def of(cls, document: dict[str, Any]) -> "Job":
        cell = Cell(document["task"], Setup(**document["setup"]), document["round"])
        return cls(cell, document["tier"], document["encoder"])

    def __str__(self) -> str:
        return str(self.cell)


def raw_folder(job: Job, chosen: Path | None) -> Path | None:
    """The folder of the raw files of a job; ``None`` if it needs none."""
    options = {option.name: option.default for option in task_options(job.tier.data(job.cell)[0])}
    return (chosen or Path(options["raw"])) if "raw" in options else None


def check_raw(missing: Sequence[Job], chosen: Path | None) -> None:
    """Raise an error if the raw files are missing; they are downloaded only to a named folder."""
    if not missing:
        return
    task, raw = missing[0].tier.data(missing[0].cell)[0], raw_folder(missing[0], chosen)
    downloads = any(option.name == "download" for option in task_options(task))
    if raw is None or raw.is_dir() or (downloads and chosen is not None):
        return
    raise MIVError(
        f"{len(missing)} cells are missing, and there is no folder {raw} with the raw files of {task}. Pass it with "
        "--raw (docs/tasks.md describes it), or show the finished cells with --report-only."
    )
