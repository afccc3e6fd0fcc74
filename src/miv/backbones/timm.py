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
    """Any network of the library ``timm`` for images, such as ``resnet18`` or ``tf_efficientnetv2_b3``.

    Args:
        name: the network's name in ``timm``, or ``local-dir:FOLDER`` for a folder with ``config.json`` and weights, as
            ``timm`` saves it for the hub.
        pretrained: fetch its pretrained weights; otherwise they are random.
        image_size: ``(height, width)`` or ``"112x96"``; by default the size of its pretraining.
        freeze_batch_norm: keep BatchNorm as it is while all else learns; by default where it is pretrained.
        checkpoint: a file of weights (.safetensors, .pth) to read instead of fetching them.
        architecture: the network's name in ``timm``, where ``name`` is a folder. With it the folder is not read.
        image_mean: of the three channels on a scale from 0 to 1; by default that of its pretraining.
        image_std: likewise.
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
        if ":" in self.name or "/" in self.name:  # timm would fetch the network itself, which may be of any kind
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
        # Only what is not as timm has it, so that the fingerprints of all others stay what they were.
        if self._is_from_folder:
            options["architecture"] = self.name
        for part, value in (("mean", self.view.mean), ("std", self.view.std)):
            if value != tuple(self._known[part]):
                options[f"image_{part}"] = list(value)
        return options

    def fingerprint(self) -> str:
        """Networks of one shape may differ in an activation or in how they see images, which no weight says."""
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
    except (ImportError, RuntimeError, AttributeError) as error:  # a torchvision of another build breaks in many ways
        raise MIVError(
            f"The backbone timm:{name} needs the library timm, and a torchvision that fits torch "
            f"({str(error).strip().splitlines()[0]}). Run: pip install 'miv[timm]'"
        ) from error
    if name not in timm.list_models() and name not in timm.list_pretrained():
        raise MIVError(f"timm has no network {name!r}. `timm.list_models('*part of the name*')` lists them.")
    try:
        return timm.create_model(name, pretrained=pretrained, num_classes=0, global_pool="avg")
    except Exception as error:  # no network, no such weights
        reason = str(error).strip().splitlines()[0]
        raise MIVError(
            f"timm:{name} cannot be made: {reason}. Without pretrained weights: pretrained=False."
        ) from error
