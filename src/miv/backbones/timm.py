"""The backbone ``timm:NAME``: a network of timm, from the hub, a checkpoint, or a folder that timm saved."""

import pickle
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from miv.backbones.base import Backbone, is_being_loaded
from miv.backbones.hf_files import first_line
from miv.backbones.hf_images import ImageView
from miv.backbones.names import register_backbone
from miv.errors import MIVError
from miv.files.cache import folders_near
from miv.files.json import read_json_object
from miv.files.weights import load_weights

LOCAL_FOLDER = "local-dir:"
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_WITHIN = ("state_dict_ema", "state_dict", "model_ema", "model")  # keys under which training scripts store the weights
_REMEDY = "Save model.state_dict(), or use a .safetensors file."
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
        parts = f"missing {missing[:3]}, unexpected {surplus[:3]}, different shapes for {other[:3]}"
        raise MIVError(f"{path} does not match the network: {parts}. Pass the name of its network.")
    model.load_state_dict({name: weights[name] for name in wanted})


def _read(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise MIVError(f"There is no file {str(path)!r}. Expected a checkpoint of weights, .safetensors or .pth.")
    if path.suffix == ".safetensors":
        return load_weights(path)
    try:
        document = torch.load(path, map_location="cpu", weights_only=True)  # never runs code from the file
    except (pickle.UnpicklingError, RuntimeError, OSError, ValueError, EOFError) as error:
        raise MIVError(f"{path} is not a checkpoint of weights: {first_line(error)}. {_REMEDY}") from error
    if isinstance(document, Mapping):
        document = next((document[key] for key in _WITHIN if isinstance(document.get(key), Mapping)), document)
    if not isinstance(document, Mapping) or not all(isinstance(value, Tensor) for value in document.values()):
        raise MIVError(f"{path} contains no named weights. {_REMEDY}")
    return {str(name).removeprefix("module."): value for name, value in document.items()}


@register_backbone("timm")
class Timm(Backbone):
    """Any image network of the library ``timm``, such as ``resnet18`` or ``tf_efficientnetv2_b3``.

    Args:
        name: the network's name in ``timm``, or ``local-dir:FOLDER`` for a folder that ``timm`` saved for the hub.
        pretrained: download pretrained weights; otherwise weights are random.
        image_size: ``(height, width)`` or ``"112x96"``; by default the size of its pretraining.
        freeze_batch_norm: keep BatchNorm fixed in training; by default if the network is pretrained.
        checkpoint: a file of weights (.safetensors, .pth) to use instead of downloading them.
        architecture: the network's name in ``timm``, if ``name`` is a folder. With it, the folder is not read.
        image_mean: mean of the three channels on a scale from 0 to 1; by default that of its pretraining.
        image_std: standard deviation of the three channels, with the same scale and default.
    """

    kind = "image"
    libraries = ("timm",)

    def __init__(
        self,
        name: str,
        pretrained: bool = True,
        image_size: tuple[int, int] | None = None,
        freeze_batch_norm: bool | None = None,
        checkpoint: str | None = None,
        architecture: str | None = None,
        image_mean: tuple[float, float, float] | None = None,
        image_std: tuple[float, float, float] | None = None,
    ) -> None:
        super().__init__()
        if (pretrained or checkpoint) and is_being_loaded():
            raise MIVError("backbone_options has pretrained or checkpoint. A saved verifier has its own weights.")
        weights = None if checkpoint is None else Path(checkpoint).expanduser()
        of_folder: dict[str, Any] = {}
        self.name = architecture or name
        if architecture is None and name.startswith(LOCAL_FOLDER):
            self.name, of_folder, weights_there = read_folder(name)
            weights = weights or weights_there
        if ":" in self.name or "/" in self.name:  # timm would download the network itself, which may be anything
            raise MIVError(f"The network is {self.name!r}. Expected one of timm's own names, or {LOCAL_FOLDER}FOLDER.")
        self._is_from_folder = name != self.name
        self.freeze_batch_norm = pretrained if freeze_batch_norm is None else freeze_batch_norm
        self.model = _create(self.name, pretrained and weights is None)
        if weights is not None:
            load_checkpoint(self.model, weights)
        self._known = self.model.pretrained_cfg
        known = {**self._known, **of_folder}
        self.view = ImageView.checked(
            image_size or known["input_size"][1:], image_mean or known["mean"], image_std or known["std"]
        )
        self.channels = int(self.model.num_features)
        self.instance_shape = (3, *self.view.size)
        self.train()

    @classmethod
    def is_pretrained(cls, options: dict[str, Any]) -> bool:
        return bool(options.get("pretrained", True))

    def configuration(self) -> dict[str, Any]:
        options = {"pretrained": False, "image_size": list(self.view.size), "freeze_batch_norm": self.freeze_batch_norm}
        # Only what differs from timm's defaults, so that the fingerprints of all others stay the same.
        if self._is_from_folder:
            options["architecture"] = self.name
        for part, value in (("mean", self.view.mean), ("std", self.view.std)):
            if value != tuple(self._known[part]):
                options[f"image_{part}"] = list(value)
        return options

    def fingerprint(self) -> str:
        """Include name and image settings: networks with equal weights may differ in activations or preparation."""
        seen = f"{super().fingerprint()} {self.name} {self.view.options()}"
        return sha256(seen.encode()).hexdigest()

    def prepare(self, values: NDArray[Any]) -> Tensor:
        return self.view.prepare(values)

    def forward(self, instances: Tensor) -> Tensor:
        features: Tensor = self.model(instances)  # (U, C), global average pooling
        return features


def _create(name: str, pretrained: bool) -> Any:
    try:
        import timm
    except (ImportError, RuntimeError, AttributeError) as error:  # a mismatched torchvision fails in many ways
        needs = "needs timm, and a torchvision that matches torch"
        raise MIVError(f"timm:{name} {needs} ({first_line(error)}). Run: pip install 'miv[timm]'") from error
    if name not in timm.list_models() and name not in timm.list_pretrained():
        raise MIVError(f"timm has no network {name!r}. `timm.list_models('*part of the name*')` lists them.")
    try:
        return timm.create_model(name, pretrained=pretrained, num_classes=0, global_pool="avg")
    except Exception as error:  # no network, no such weights
        raise MIVError(f"Cannot create timm:{name}: {first_line(error)}. Perhaps use pretrained=False.") from error
