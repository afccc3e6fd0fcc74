from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv.backbones.base import Backbone
from miv.backbones.names import register_backbone
from miv.errors import MIVError


@register_backbone("features")
class Features(Backbone):
    """For instances that are already feature vectors.

    Args:
        channels: the length of a vector.
        standardise: subtract the mean of each channel and divide by its standard deviation, as found by ``fit``. For
            tables of measurements, where a column in large units would dominate the others.
    """

    kind = "features"
    mean: Tensor
    deviation: Tensor

    def __init__(self, channels: int, standardise: bool = False) -> None:
        super().__init__()
        self.channels = channels
        self.instance_shape = (channels,)
        self.standardise = standardise
        self.is_identity = not standardise
        if standardise:
            self.register_buffer("mean", torch.zeros(channels))
            self.register_buffer("deviation", torch.ones(channels))

    def configuration(self) -> dict[str, Any]:
        return {"channels": self.channels, **({"standardise": True} if self.standardise else {})}

    def fit(self, values: NDArray[np.float32]) -> None:
        """Compute mean and deviation of each channel from vectors ``(P, C)``; a constant channel is only centred."""
        deviation = values.std(axis=0, dtype=np.float64)
        least = np.finfo(np.float32).tiny  # what float32 can divide by
        self.mean.copy_(torch.from_numpy(values.mean(axis=0, dtype=np.float64)))
        self.deviation.copy_(torch.from_numpy(np.where(deviation > least, deviation, 1.0)))

    def prepare(self, values: NDArray[Any]) -> Tensor:
        if values.dtype != np.float32 or values.shape[1:] != (self.channels,):
            raise MIVError(
                f"The features are {values.dtype} {values.shape}. Expected float32 (U, {self.channels}): "
                "vectors of the verifier's length."
            )
        return torch.from_numpy(np.require(values, requirements=["C", "W"]))

    def forward(self, instances: Tensor) -> Tensor:
        return (instances - self.mean) / self.deviation if self.standardise else instances


def unlike_scales(values: NDArray[np.float32]) -> float:
    """Ratio of the largest channel deviation to the median one, for vectors ``(P, C)``.

    >>> unlike_scales(np.array([[0, 1, 0], [2, 3, 200]], np.float32))
    100.0
    """
    deviation = values.std(axis=0, dtype=np.float64)
    deviation = deviation[deviation > 0]
    return float(deviation.max() / np.median(deviation)) if len(deviation) else 1.0
