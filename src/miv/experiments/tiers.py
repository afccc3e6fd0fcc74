"""The compute budget of a cell. A tier sets backbone, optimiser, batches and epochs for all models alike.

The draw of the exemplars, metrics and model selection (the epoch of the best validation accuracy) are the same in
``paper`` and ``cpu``. Besides cost, ``cpu`` changes the following: signatures have two anchors per query instead of
all, signatures and texts are trained only in the first of the paper's two stages, and QMNIST has a contrast stage
before both.
``frozen`` trains only poolings, on the features of a verifier that comes with the package.
``smoke`` runs on the synthetic twin of the task and says nothing about the paper.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from miv.backbones.hf_names import MINILM
from miv.errors import MIVError, unknown_name
from miv.experiments.grids import Cell
from miv.experiments.published import STANDS_IN
from miv.poolings import POOLINGS
from miv.training.config import TrainingConfig
from miv.training.presets import CONTRAST_START, ONE_CYCLE, preset

# What the tier `cpu` changes in ONE_CYCLE. All its numbers are here.
_FROZEN_TEXT: dict[str, Any] = {
    "backbone_options": {"pooling": "mean"},
    "full_stage": False,
    "heads": 4,
    "batch_size": 48,
    "grouping": 1,
    "learning_rates": ((0, 1e-3),),
    "frozen_learning_rates": (),
    "max_epochs": 30,
    "patience": 30,
}
CPU: dict[str, dict[str, Any]] = {
    # One contrast stage per round serves all models: it replaces the paper's pretrained weights.
    "qmnist": CONTRAST_START
    | {
        "heads": 2,
        "batch_size": 64,
        "learning_rates": ((0, 3e-4),),
        "frozen_learning_rates": ((0, 2e-3),),
        "max_epochs": 1,
        "patience": 1,
        "frozen_max_epochs": 6,
        "frozen_patience": 6,
    },
    # A fixed descriptor: a network from random weights is worse on so few writers, and MobileNetV2 too wide for a CPU.
    "signature": {
        "backbone": "hog",
        "full_stage": False,
        "heads": 6,
        "batch_size": 64,
        "grouping": 1,
        "learning_rates": ((0, 1e-3),),
        "frozen_learning_rates": (),
        "max_epochs": 30,
        "patience": 10,
    },
    "fever": _FROZEN_TEXT,
    # Of the models that overfit within few epochs, the rest of the cycle would change nothing but the cost.
    "fever-dev": _FROZEN_TEXT | {"patience": 6},
    "claims": _FROZEN_TEXT,
}
# Fewer exemplars of the same signatures: each query meets two of its writer's others, not every one.
CPU_TASK_OPTIONS: dict[str, dict[str, Any]] = {"signature": {"anchors_per_query": 2}}

# What the tier `frozen` changes in `cpu`: no stage trains the backbone, which is that of a verifier in the package.
BACKBONE_OF = {"qmnist": "miv/digits"}
FROZEN: dict[str, Any] = {
    "backbone_options": {**CONTRAST_START["backbone_options"], "shift": 1},
    "augmentation": "none",
    "contrast_epochs": 0,
    "full_stage": False,
    "patience": 6,
}

# The twins of the tier `smoke`, small enough for seconds.
TWINS: dict[str, tuple[str, dict[str, Any]]] = {
    "qmnist": ("digits-twin", {"writers": 6, "held_out_writers": 6, "copies": 2}),
    "signature": (
        "signatures-twin",
        {"writers": 6, "held_out_writers": 6, "genuine": 3, "forged": 2, "anchors_per_query": 1, "height": 16},
    ),
    "fever": ("claims-twin", {"pages": 8, "held_out_pages": 6, "claims": 2}),
    "fever-dev": ("claims-twin", {"pages": 8, "held_out_pages": 6, "claims": 2}),
    "claims": ("claims-twin", {"pages": 8, "held_out_pages": 6, "claims": 2}),
}
SMOKE: dict[str, Any] = {"max_epochs": 1, "frozen_max_epochs": 1, "batch_size": 64, "bucket": 32}


@dataclass(frozen=True)
class Tier:
    """A compute budget for cells.

    Args:
        name: its name for `--tier`.
        summary: one-line summary.
        is_twin: whether it runs on synthetic twins, which say nothing about the paper.
        is_frozen: whether it trains only poolings, on the backbone of a verifier in the package.
    """

    name: str
    summary: str
    is_twin: bool = False
    is_frozen: bool = False

    def takes(self, task: str) -> bool:
        """Whether it has settings for a task."""
        return not self.is_frozen or task in BACKBONE_OF

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
            raise MIVError(f"The tier {self.name} has only {', '.join(BACKBONE_OF)}, not {task}. Use another --tier.")

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
        Tier("smoke", "seconds, on synthetic twins; says nothing about the paper", is_twin=True),
    )
}


def find_tier(name: str) -> Tier:
    """The tier with this name."""
    if name not in TIERS:
        raise unknown_name("tier", name, TIERS)
    return TIERS[name]
