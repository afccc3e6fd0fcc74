from typing import Any, Literal

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from miv.backbones.backbone_base import Backbone
from miv.backbones.backbone_names import register_backbone
from miv.backbones.compact_cnn import CompactCNN
from miv.backbones.grey import to_grey
from miv.backbones.hog import HistogramOfGradients

CELL_SIZE = 6  # small images have no more detail, and it costs a quarter of 12


@register_backbone("hog_cnn")
class HogCNN(Backbone):
    r"""A compact CNN next to a histogram of oriented gradients: it starts as good as the histogram and learns the rest.

    Both are scaled to length 1 and concatenated, so the cosine of two images is a weighted mean of two cosines,

    .. math:: \cos(x, y) = w \cos_{HOG}(x, y) + (1 - w) \cos_{CNN}(x, y),

    with a learned share :math:`w` that starts at one half. Trained from scratch on few images, the network alone is
    much worse than the histogram.

    Args:
        size: size of the network, ``small`` or ``large``.
        grid: as in ``compact_cnn``.
        features: as in ``compact_cnn``.
        shift: as in ``compact_cnn``.
        cells: as in ``hog``.
    """

    kind = "image"
    instance_shape = (1, None, None)

    def __init__(
        self,
        size: Literal["small", "large"] = "small",
        grid: int = 4,
        features: int = 128,
        shift: int = 0,
        cells: int = 5,
    ) -> None:
        super().__init__()
        self.cnn = CompactCNN(size, grid, features, shift)
        self.hog = HistogramOfGradients(cells, CELL_SIZE)
        self.balance = nn.Parameter(torch.zeros(()))  # w is its sigmoid
        self.channels = self.hog.channels + self.cnn.channels

    def configuration(self) -> dict[str, Any]:
        return {**self.cnn.configuration(), "cells": self.hog.cells}

    def prepare(self, values: NDArray[Any]) -> Tensor:
        return to_grey(values)  # (U, 1, H, W), 0 to 1

    def forward(self, instances: Tensor) -> Tensor:
        share = self.balance.sigmoid()
        with torch.no_grad():  # nothing to learn
            histogram = self.hog(instances)
        fixed = functional.normalize(histogram, dim=1, eps=1e-6) * share.sqrt()
        learned = functional.normalize(self.cnn(instances), dim=1, eps=1e-6) * (1 - share).sqrt()
        return torch.cat([fixed, learned], dim=1)  # (U, C)
