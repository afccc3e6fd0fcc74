"""Prepare the images of a pool for backbones trained on colour photographs."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from miv.backbones.backbone_base import check_images
from miv.errors import MIVError


@dataclass(frozen=True)
class ImageView:
    """Resize, repeat grey in three channels, and normalise as in the backbone's pretraining.

    Args:
        size: ``(height, width)`` to stretch every image to.
        mean: mean of each channel, on a scale from 0 to 1.
        std: standard deviation of each channel, on the same scale.
    """

    size: tuple[int, int]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    @classmethod
    def checked(cls, size: object, mean: object, std: object) -> "ImageView":
        """Create one from values that may come from a file."""
        height, width = _sides(size)
        red, green, blue = _numbers("image_std", std, 3, "three numbers above 0")
        if min(red, green, blue) <= 0:
            raise MIVError(f"image_std is {std}. Expected three numbers above 0.")
        first, second, third = _numbers("image_mean", mean, 3, "three numbers")
        return cls((height, width), (first, second, third), (red, green, blue))

    def options(self) -> dict[str, Any]:
        """Return the corresponding backbone options."""
        return {f"image_{name}": list(value) for name, value in asdict(self).items()}

    def prepare(self, values: NDArray[Any]) -> Tensor:
        """``(U, H, W)`` or ``(U, H, W, 3)`` uint8 to ``(U, 3, height, width)`` float."""
        images = check_images(values).float() / 255  # (U, 1 or 3, H, W)
        if tuple(images.shape[2:]) != self.size:
            images = functional.interpolate(images, self.size, mode="bilinear", antialias=True)
        mean, std = torch.tensor(self.mean)[:, None, None], torch.tensor(self.std)[:, None, None]
        return (images - mean) / std  # (U, 3, height, width): grey is repeated here


def _sides(given: object) -> tuple[int, int]:
    """Return height and width, given as two numbers, as one for both, or as the text ``112x96``.

    >>> _sides("112x96"), _sides(32), _sides([112, 96])
    ((112, 96), (32, 32), (112, 96))
    """
    sides: object = given
    if isinstance(given, str):
        sides = [int(side) if side.strip().isdecimal() else side for side in given.lower().split("x")]
    if isinstance(sides, list) and len(sides) == 1:
        sides = sides * 2
    if isinstance(sides, int):
        sides = (sides, sides)
    wanted = "height and width in pixels, each from 1 to 4,096: 112x96, (112, 96), or 112 for both"
    height, width = _numbers("image_size", sides, 2, wanted, given)
    if not all(side == int(side) and 1 <= side <= 4096 for side in (height, width)):
        raise MIVError(f"image_size is {given!r}. Expected {wanted}.")
    return int(height), int(width)


def _numbers(name: str, given: object, count: int, wanted: str, shown: object = None) -> list[float]:
    if (
        not isinstance(given, Sequence)
        or len(given) != count
        or not all(isinstance(number, int | float) and abs(number) < 1e6 for number in given)
    ):
        raise MIVError(f"{name} is {given if shown is None else shown!r}. Expected {wanted}.")
    return [float(number) for number in given]
