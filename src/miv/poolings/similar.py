"""The start "similar": features of one length, compared by a scaled cosine.

The paper starts the similarity with random-sign weights and no intercept, which takes tens of thousands of exemplars
to unlearn. With the parts in this file, a verifier starts as good as the cosine of the query and its nearest target.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

SCALE, INTERCEPT = 10.0, -5.0  # until they are fitted, a cosine of 0.5 is a probability of 0.5


class AlignedNorm(nn.Module):
    r"""Scales features to one length, so that products of two are cosines; replaces the first LayerNorm.

    .. math:: d(x) = \Big(\frac{x}{\|x\|} - c\Big) M^\top, \qquad
        norm(x) = \sqrt{C} \, \frac{d(x)}{\|d(x)\|} \odot \gamma + b

    The centre :math:`c` and the map :math:`M` (at first 0 and the identity) are fitted to the data before the head
    learns, and then stay fixed. A length of :math:`\sqrt{C}` gives each channel a mean square of 1.

    Args:
        channels: ``C``.
        learned: whether to learn :math:`\gamma` and :math:`b`, which start at 1 and 0.
    """

    centre: Tensor

    def __init__(self, channels: int, learned: bool = True) -> None:
        super().__init__()
        self.channels = channels
        self.register_buffer("centre", torch.zeros(channels))  # c
        self.map = nn.Parameter(torch.eye(channels), requires_grad=False)  # M
        self.weight = nn.Parameter(torch.ones(channels), requires_grad=learned)  # γ
        self.bias = nn.Parameter(torch.zeros(channels), requires_grad=learned)  # b
        self._identity: tuple[object, ...] = ()  # a state of the map, and whether it is the identity

    @property
    def has_map(self) -> bool:
        """Whether the map is not the identity."""
        return not torch.equal(self.map, torch.eye(self.channels).to(self.map))

    def direction(self, x: Tensor) -> Tensor:
        """``(..., C)`` to ``(..., C)`` of length 1, before scale and offset."""
        # First, so that no square overflows or vanishes; it cancels out, hence without a gradient.
        largest = x.detach().abs().amax(dim=-1, keepdim=True)
        scaled = x / torch.where(largest > 0, largest, 1)
        centred = _unit(scaled) - self.centre
        return _unit(centred if self._skips_map() else functional.linear(centred, self.map))

    def _skips_map(self) -> bool:
        """Whether to leave out the product with the identity, which gives the same numbers at half the cost.

        Comparing all of the map would take as long as the product, so it is done once for each state of the map.
        """
        weight = self.map
        if torch.is_grad_enabled() or torch.compiler.is_compiling() or weight.is_meta or weight.is_inference():
            return False
        state = (id(weight), weight.data_ptr(), weight._version)
        if self._identity[:3] != state:
            self._identity = (*state, not self.has_map)
        return bool(self._identity[3])

    def forward(self, x: Tensor) -> Tensor:
        """``(..., C)`` to ``(..., C)``."""
        return self.direction(x) * math.sqrt(self.channels) * self.weight + self.bias


class ScaledProduct(nn.Module):
    r"""Similarity of query and bag vector that starts as a scaled cosine.

    .. math:: sim = \frac{s}{C} \sum_{i=1}^C \Big(w_i \, v^Q_i \, v^P_i - d_i \, |v^Q_i - v^P_i| + p_i \, v^Q_i\Big) + b

    The products are the paper's equation 7 with :math:`\alpha = s w / C` and an intercept. The distances are those of
    Koch et al. (2015), which equation 6 allows as well: they tell apart what a product cannot, a large difference from
    two small values. The last term says how far the query alone predicts the label. All :math:`w_i` start at 1 and all
    :math:`d_i` and :math:`p_i` at 0, so that one rate suits any number of channels; ``miv.training`` fits scale
    :math:`s`, intercept :math:`b` and these weights to the train bags.

    Args:
        channels: ``C``.
        learned: whether to learn the weights :math:`w`, :math:`d` and :math:`p`.
    """

    added_later = ("distance", "prior")  # older files do not have them; there they are 0

    def __init__(self, channels: int, learned: bool = True) -> None:
        super().__init__()
        self.channels = channels
        self.weight = nn.Parameter(torch.ones(channels), requires_grad=learned)  # w
        self.distance = nn.Parameter(torch.zeros(channels), requires_grad=learned)  # d
        self.prior = nn.Parameter(torch.zeros(channels), requires_grad=learned)  # p
        self.scale = nn.Parameter(torch.tensor(SCALE))  # s
        self.intercept = nn.Parameter(torch.tensor(INTERCEPT))  # b

    def forward(self, query: Tensor, targets: Tensor) -> Tensor:
        """Compare row by row: ``(B, C)`` and ``(B, C)`` to ``(B,)``."""
        near = (query * targets) @ self.weight - (query - targets).abs() @ self.distance + query @ self.prior  # (B,)
        return near * (self.scale / self.channels) + self.intercept

    def product(self, query: Tensor, targets: Tensor) -> Tensor:
        """What scale and intercept apply to before any distance counts: ``(B, C)`` and ``(B, C)`` to ``(B,)``."""
        return (query * targets) @ self.weight / self.channels


def _unit(x: Tensor) -> Tensor:
    """Rows of length 1; a row of zeros, or equal to the centre up to rounding, has no direction and stays near zero."""
    return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp(min=1e-6)
