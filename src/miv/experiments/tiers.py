"""The compute budget of a cell. A tier sets backbone, optimiser, batches and epochs for all models alike.

The draw of the exemplars, metrics and model selection (the epoch of the best validation accuracy) are the same in
``paper`` and ``cpu``. Besides cost, ``cpu`` changes the following: signatures have two anchors per query instead of
all, signatures and texts are trained only in the first of the paper's two stages, and QMNIST has a contrast stage
before both.
``frozen`` trains only poolings, on the features of a verifier that comes with the package. ``finetuned`` goes on from
``cpu`` on texts, and trains the last layers of the encoder too.
``smoke`` runs on the synthetic twin of the task and says nothing about the paper.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from miv.backbones.hf_names import MINILM
from miv.errors import MIVError, unknown_name
from miv.experiments.grids import Cell
from miv.experiments.published import STANDS_IN
from miv.experiments.tier_settings import BACKBONE_OF, CPU, CPU_TASK_OPTIONS, FINE_TUNED, FROZEN, SMOKE, TWINS
from miv.poolings import POOLINGS
from miv.training.auto import ONE_CYCLE, preset
from miv.training.config import TrainingConfig


@dataclass(frozen=True)
class Tier:
    """A compute budget for cells.

    Args:
        name: its name for `--tier`.
        summary: one-line summary.
        is_twin: whether it runs on synthetic twins, which say nothing about the paper.
        is_frozen: whether it trains only poolings, on the backbone of a verifier in the package.
        is_fine_tuned: whether it also trains the last layers of an encoder of texts.
    """

    name: str
    summary: str
    is_twin: bool = False
    is_frozen: bool = False
    is_fine_tuned: bool = False

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that it has settings for."""
        return tuple(BACKBONE_OF if self.is_frozen else FINE_TUNED if self.is_fine_tuned else CPU)

    def takes(self, task: str) -> bool:
        """Whether it has settings for a task."""
        return task in self.tasks

    def backbone_of(self, task: str) -> str | None:
        """The verifier in the package whose backbone every cell takes; ``None`` if cells have their own."""
        return BACKBONE_OF[task] if self.is_frozen else None

    def settings(self, cell: Cell, encoder: str = MINILM) -> TrainingConfig:
        """The training settings; ``encoder`` is the text encoder, unless the tier sets one."""
        pooling = cell.setup.pooling
        if self.name == "paper":
            settings = preset(STANDS_IN.get(cell.task, cell.task), pooling)
        else:
            self.check(cell.task)
            changes = CPU[cell.task] | (SMOKE if self.is_twin else FROZEN if self.is_frozen else {})
            if self.is_fine_tuned:
                changes |= FINE_TUNED[cell.task]
            if self.is_twin and "contrast_epochs" in changes:
                changes["contrast_epochs"] = 1
            settings = ONE_CYCLE.changed({"pooling": pooling} | changes)
            if settings.backbone is None:
                settings = settings.changed({"backbone": f"hf:{encoder}"})
        if not POOLINGS[pooling].make.learns:
            settings = settings.changed({"full_stage": False})  # it stays untrained: so does its backbone
        # Rounds are independent draws: of the data by the task's round, of the weights by the seed.
        return settings.changed({"pooling_options": dict(cell.setup.pooling_options), "seed": cell.round})

    def data(self, cell: Cell) -> tuple[str, dict[str, Any]]:
        """The task that builds the data, and its options without the folder of the raw files."""
        asked = dict(cell.setup.task_options)
        if self.is_twin:
            twin, options = TWINS[cell.task]
            return twin, {**options, "round": cell.round}
        cheaper = CPU_TASK_OPTIONS.get(cell.task, {}) if self.name == "cpu" else {}
        return cell.task, {**asked, **cheaper, "round": cell.round}

    def check(self, task: str) -> None:
        """Raise an error if it has no settings for a task."""
        if not self.takes(task):
            raise MIVError(f"The tier {self.name} has only {', '.join(self.tasks)}, not {task}. Use another --tier.")

    def remarks(self, task: str) -> list[str]:
        """What a reader of this tier's figures must know."""
        remarks = []
        if self.is_twin:
            remarks.append(
                f"These figures come from the synthetic twin {TWINS[task][0]}, on a handful of exemplars and one "
                "epoch. They show that everything runs, and say nothing about the paper."
            )
        if self.name == "cpu" and task in ("fever", "fever-dev", "claims"):
            remarks.append(
                "The sentence encoder is frozen: all models are trained on its features (the first stage only), "
                "whereas the paper also trains the encoder."
            )
        if self.name == "cpu" and task == "qmnist":
            remarks.append(
                "The backbone is a compact CNN from random weights, whereas the paper uses one pretrained on ImageNet. "
                "A contrast stage with the bag labels of the round, trained once for all models, replaces pretraining. "
                "Then come the paper's two stages, with fewer epochs. All models are treated alike. Differences "
                "between models can be compared with the paper's; the figures themselves can be compared less well."
            )
        if self.is_fine_tuned:
            layers, epochs = FINE_TUNED[task]["trainable_layers"], FINE_TUNED[task]["max_epochs"]
            remarks.append(
                "Each model is first trained on the features of the frozen sentence encoder, as in the tier cpu, and "
                f"then together with the last {layers} layers of the encoder, for {epochs} epoch. The paper trains the "
                "whole encoder until validation no longer improves. If the second stage does not improve accuracy on "
                "validation, the figures are those of the first. Every model is treated alike."
            )
        if self.is_frozen:
            remarks.append(
                f"Only the poolings are trained, in one stage, on the frozen features of {BACKBONE_OF[task]}. Its "
                "backbone is the contrast stage of the preset best in round 1, of 21,509 exemplars: it has seen no "
                "writer of test or validation, but it is the same for all rounds and sizes, so the figures do not say "
                "how a backbone depends on them. Every model is treated alike."
            )
        if self.name == "cpu" and task == "signature":
            remarks.append(
                "The features are histograms of oriented gradients, which are not learned: all models are trained on "
                "them (the first stage only), whereas the paper trains a pretrained EfficientNet. Each query meets two "
                "anchors instead of all. The finished cells use the Dutch half of SigComp2011 without its 646 "
                "reference signatures, as far as it is public: 64 writers, 3,052 train exemplars in round 0 (the paper "
                "has Chinese signatures too, and about 82,000). Each round tests on 6 other writers, so figures differ "
                "much between rounds. Differences between models can be compared with the paper's; the figures "
                "themselves can be compared less well."
            )
        if task == "fever-dev":
            remarks.append(
                "The data are only the claims of FEVER's development set, which are the paper's validation and test "
                "claims, in splits that share no sentence; the paper trains on 33,000 others. Distractors are "
                "sentences near the claim by TF-IDF, whereas the paper takes the rest of the pages. Rounds differ only "
                "in their weights. Compare only the order of the models and the paper's claims with the paper, not the "
                "figures themselves."
            )
        if task == "claims":
            remarks.append(
                "Fool Me Twice stands in for FEVER, with other claims, other bags, and far fewer of them. Compare only "
                "the order of the models and the paper's claims with the paper, not the figures themselves."
            )
        return remarks


TIERS: Mapping[str, Tier] = {
    tier.name: tier
    for tier in (
        Tier("paper", "the paper's settings, for GPUs"),
        Tier("cpu", "compact CNN or frozen encoder, fewer epochs; the same draw of exemplars"),
        Tier("frozen", "QMNIST only: poolings on the frozen features of miv/digits; minutes a cell", is_frozen=True),
        Tier("finetuned", "fever-dev only: the last layers of the encoder are trained too", is_fine_tuned=True),
        Tier("smoke", "seconds, on synthetic twins; says nothing about the paper", is_twin=True),
    )
}


def find_tier(name: str) -> Tier:
    """The tier with this name."""
    if name not in TIERS:
        raise unknown_name("tier", name, TIERS)
    return TIERS[name]
