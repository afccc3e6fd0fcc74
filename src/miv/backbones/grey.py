"""Grey images and resizing, shared by the fixed descriptors."""

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from miv.backbones.backbone_base import check_images

_LUMINANCE = (0.299, 0.587, 0.114)  # weights of red, green and blue, as in Pillow


def to_grey(values: NDArray[Any]) -> Tensor:
    """``(U, H, W)`` or ``(U, H, W, 3)`` uint8 to ``(U, 1, H, W)`` float, 0 to 1."""
    images = check_images(values).float() / 255  # (U, 1 or 3, H, W)
    if images.shape[1] == 1:
        return images
    weights = torch.tensor(_LUMINANCE, device=images.device)[:, None, None]
    return (images * weights).sum(dim=1, keepdim=True)


def resize(images: Tensor, size: tuple[int, int]) -> Tensor:
    r"""``(U, K, H, W)`` to ``(U, K, height, width)``: bilinear, averaging over all pixels when shrinking.

    Pixel :math:`i` of the new side is the mean of the old pixels with the weights

    .. math:: w_{ij} \propto \max\{0, 1 - |(j + .5) / s - (i + .5)| / \max(1, 1 / s)\}

    where :math:`s` is the new length divided by the old one. These are two matrix products, which work on every
    device, for every image size, and in ONNX.
    """
    height, width = images.shape[-2:]
    if size[0] != height:
        images = _weights(height, size[0], images) @ images
    if size[1] != width:
        images = images @ _weights(width, size[1], images).T
    return images


def _weights(old: int, new: int, like: Tensor) -> Tensor:
    """``(new, old)``; each row sums to 1."""
    scale = old / new
    centre = (torch.arange(new, dtype=like.dtype, device=like.device) + 0.5) * scale
    place = torch.arange(old, dtype=like.dtype, device=like.device) + 0.5
    weight = (1 - (place - centre[:, None]).abs() / max(1.0, scale)).clamp(min=0)
    return weight / weight.sum(dim=1, keepdim=True)
