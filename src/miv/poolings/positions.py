"""Where an instance stands in its bag, as a learned code for bags whose order means something."""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from miv.bags import Bags

Order = Literal["none", "position"]
GAIN = 10.0  # of the code on the scores: the smallest that learned within a dozen epochs at a rate of 1e-3
WAVES = 6  # the finest tells apart sixths of a bag


class PositionCode(nn.Module):
    r"""A code of the position in the bag, for keys of ``C`` channels and scores of ``h`` heads.

    Instance :math:`n = 0, \dots, N - 1` of a bag has the relative position :math:`r = (n + 1/2) / N`, so a bag twice as
    long has the same code at the same share of its length, and the nearness to each end in instances:

    .. math::
        \phi_n &= \Big(\cos(\pi r), \dots, \cos(6 \pi r), \; \frac{1}{1 + n}, \; \frac{1}{N - n}\Big) \\
        key'_n &= key_n + \phi_n P, \qquad score'_n = score_n + 10 \, \phi_n b

    ``P`` lets a query look at places of its own, ``b`` prefers the same places for every query. Both start at zero: a
    code that has not learned changes nothing. Scores spread by about 1, so ``b`` has further to go than other weights;
    with the factor of 10, one learning rate suits all.
    """

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.key = nn.Parameter(torch.zeros(WAVES + 2, channels))  # P
        self.score = nn.Parameter(torch.zeros(WAVES + 2, heads))  # b

    def forward(self, bags: Bags) -> tuple[Tensor, Tensor]:
        """Return what to add to the keys ``(T, C)`` and to the scores ``(T, h)``."""
        weight = self.key
        # Not in bfloat16, which cannot count above 256.
        features = position_features(bags, torch.promote_types(weight.dtype, torch.float32)).to(weight.dtype)  # (T, 8)
        return features @ self.key, GAIN * (features @ self.score)


def position_features(bags: Bags, dtype: torch.dtype) -> Tensor:
    """The code before its weights, ``(T, 8)``, each value from -1 to 1."""
    before, after = (count.to(dtype) for count in bags.places())  # (T,), (T,)
    relative = (before + 0.5) / (before + after + 1)  # (T,)
    waves = torch.arange(1, WAVES + 1, device=relative.device, dtype=dtype)
    ends = torch.stack([1 / (1 + before), 1 / (1 + after)], dim=1)  # (T, 2)
    return torch.cat([(math.pi * relative[:, None] * waves).cos(), ends], dim=1)
