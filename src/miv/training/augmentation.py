"""Small random changes of images, in plain torch."""

import math

import torch
from torch import Tensor
from torch.nn import functional

TURN = math.radians(5)
SCALE = 0.08  # a side grows or shrinks by at most this share
SHIFT = 0.08  # of the image's side, 2 pixels of 28
DRAWS = 5  # random numbers for one image


def affine(images: Tensor, draws: Tensor) -> Tensor:
    """Shift, turn and scale images ``(U, channels, H, W)`` by ``draws`` ``(U, 5)``, uniform in 0 to 1.

    0.5 changes nothing; 0 and 1 are the extremes.
    """
    turn, wide, high, right, down = ((draws.to(images) - 0.5) * 2).unbind(1)
    cosine, sine = (turn * TURN).cos(), (turn * TURN).sin()
    wide, high = 1 + wide * SCALE, 1 + high * SCALE
    rows = [cosine * wide, -sine * high, right * 2 * SHIFT, sine * wide, cosine * high, down * 2 * SHIFT]
    maps = torch.stack(rows, dim=1).unflatten(1, (2, 3))  # (U, 2, 3)
    grid = functional.affine_grid(maps, list(images.shape), align_corners=False)  # (U, H, W, 2)
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)
