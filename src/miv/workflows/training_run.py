"""The result of training: the verifier, its metrics, and the folder with everything else."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from miv.evaluation import Evaluation, Predictions
from miv.models.verifier import Verifier
from miv.reference import Reference
from miv.reference.beside import advice
from miv.training.config import TrainingConfig
from miv.training.run_folder import RunFolder


@dataclass(frozen=True, eq=False, repr=False)
class TrainingRun:
    """A finished training run.

    Args:
        folder: the folder of the run. ``miv report``, ``miv runs`` and ``Verifier.from_pretrained`` take it. Without
            ``out``, it is temporary and removed together with this object.
        config: all settings, including those chosen by ``auto``.
        evaluations: the metrics on ``validation`` and ``test``, by split.
        reference: scores of plain methods on the same features; ``None`` if they were not scored.
        reason: what the preset ``auto`` chose and why, or that all settings were given; empty with another preset.
    """

    folder: Path
    config: TrainingConfig
    evaluations: Mapping[str, Evaluation]
    reference: Reference | None = field(repr=False)
    reason: str = field(default="", repr=False)

    def __repr__(self) -> str:
        measured = ", ".join(
            f"{split} AUROC {found.classification['auroc']:.3f}" for split, found in self.evaluations.items()
        )
        return f"TrainingRun({str(self.folder)!r}, pooling {self.config.pooling}, {measured})"

    def __str__(self) -> str:
        return self.text()

    @cached_property
    def verifier(self) -> "Verifier":
        """The final verifier, ready to use."""
        return Verifier.from_pretrained(self.folder)

    def predictions(self, split: str = "test") -> Predictions:
        """The answers of the verifier for a split."""
        return Predictions.load(RunFolder(self.folder).predictions(split))

    @property
    def advice(self) -> str:
        """What to do if all answers are the same or below the reference; empty if all is well."""
        yes = self.predictions("validation").yes
        texts = []
        if yes.all() or not yes.any():
            texts.append(
                f"Warning: the verifier answers {'yes' if yes.all() else 'no'} to all {len(yes):,} exemplars of "
                "validation. Train longer (max_epochs), or add a contrast stage (contrast_epochs). If "
                "its AUROC is above 0.5, `miv calibrate` finds a threshold that separates them.\n"
            )
        if self.reference is not None:
            texts.append(advice(self.evaluations, self.reference, RunFolder(self.folder)) or "")
        return "".join(texts)

    def document(self) -> dict[str, Any]:
        """Folder, metrics and reference as plain values, for JSON."""
        metrics = {split: found.document() for split, found in self.evaluations.items()}
        reference = None if self.reference is None else self.reference.document()
        return {"run": str(self.folder), **metrics, "reference": reference}

    def text(self) -> str:
        """The metrics as readable tables."""
        return "\n\n".join(f"{split}: {found.text()}" for split, found in self.evaluations.items())
