from itertools import pairwise
from typing import Any, Literal

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from miv.backbones.base import BACKBONES, Backbone, check_images
from miv.errors import unknown_name

WIDTHS = {"small": (32, 32, 64, 64, 128), "large": (32, 64, 64, 128, 256)}


@BACKBONES.register("compact_cnn")
class CompactCNN(Backbone):
    """Five convolutions for small grey images, to be trained from nothing on a CPU.

    Each is 3 × 3 with BatchNorm and ReLU; the second and the fourth halve the image. Global average pooling
    gives the features: 128 (``small``, 0.14 M parameters) or 256 (``large``, 0.43 M).

    Args:
        size: ``small`` or ``large``.
    """

    kind = "image"
    instance_shape = (1, None, None)

    def __init__(self, size: Literal["small", "large"] = "small") -> None:
        super().__init__()
        if size not in WIDTHS:
            raise unknown_name("compact_cnn of size", size, WIDTHS)
        self.size = size
        widths = WIDTHS[size]
        self.channels = widths[-1]
        layers: list[nn.Module] = []
        for number, (inputs, outputs) in enumerate(pairwise((1, *widths))):
            stride = 2 if number in (1, 3) else 1
            layers += [
                nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False),
                nn.BatchNorm2d(outputs),
                nn.ReLU(inplace=True),
            ]
        self.layers = nn.Sequential(*layers)

    def configuration(self) -> dict[str, Any]:
        return {"size": self.size}

    def prepare(self, values: NDArray[Any]) -> Tensor:
        return check_images(values, colour=False).float() / 255  # (U, 1, H, W), 0 to 1

    def forward(self, instances: Tensor) -> Tensor:
        # Channels last is the layout in which a CPU convolves fastest.
        images = instances.contiguous(memory_format=torch.channels_last)  # (U, 1, H, W)
        features: Tensor = self.layers(images)  # (U, C, H/4, W/4)
        return features.mean(dim=(2, 3))  # (U, C)
