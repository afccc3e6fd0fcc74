from hashlib import sha256
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from miv.backbones.backbone_base import Backbone, is_being_loaded
from miv.backbones.backbone_names import register_backbone
from miv.backbones.image_inputs import ImageView
from miv.backbones.timm_files import LOCAL_FOLDER, load_checkpoint, read_folder
from miv.errors import MIVError


@register_backbone("timm")
class Timm(Backbone):
    """Any image network of the library ``timm``, such as ``resnet18`` or ``tf_efficientnetv2_b3``.

    Args:
        name: the network's name in ``timm``, or ``local-dir:FOLDER`` for a folder with ``config.json`` and weights, as
            saved by ``timm`` for the hub.
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
            raise MIVError(
                "backbone_options has pretrained: true, or a checkpoint. A saved verifier has its own weights."
            )
        weights = None if checkpoint is None else Path(checkpoint).expanduser()
        of_folder: dict[str, Any] = {}
        self.name = architecture or name
        if architecture is None and name.startswith(LOCAL_FOLDER):
            self.name, of_folder, weights_there = read_folder(name)
            weights = weights or weights_there
        if ":" in self.name or "/" in self.name:  # timm would download the network itself, which may be anything
            raise MIVError(
                f"The network is {self.name!r}. Expected one of timm's own names, such as resnet18, or "
                f"{LOCAL_FOLDER}FOLDER."
            )
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
        options = {
            "pretrained": False,
            "image_size": list(self.view.size),
            "freeze_batch_norm": self.freeze_batch_norm,
        }
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
        raise MIVError(
            f"The backbone timm:{name} needs the library timm, and a torchvision that matches torch "
            f"({str(error).strip().splitlines()[0]}). Run: pip install 'miv[timm]'"
        ) from error
    if name not in timm.list_models() and name not in timm.list_pretrained():
        raise MIVError(f"timm has no network {name!r}. `timm.list_models('*part of the name*')` lists them.")
    try:
        return timm.create_model(name, pretrained=pretrained, num_classes=0, global_pool="avg")
    except Exception as error:  # no network, no such weights
        reason = str(error).strip().splitlines()[0]
        raise MIVError(
            f"Cannot create timm:{name}: {reason}. Use pretrained=False to go without pretrained weights."
        ) from error
