"""The preset ``auto``: choose settings by the kind and number of the data, with a one-line reason."""

from dataclasses import dataclass
from typing import Any

from miv.data import ExemplarSet
from miv.errors import MIVError
from miv.poolings import POOLINGS
from miv.poolings.cap import CrossAttentionPooling
from miv.runtime.cores import available_cores
from miv.training.config import TrainingConfig
from miv.training.presets import HEAD
from miv.training.standardising import FEW_CHANNELS, should_standardise
from miv.training.text_choice import BACKBONE, POOLING, choose_for_texts, with_tokens

# Number of train exemplars above which a network from scratch beats a fixed descriptor with a learned map. On Omniglot
# (6,000) and the twins (3,000 to 5,000), the descriptor was better, and took minutes instead of an hour.
ENOUGH_TO_LEARN_FROM = 10_000
FROM_NOTHING = ("hog_cnn", "compact_cnn")  # networks that start with random weights
_LONGEST_MINUTES = 40.0  # of a contrast stage
_IMAGES_A_SECOND = 900  # 28 × 28 images per second that one core can train on


@dataclass(frozen=True)
class Choice:
    """Settings, and one line that says what was chosen and why."""

    config: TrainingConfig
    reason: str


def choose(sets: dict[str, ExemplarSet], given: dict[str, Any], *, is_trained: bool = False) -> Choice:
    """Choose settings for the exemplars; ``given`` settings are kept, and the others are chosen to match.

    Args:
        sets: with ``train``.
        given: settings chosen by the user.
        is_trained: whether the backbone comes from a verifier, so that it is not trained from scratch again.
    """
    if "train" not in sets:
        raise MIVError(
            f"The split 'train' is missing; got only {', '.join(sets)}. Training needs train and validation."
        )
    train = sets["train"]
    settings = HEAD | _by_size(len(train))
    kind = train.pool.kind
    backbone = given.get("backbone")
    wants_network = bool(given.get("contrast_epochs") or given.get("full_stage"))
    if not is_trained and kind == "image" and backbone in FROM_NOTHING:
        settings |= _contrast(train) | {"backbone": backbone}
        words = f"images with {backbone} as given, {_told(train, settings | given)}"
    elif backbone is not None and backbone != "features":
        settings["align_epochs"] = 12
        if backbone == BACKBONE and given.get("pooling", POOLING) == POOLING and not is_trained:
            settings |= with_tokens()
        words = f"backbone {backbone} as given{'' if given.get('full_stage') else ', frozen'}"
    elif kind == "features":
        settings["align_epochs"] = 12
        words = "vectors unchanged"
        if not is_trained and "backbone_options" not in given and should_standardise(train):
            settings["backbone_options"] = {"standardise": True}
            words = "vectors, standardised, as columns of a table should be"
    elif kind == "text":
        choice = choose_for_texts(sets, given)
        settings |= choice.settings | {"align_epochs": 12}
        words = choice.words
    elif len(train) < ENOUGH_TO_LEARN_FROM and not wants_network:
        settings |= {"backbone": "hog", "align_epochs": 12}
        words = (
            f"images with a fixed descriptor (hog){_and_map(given)}, because {len(train):,} exemplars are too few to "
            "train a network from scratch"
        )
    else:
        settings |= _contrast(train)
        words = f"images with a small network and a fixed descriptor (hog_cnn), {_told(train, settings | given)}"
    if not is_trained and _wants_no_norm(train, given):
        settings["pooling_options"] = {"norm": "none"}
    if given.get("start") == "paper":
        settings["align_epochs"] = 0  # the paper's norm has no map
    pooling = given.get("pooling", settings.get("pooling", TrainingConfig.pooling))
    config = TrainingConfig().changed(settings | {"pooling": pooling})
    reason = f"Chosen for {len(train):,} train exemplars of {_mean_size(train):.1f} instances: {words}."
    if not POOLINGS[config.pooling].make.starts_as_nearest:
        reason += (
            f" {config.pooling} does not compare targets with the query, so it cannot start as good as the "
            "nearest target; the cap poolings and baseline can."
        )
    return Choice(config, reason)


def _and_map(given: dict[str, Any]) -> str:
    return " and a learned map" if POOLINGS[given.get("pooling", TrainingConfig.pooling)].make.learns else ""


def _wants_no_norm(train: ExemplarSet, given: dict[str, Any]) -> bool:
    """With few channels, a LayerNorm of each target loses too much of what tells them apart."""
    has_few = train.pool.kind == "features" and train.pool.values.shape[1] < FEW_CHANNELS
    is_cap = issubclass(POOLINGS[given.get("pooling", TrainingConfig.pooling)].make, CrossAttentionPooling)
    return has_few and is_cap and given.get("start") != "paper" and not given.get("pooling_options")


def _by_size(exemplars: int) -> dict[str, Any]:
    """Use smaller batches if there are few steps, and fewer epochs if each has many steps."""
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
    return f"trained from scratch in {epochs} contrast epochs, about {minutes} min on this machine"


def _minutes(train: ExemplarSet, epochs: int) -> float:
    """Estimate how long a contrast stage takes on the available cores."""
    images = float(train.label.sum()) * (1 + _mean_size(train)) * epochs
    pixels = float(train.pool.values.shape[1] * train.pool.values.shape[2]) / 28**2
    return max(0.1, images * pixels / _IMAGES_A_SECOND / min(2, available_cores()) / 60)


def _mean_size(exemplars: ExemplarSet) -> float:
    return float(exemplars.bag_sizes.mean())
