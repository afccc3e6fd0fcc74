"""Instances as a backbone takes them, and batches of them through it."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from miv.backbones.backbone_base import Backbone
from miv.data.batches import InstanceLookup


def prepared(backbone: Backbone, values: NDArray[np.generic]) -> InstanceLookup:
    """Look instances up as the backbone takes them."""
    return lambda rows: backbone.prepare(values[rows])


def embed(backbone: Backbone, instances: Tensor, bucket: int) -> Tensor:
    """Embed ``(U, ...)`` to ``(U, C)``, with the batch filled up to a multiple of ``bucket``.

    A CPU builds its convolutions anew for each new size of batch, so they are given few. What fills up is the
    first instance again, not zeros: some backbones make NaN of an empty instance, which would reach the gradient.
    Where BatchNorm learns from the batch, nothing is filled up, as it would learn from that too.
    """
    missing = -len(instances) % bucket
    if not missing or any(isinstance(part, _BatchNorm) and part.training for part in backbone.modules()):
        return backbone(instances)
    filling = instances[:1].expand(missing, *instances.shape[1:])
    return backbone(torch.cat([instances, filling]))[: len(instances)]
