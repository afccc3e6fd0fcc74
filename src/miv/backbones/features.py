from torch import Tensor

from miv.backbones.base import BACKBONES, Backbone


@BACKBONES.register("features")
class Features(Backbone):
    """The instances are feature vectors already.

    Args:
        channels: the length of a vector.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.instance_shape = (channels,)

    def forward(self, instances: Tensor) -> Tensor:
        return instances
