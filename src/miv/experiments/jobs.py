"""A job: a cell under a tier, with all that decides its outcome, and where its parts are on disk."""

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from miv.experiments.grids import Cell, Setup
from miv.experiments.tiers import MINILM, Tier, find_tier
from miv.training.config import TrainingConfig


@dataclass(frozen=True)
class Places:
    """Where things are.

    Args:
        results: finished cells, small enough to be kept with the code.
        work: trainings under way, with checkpoints and logs; can be thrown away.
        cache: features and built sets; can be thrown away.
        raw: the raw files of the task; ``None`` for where the task expects them.
    """

    results: Path
    work: Path
    cache: Path
    raw: Path | None = None


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
        """All that decides the outcome, as JSON holds it; settings that are at their default are left out."""
        task, options = self.tier.data(self.cell)
        defaults = TrainingConfig().document()
        config = {name: value for name, value in self.settings.document().items() if value != defaults[name]}
        description = {
            "task": self.cell.task,
            "name": self.cell.setup.name,
            "round": self.cell.round,
            "tier": self.tier_name,
            "data": {"task": task, "options": options},
            "config": config,
        }
        return dict(json.loads(json.dumps(description)))

    @cached_property
    def digest(self) -> str:
        """The hash of the description."""
        return hashlib.sha256(json.dumps(self.description, sort_keys=True).encode()).hexdigest()

    def result_folder(self, results: Path) -> Path:
        """Where the finished cell is kept."""
        return results / self.tier_name / self.cell.task / self.cell.setup.name / f"round-{self.cell.round}"

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
