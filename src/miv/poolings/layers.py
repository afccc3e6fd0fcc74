"""Layers that several poolings use, with the authors' starting weights."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from miv.bags import Bags


def _linear(inputs: int, outputs: int, start: Callable[[Tensor], Tensor]) -> nn.Linear:
    """A linear map with zero bias, whose weights start as ``start`` fills them."""
    linear = nn.Linear(inputs, outputs)
    start(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear


def glorot_linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear map with Glorot uniform weights and zero bias, as in Keras."""
    return _linear(inputs, outputs, nn.init.xavier_uniform_)


def identity_linear(channels: int) -> nn.Linear:
    """A linear map that starts as the identity, with zero bias."""
    return _linear(channels, channels, nn.init.eye_)


class Excitation(nn.Module):
    r"""A gate for every channel of every head, the form of the paper's equations 10 (δ) and 12 (MHCE).

    .. math:: sigmoid\big[ relu(x J) M \big]

    ``M`` starts at zero, so every gate starts at 0.5.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.squeeze = glorot_linear(channels, channels)  # J, or R for δ
        self.excite = _linear(channels, channels, nn.init.zeros_)  # M, or S for δ; the heads lie side by side

    def forward(self, x: Tensor) -> Tensor:
        """``(B, C)`` to ``(B, C)``, each value between 0 and 1."""
        return self.excite(self.squeeze(x).relu()).sigmoid()


class HeadNorm(nn.Module):
    r"""LayerNorm of the ``D`` channels of each head, the paper's :math:`LN_j`.

    .. math:: \gamma \odot \frac{x - mean(x)}{\sqrt{var(x) + \epsilon^2}} + b

    The authors' epsilon of 1e-6 bounds the standard deviation, so its square is added to the variance.
    """

    def __init__(self, channels: int, heads: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.heads = heads
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(channels))  # γ
        self.bias = nn.Parameter(torch.zeros(channels))  # b

    def forward(self, x: Tensor) -> Tensor:
        """``(..., C)`` to ``(..., C)``."""
        by_head = x.unflatten(-1, (self.heads, -1))  # (..., h, D)
        normed = functional.layer_norm(by_head, by_head.shape[-1:], eps=self.eps**2)
        return normed.flatten(-2) * self.weight + self.bias

    def pool(self, attention: Tensor, bags: Bags, gate: Tensor | None) -> Tensor:
        r"""Sum of the normalised targets: :math:`\sum_n a_n LN_j(z_n \odot g)`, ``(B, C)``.

        The attention sums to 1, so scale and offset can be applied after the sum, to fewer rows.
        """
        normed = bags.normed_sum(attention, bags.values, gate, self.eps**2)  # (B, C)
        return normed * self.weight + self.bias
