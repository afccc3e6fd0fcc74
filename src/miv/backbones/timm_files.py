"""Read ``timm`` networks from files: a checkpoint, or a folder in the format that ``timm`` saves for the hub."""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from miv.errors import MIVError
from miv.io.hub_names import folders_near
from miv.io.json_files import read_json_object
from miv.io.model_files import load_weights

LOCAL_FOLDER = "local-dir:"
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_WITHIN = ("state_dict_ema", "state_dict", "model_ema", "model")  # keys under which training scripts store the weights
_CLASSIFIERS = ("fc.", "head.", "classifier.", "last_linear.")


def read_folder(name: str) -> tuple[str, dict[str, Any], Path]:
    """Return the network's name in ``timm``, its image settings and its weights, from ``local-dir:FOLDER``."""
    folder = Path(name.removeprefix(LOCAL_FOLDER)).expanduser()
    expected = f"Expected a folder with config.json and {' or '.join(_WEIGHTS)}, as saved by timm for the hub."
    if not folder.is_dir():
        raise MIVError(f"timm:{name}: there is no folder {str(folder)!r}. {expected}{folders_near(folder)}")
    document = read_json_object(folder / "config.json", expected)
    architecture, view = document.get("architecture"), document.get("pretrained_cfg", document)
    if not isinstance(architecture, str) or not isinstance(view, dict):
        raise MIVError(f"{folder / 'config.json'} does not name a timm architecture. {expected}")
    weights = next((folder / file for file in _WEIGHTS if (folder / file).is_file()), None)
    if weights is None:
        raise MIVError(f"{folder} contains no weights. {expected}")
    return architecture, {key: view[key] for key in ("input_size", "mean", "std") if view.get(key)}, weights


def load_checkpoint(model: nn.Module, path: Path) -> None:
    """Load all weights of a file into a network, except those of a classifier."""
    weights, wanted = _read(path), model.state_dict()
    missing = sorted(wanted.keys() - weights.keys())
    surplus = sorted(name for name in weights.keys() - wanted.keys() if not name.startswith(_CLASSIFIERS))
    other = sorted(name for name in wanted.keys() & weights.keys() if wanted[name].shape != weights[name].shape)
    if missing or surplus or other:
        raise MIVError(
            f"{path} does not match the network: missing {missing[:3] or 'nothing'}, unexpected "
            f"{surplus[:3] or 'nothing'}, different shapes for {other[:3] or 'nothing'}. Pass the name of the network "
            "that the weights belong to."
        )
    model.load_state_dict({name: weights[name] for name in wanted})


def _read(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise MIVError(f"There is no file {str(path)!r}. Expected a checkpoint of weights, .safetensors or .pth.")
    if path.suffix == ".safetensors":
        return load_weights(path)
    try:
        document = torch.load(path, map_location="cpu", weights_only=True)  # never runs code from the file
    except (pickle.UnpicklingError, RuntimeError, OSError, ValueError, EOFError) as error:
        reason = str(error).strip().split("\n")[0].rstrip(".")
        raise MIVError(
            f"{path} is not a checkpoint of weights: {reason}. Save model.state_dict(), or use a .safetensors file."
        ) from error
    if isinstance(document, Mapping):
        document = next((document[key] for key in _WITHIN if isinstance(document.get(key), Mapping)), document)
    if not isinstance(document, Mapping) or not all(isinstance(value, Tensor) for value in document.values()):
        raise MIVError(f"{path} contains no named weights. Save model.state_dict(), or use a .safetensors file.")
    return {str(name).removeprefix("module."): value for name, value in document.items()}
