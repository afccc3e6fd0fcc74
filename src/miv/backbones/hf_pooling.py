"""The token pooling of a sentence encoder, as declared in its own files."""

import json
import warnings
from pathlib import Path
from typing import Any, Literal

from miv.errors import MIVError, MIVWarning, unknown_name

TokenPooling = Literal["mean", "cls"]
POOLING_NAME = "1_Pooling/config.json"  # as in sentence-transformers
_KNOWN: tuple[TokenPooling, ...] = ("mean", "cls")


def choose_pooling(given: str | None, name: str, source: str | None) -> TokenPooling:
    """Return the requested pooling, else the one that the model declares, else ``mean``.

    Args:
        given: the requested pooling.
        name: the model's name in messages.
        source: its folder, or its name on the hub; ``None`` to read nothing.
    """
    if given is not None and given not in _KNOWN:
        raise unknown_name("pooling of tokens named", str(given), _KNOWN)
    declared = None if source is None else _declared(name, source)
    if given is None:
        if declared is not None and declared not in _KNOWN:
            raise MIVError(
                f"hf:{name} declares the pooling {declared!r} in {POOLING_NAME}. Expected mean or cls. Set one of "
                "them: backbone_options pooling=mean or pooling=cls."
            )
        return next((known for known in _KNOWN if known == declared), "mean")
    if declared is not None and declared != given:
        warnings.warn(
            f"The pooling of tokens is {given!r}, but hf:{name} was trained with {declared!r}, and features are "
            f"worse with another pooling. Omit the option pooling to use {declared!r}.",
            MIVWarning,
            stacklevel=2,
        )
    return next(known for known in _KNOWN if known == given)


def _declared(name: str, source: str) -> str | None:
    """The pooling declared in the model's folder or on the hub; ``None`` if there is none."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        path = Path(source) / POOLING_NAME if Path(source).is_dir() else Path(hf_hub_download(source, POOLING_NAME))
        document = json.loads(path.read_text(encoding="utf-8"))
    except LocalEntryNotFoundError:
        warnings.warn(
            f"The hub did not answer, so the token pooling of hf:{name} is unknown. Using the mean. Set "
            "the option pooling to choose.",
            MIVWarning,
            stacklevel=3,
        )
        return None
    except (FileNotFoundError, EntryNotFoundError):
        return None
    except (OSError, ValueError) as error:
        raise MIVError(f"The {POOLING_NAME} of hf:{name} cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise MIVError(f"The {POOLING_NAME} of hf:{name} is not a JSON object.")
    return _mode(document)


def _mode(document: dict[str, Any]) -> str | None:
    """The mode, in either of the two formats of sentence-transformers.

    >>> _mode({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}), _mode({"pooling_mode": "cls"})
    ('mean', 'cls')
    """
    if "pooling_mode" in document:
        mode = document["pooling_mode"]
        return mode if isinstance(mode, str) else "+".join(map(str, mode))
    modes = [name.removeprefix("pooling_mode_") for name, value in document.items() if value is True]
    names = {"cls_token": "cls", "mean_tokens": "mean"}
    found = [names.get(mode, mode) for mode in modes if f"pooling_mode_{mode}" in document]
    return "+".join(found) or None
