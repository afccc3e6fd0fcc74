"""The file of one kept bag: its features as safetensors, and a digest that tells a damaged file from a whole one."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from miv.errors import MIVError

Rows = NDArray[np.float32]
_FORMAT = "miv-kept-bag-1"
_NAME = "features"


class DamagedKeptBag(MIVError):  # noqa: N818 - named after what is wrong
    """The file does not hold what was written."""


@dataclass(frozen=True, eq=False)
class KeptContent:
    """What a file holds.

    Args:
        features: ``(N, C)``, one row per instance.
        fingerprint: of the backbone that computed them.
        model: the name of the verifier that they were kept for.
    """

    features: Rows
    fingerprint: str
    model: str


def packed(content: KeptContent) -> bytes:
    """The bytes of a file."""
    features = np.ascontiguousarray(content.features, np.float32)
    about = {"format": _FORMAT, "fingerprint": content.fingerprint, "model": content.model}
    return save({_NAME: features}, {**about, "sha256": _digest(features, about)})


def read_kept(path: Path) -> KeptContent:
    """Read and check a file; a missing one raises ``FileNotFoundError``."""
    given = path.read_bytes()
    try:
        features, about = load(given)[_NAME], _metadata(given)
        digest = about.pop("sha256")
        if about["format"] != _FORMAT or features.ndim != 2 or features.dtype != np.float32:
            raise ValueError(about["format"])
        if digest != _digest(features, about):
            raise ValueError("other digest")
        return KeptContent(features, about["fingerprint"], about["model"])
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise DamagedKeptBag(f"{path} is damaged. Keep the bag again.") from error


def _metadata(given: bytes) -> dict[str, str]:
    """The texts in the header, which ``load`` drops."""
    length = int.from_bytes(given[:8], "little")
    return dict(json.loads(given[8 : 8 + length])["__metadata__"])


def _digest(features: Rows, about: dict[str, str]) -> str:
    digest = hashlib.sha256(repr((features.shape, sorted(about.items()))).encode())
    digest.update(features.data)
    return digest.hexdigest()
