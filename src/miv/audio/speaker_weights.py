"""Convert the weights of Resemblyzer's speaker encoder, once, from its pickle to safetensors."""

import io
import pickle
import tempfile
import zipfile
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from miv.audio.speaker_encoder import SpeakerEncoder
from miv.errors import MIVError
from miv.io.downloads import RemoteFile, fetch
from miv.io.temporary_names import make_ordinary
from miv.io.whole_files import whole_file
from miv.runtime.progress import Progress

WHEEL = RemoteFile(
    "https://files.pythonhosted.org/packages/d9/b5/d897d5de5b2123a1ad5d32e8e007d83f76582f5c32c60992577263bd7c7e/"
    "Resemblyzer-0.1.4-py3-none-any.whl",
    15_747_704,
    "8f12eb2f1a9982d32e8db7856de754709b59c93a77bcf0ff536584b619a9dd1f",
)
"""The package on PyPI whose weights are used (Apache 2.0); nothing in it is run."""

_MEMBER = "resemblyzer/pretrained.pt"
_MOST_BYTES = 200_000_000


def write_speaker_weights(out: Path, source: Path | None, progress: Progress) -> None:
    """Write the encoder's weights as safetensors.

    Args:
        out: the file to write.
        source: Resemblyzer's wheel, or the ``pretrained.pt`` in it; ``None`` downloads the wheel from PyPI.
        progress: reports the download.
    """
    if source is None:
        with tempfile.TemporaryDirectory() as folder:
            weights = _read(fetch(WHEEL, Path(folder), progress))
    else:
        weights = _read(source)
    with whole_file(out) as temporary:
        save_file(weights, temporary, metadata={"source": "Resemblyzer 0.1.4, Apache-2.0"})
        make_ordinary(temporary)


def _read(path: Path) -> dict[str, Tensor]:
    content = _content(path)
    try:
        # weights_only: a pickle may otherwise run any code.
        document = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        given = document["model_state"]
        with torch.device("meta"):
            expected = SpeakerEncoder().state_dict()
        weights = {name: given[name].float().contiguous() for name in expected}  # also holds those of its training loss
    except (pickle.UnpicklingError, RuntimeError, EOFError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise MIVError(f"{path} does not hold the weights of the speaker encoder ({_first_line(error)}).") from error
    for name, tensor in weights.items():
        if tensor.shape != expected[name].shape or not bool(torch.isfinite(tensor).all()):
            raise MIVError(
                f"{path}: {name} is {tuple(tensor.shape)}. Expected finite numbers {tuple(expected[name].shape)}."
            )
    return weights


def _content(path: Path) -> bytes:
    if not path.is_file():
        raise MIVError(f"{path} is not a file. Expected {WHEEL.name}, or the pretrained.pt in it.")
    if path.suffix != ".whl":
        if path.stat().st_size > _MOST_BYTES:
            raise MIVError(f"{path}: longer than {_MOST_BYTES:,} bytes. Expected pretrained.pt of Resemblyzer.")
        return path.read_bytes()
    try:
        with zipfile.ZipFile(path) as wheel:
            if wheel.getinfo(_MEMBER).file_size > _MOST_BYTES:
                raise MIVError(f"{path}: {_MEMBER} is longer than {_MOST_BYTES:,} bytes.")
            return wheel.read(_MEMBER)
    except (zipfile.BadZipFile, KeyError, OSError) as error:
        raise MIVError(f"{path} is not the wheel of Resemblyzer ({_first_line(error)}).") from error


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]
