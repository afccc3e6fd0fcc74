"""A job: a cell in a tier, with all its settings and its paths on disk."""

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from miv.backbones.hf_names import MINILM
from miv.experiments.grids import Cell, Setup
from miv.experiments.tiers import Tier, find_tier
from miv.tasks import task_options
from miv.training.config import TrainingConfig


@dataclass(frozen=True)
class JobFolders:
    """Where things are.

    Args:
        results: finished cells, small enough to keep with the code.
        work: running trainings, with checkpoints and logs; safe to delete.
        cache: features and built sets; safe to delete.
        raw: the raw files of the task; ``None`` for where the task expects them.
    """

    results: Path
    work: Path
    cache: Path
    raw: Path | None = None


def default_options(task: str) -> dict[str, Any]:
    """The defaults of the options that decide what a task builds, so not of where its raw files are.

    >>> default_options("digits-twin")["writers"]
    120
    """
    return {one.name: one.default for one in task_options(task) if one.name not in ("raw", "download")}


@dataclass(frozen=True)
class Job:
    """A cell under a tier."""

    cell: Cell
    tier_name: str
    encoder: str = MINILM

    @property
    def tier(self) -> Tier:
        return find_tier(self.tier_name)

    @cached_property
    def settings(self) -> TrainingConfig:
        """The settings, the encoder under its short name: the same on every machine."""
        return self.tier.settings(self.cell, self.encoder)

    @cached_property
    def description(self) -> dict[str, Any]:
        """All that is asked for, as JSON holds it: each setting and option with its value, also one at its default.

        Of code, raw files and an encoder's weights it knows nothing; ``result.json`` has versions and hashes of data.
        """
        task, options = self.tier.data(self.cell)
        description = {
            "task": self.cell.task,
            "name": self.cell.setup.name,
            "round": self.cell.round,
            "tier": self.tier_name,
            "data": {"task": task, "options": {**default_options(task), **options}},
            "config": self.settings.document(),
        }
        return dict(json.loads(json.dumps(description)))

    @cached_property
    def digest(self) -> str:
        """The hash of the description."""
        return hashlib.sha256(json.dumps(self.description, sort_keys=True).encode()).hexdigest()

    @property
    def shared_stage(self) -> str | None:
        """What cells that share a contrast stage have in common: within a tier, their data; ``None`` without one."""
        return json.dumps(self.description["data"], sort_keys=True) if self.settings.contrast_epochs else None

    def result_folder(self, results: Path) -> Path:
        """Where the finished cell is kept."""
        return self.task_folder(results) / self.cell.setup.name / f"round-{self.cell.round}"

    def task_folder(self, results: Path) -> Path:
        """Where the finished cells of its tier and task are kept, and beside which they are packed."""
        return results / self.tier_name / self.cell.task

    def work_folder(self, work: Path) -> Path:
        """Where it is trained; with other settings it is another folder, so that nothing is mixed up."""
        name = f"{self.cell.setup.name}-{self.digest[:8]}"
        return work / self.tier_name / self.cell.task / name / f"round-{self.cell.round}"

    def log(self, work: Path) -> Path:
        """What the training says while it runs."""
        return self.work_folder(work).with_suffix(".log")

    def lock(self, work: Path) -> Path:
        """Held by the process that computes the cell."""
        return self.work_folder(work).with_suffix(".lock")

    def document(self) -> dict[str, Any]:
        """The job as another process is told of it."""
        return {**asdict(self.cell), "tier": self.tier_name, "encoder": self.encoder}

    @classmethod
    def of(cls, document: dict[str, Any]) -> "Job":
        """The job that ``document`` tells of."""
        cell = Cell(document["task"], Setup(**document["setup"]), document["round"])
        return cls(cell, document["tier"], document["encoder"])

    def __str__(self) -> str:
        return str(self.cell)
