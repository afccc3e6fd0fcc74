from hashlib import sha256
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from miv.backbones.backbone_base import Backbone, is_being_loaded
from miv.backbones.backbone_names import register_backbone
from miv.backbones.image_inputs import ImageView
from miv.errors import MIVError


@register_backbone("timm")
class Timm(Backbone):
    """Any network of the library ``timm`` for images, such as ``resnet18`` or ``tf_efficientnetv2_b3``.

    Args:
        name: the network's name in ``timm``.
        pretrained: fetch its pretrained weights; otherwise they are random.
        image_size: ``(height, width)``; by default the size of its pretraining.
        freeze_batch_norm: keep BatchNorm as it is while all else learns; by default where it is pretrained.
    """

    kind = "image"
    libraries = ("timm",)

    def __init__(
        self,
        name: str,
        pretrained: bool = True,
        image_size: tuple[int, int] | None = None,
        freeze_batch_norm: bool | None = None,
    ) -> None:
        super().__init__()
        if pretrained and is_being_loaded():
            raise MIVError("backbone_options has pretrained: true. A saved verifier has its own weights.")
        if ":" in name or "/" in name:  # timm would fetch the network itself, which may be of any kind
            raise MIVError(f"The network is {name!r}. Expected one of timm's own names, such as resnet18.")
        self.freeze_batch_norm = pretrained if freeze_batch_norm is None else freeze_batch_norm
        self.name = name
        self.model = _create(name, pretrained)
        known = self.model.pretrained_cfg
        self.view = ImageView.checked(image_size or known["input_size"][1:], known["mean"], known["std"])
        self.channels = int(self.model.num_features)
        self.instance_shape = (3, *self.view.size)
        self.train()

    @classmethod
    def is_pretrained(cls, options: dict[str, Any]) -> bool:
        return bool(options.get("pretrained", True))

    def configuration(self) -> dict[str, Any]:
        return {
            "pretrained": False,
            "image_size": list(self.view.size),
            "freeze_batch_norm": self.freeze_batch_norm,
        }

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
