from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv.backbones.backbone_base import Backbone
from miv.backbones.backbone_names import register_backbone
from miv.errors import MIVError


@register_backbone("features")
class Features(Backbone):
    """The instances are feature vectors already.

    Args:
        channels: the length of a vector.
    """

    kind = "features"

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.instance_shape = (channels,)

    def configuration(self) -> dict[str, Any]:
        return {"channels": self.channels}

    def prepare(self, values: NDArray[Any]) -> Tensor:
        if values.dtype != np.float32 or values.shape[1:] != (self.channels,):
            raise MIVError(
                f"The features are {values.dtype} {values.shape}. Expected float32 (U, {self.channels}): "
                "vectors of the length that the verifier was made for."
            )
        return torch.from_numpy(np.require(values, requirements=["C", "W"]))

    def forward(self, instances: Tensor) -> Tensor:
        return instances
