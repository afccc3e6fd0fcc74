"""A single bag, with operations that an exporter can trace."""

import torch
from torch import Tensor

from miv.bags import Bags


class OneBag(Bags):
    """One bag of ``N`` instances in place of ``Bags``, for export: ``B = 1`` and ``T = N``, which stays dynamic.

    ``Bags`` has borders that are data, and its own gradients; neither can be in a graph. With one bag, every operation
    is a plain one along the first axis. The ``forward`` of a pooling runs unchanged.

    >>> bag = OneBag(torch.tensor([[1.0], [3.0]]))
    >>> bag.mean(bag.values)
    tensor([[2.]])
    """

    def __init__(self, values: Tensor) -> None:
        self.values = values  # (N, ...); no borders, hence no check of them

    def with_values(self, values: Tensor) -> "OneBag":
        return OneBag(values)

    def __len__(self) -> int:
        return 1

    @property
    def sizes(self) -> Tensor:
        return torch.ones_like(self.values[:, 0]).sum(0, keepdim=True)  # counted in the graph, not when it is made

    def places(self) -> tuple[Tensor, Tensor]:
        number = torch.ones_like(self.values[:, 0], dtype=torch.int64).cumsum(0)  # 1 … N
        return number - 1, number.amax(0, keepdim=True) - number

    def split(self, rows: Tensor) -> list[Tensor]:
        return [rows]

    def expand(self, rows: Tensor) -> Tensor:
        return rows.expand(self.values.shape[0], *rows.shape[1:])

    def sum(self, rows: Tensor) -> Tensor:
        return rows.sum(0, keepdim=True)

    def mean(self, rows: Tensor) -> Tensor:
        return rows.mean(0, keepdim=True)

    def var(self, rows: Tensor) -> Tensor:
        return (rows - self.mean(rows)).square().mean(0, keepdim=True)

    def max(self, rows: Tensor) -> Tensor:
        return rows.amax(0, keepdim=True)

    def softmax(self, scores: Tensor) -> Tensor:
        return scores.softmax(0)

    def logsumexp(self, rows: Tensor) -> Tensor:
        return rows.logsumexp(0, keepdim=True)

    def dot(self, rows: Tensor, values: Tensor, heads: int = 1) -> Tensor:
        return (rows * values).unflatten(1, (heads, -1)).sum(-1)  # (N, h)

    def distance(self, rows: Tensor, values: Tensor, weight: Tensor, power: int, heads: int = 1) -> Tensor:
        difference = rows - values  # (N, C)
        distances = weight * (difference.abs() if power == 1 else difference.square())
        return distances.unflatten(1, (heads, -1)).sum(-1)  # (N, h)

    def weighted_sum(self, weights: Tensor, values: Tensor) -> Tensor:
        by_head = values.unflatten(1, (weights.shape[1], -1))  # (N, h, D)
        return (weights[..., None] * by_head).sum(0, keepdim=True).flatten(1)  # (1, C)

    def normed_sum(self, weights: Tensor, values: Tensor, gate: Tensor | None, eps: float) -> Tensor:
        gated = values if gate is None else values * gate
        by_head = gated.unflatten(1, (weights.shape[1], -1))  # (N, h, D)
        centred = by_head - by_head.mean(-1, keepdim=True)
        normed = centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
        return self.weighted_sum(weights, normed.flatten(1))

    def to_padded(self) -> tuple[Tensor, Tensor]:
        return self.values[None], torch.ones_like(self.values[None, :, 0], dtype=torch.bool)
