"""How a sentence encoder turns the vectors of its tokens into one: as its own files declare."""

import json
import warnings
from pathlib import Path
from typing import Any, Literal

from miv.errors import MIVError, MIVWarning, unknown_name

TokenPooling = Literal["mean", "cls"]
POOLING_NAME = "1_Pooling/config.json"  # where sentence-transformers keeps it
_KNOWN: tuple[TokenPooling, ...] = ("mean", "cls")


def choose_pooling(given: str | None, name: str, source: str | None) -> TokenPooling:
    """Return what was asked for, else what the model declares, else ``mean``.

    Args:
        given: what was asked for.
        name: what the model is called in messages.
        source: its folder, or its name on the hub; ``None`` where nothing is to be read.
    """
    if given is not None and given not in _KNOWN:
        raise unknown_name("pooling of tokens named", str(given), _KNOWN)
    declared = None if source is None else _declared(name, source)
    if given is None:
        if declared is not None and declared not in _KNOWN:
            raise MIVError(
                f"hf:{name} declares the pooling {declared!r} in {POOLING_NAME}. Expected mean or cls. Choose one of "
                "the two yourself: backbone_options pooling=mean or pooling=cls."
            )
        return next((known for known in _KNOWN if known == declared), "mean")
    if declared is not None and declared != given:
        warnings.warn(
            f"The pooling of tokens is {given!r}, but hf:{name} was trained with {declared!r}, and its features are "
            f"worse with another one. Leave the option pooling out to use {declared!r}.",
            MIVWarning,
            stacklevel=2,
        )
    return next(known for known in _KNOWN if known == given)


def _declared(name: str, source: str) -> str | None:
    """What the model's folder, or its page on the hub, says; ``None`` where it says nothing."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        path = Path(source) / POOLING_NAME if Path(source).is_dir() else Path(hf_hub_download(source, POOLING_NAME))
        document = json.loads(path.read_text(encoding="utf-8"))
    except LocalEntryNotFoundError:
        warnings.warn(
            f"The hub did not answer, so it is not known how hf:{name} pools its tokens. Taking the mean. Say which "
            "it is by the option pooling.",
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
    """The mode, in either of the two ways in which sentence-transformers writes it.

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
