from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from miv.backbones.backbone_base import Backbone, whole_number
from miv.backbones.backbone_names import register_backbone
from miv.backbones.grey import resize, to_grey


@register_backbone("pixels")
class Pixels(Backbone):
    """The image itself, small, grey and mean-centred: the simplest descriptor, without learning.

    Args:
        size: pixels along each side of the small image, 2 to 128.
    """

    kind = "image"
    instance_shape = (1, None, None)

    def __init__(self, size: int = 16) -> None:
        super().__init__()
        self.size = whole_number("pixels", "size", size, 2, 128)
        self.channels = size**2

    def configuration(self) -> dict[str, Any]:
        return {"size": self.size}

    def prepare(self, values: NDArray[Any]) -> Tensor:
        return to_grey(values)  # (U, 1, H, W), 0 to 1

    def forward(self, instances: Tensor) -> Tensor:
        small = resize(instances, (self.size, self.size)).flatten(1)  # (U, C)
        return small - small.mean(dim=1, keepdim=True)
