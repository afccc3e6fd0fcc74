"""The numbers of the tiers: backbone, optimiser, batches and epochs of a cell, the same for all models."""

from typing import Any

from miv.training.auto import CONTRAST_START

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

# What the tier `finetuned` changes in `cpu`: after its stage comes the paper's second one, which also trains the last
# layers of the encoder. Two layers and one epoch are what two cores allow. The rates are usual ones, not tuned.
FINE_TUNED: dict[str, dict[str, Any]] = {
    "fever-dev": {
        "full_stage": True,
        "frozen_learning_rates": CPU["fever-dev"]["learning_rates"],
        "frozen_max_epochs": CPU["fever-dev"]["max_epochs"],
        "frozen_patience": CPU["fever-dev"]["patience"],
        "learning_rates": ((0, 3e-4),),
        "backbone_learning_rate": 1e-4,
        "trainable_layers": 2,
        "max_epochs": 1,
        "patience": 1,
    }
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
