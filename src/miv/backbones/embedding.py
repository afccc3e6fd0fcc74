"""Prepare instances for a backbone, and embed them in batches."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from miv.backbones.backbone_base import Backbone
from miv.data.batches import InstanceLookup


def prepared(backbone: Backbone, values: NDArray[np.generic]) -> InstanceLookup:
    """Look up instances in the form that the backbone takes."""
    return lambda rows: backbone.prepare(values[rows])


def embed(backbone: Backbone, instances: Tensor, bucket: int) -> Tensor:
    """Embed ``(U, ...)`` to ``(U, C)``, with the batch padded to a multiple of ``bucket``.

    A CPU rebuilds its convolutions for each new batch size, so there should be few sizes. The padding repeats the
    first instance instead of zeros: some backbones return NaN for an empty instance, which would reach the gradient.
    If BatchNorm learns from the batch, nothing is padded, because it would learn from the padding too.
    """
    missing = -len(instances) % bucket
    if not missing or any(isinstance(part, _BatchNorm) and part.training for part in backbone.modules()):
        return backbone(instances)
    filling = instances[:1].expand(missing, *instances.shape[1:])
    return backbone(torch.cat([instances, filling]))[: len(instances)]
