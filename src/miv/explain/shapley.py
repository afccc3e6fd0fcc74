"""Leave-one-out and Shapley: how much each instance contributes to the logit."""

from math import factorial

import torch
from torch import Tensor

from miv.explain.subsets import Planner, SubsetPlan

# Instances pooled for the sampled Shapley values of one bag: 32 orders of a bag of 362.
_MOST_POOLED = 1 << 21


def leave_one_out() -> Planner:
    r"""The drop of the logit without the instance: :math:`f(X) - f(X \setminus \{n\})`."""

    def plan(size: int) -> SubsetPlan:
        # Subset 0 is the whole bag, subset n + 1 is the bag without instance n.
        return SubsetPlan(
            1 + size,
            lambda subset: torch.arange(size) != subset[:, None] - 1,
            lambda logit: logit[:, :1] - logit[:, 1:],
        )

    return plan


def shapley(exact_up_to: int, permutations: int, seed: int) -> Planner:
    r"""The Shapley value (1953) of the instance in the game where the value of a subset is its logit.

    .. math::
        \phi_n = \sum_{S \subseteq X \setminus \{n\}} \frac{|S|! \, (N - |S| - 1)!}{N!}
                 \big( f(S \cup \{n\}) - f(S) \big)

    The scores of a bag sum to :math:`f(X) - f(\emptyset)`, whether they are exact or sampled.

    Args:
        exact_up_to: largest bag size for which all ``2 ** N`` subsets are verified.
        permutations: number of orders of the instances for larger bags. Every second order is the previous one
            reversed (antithetic), so that late instances also come early. See ``orders_for``.
        seed: random seed of the orders, which are the same for all bags of one size.
    """

    def plan(size: int) -> SubsetPlan:
        return _exact(size) if size <= exact_up_to else _sampled(size, orders_for(size, permutations), seed)

    return plan


def orders_for(size: int, permutations: int) -> int:
    """Number of orders for a bag of ``size``: fewer for very large bags, at least one and its reverse.

    >>> [orders_for(size, 32) for size in (10, 300, 500, 1000, 5000)]
    [32, 32, 16, 4, 2]
    """
    affordable = _MOST_POOLED // (size * (size + 1) // 2)
    return min(permutations, max(2, affordable))


def _exact(size: int) -> SubsetPlan:
    kept = (torch.arange(2**size)[:, None] >> torch.arange(size)) & 1 == 1  # (2^N, N), a subset a binary number
    count = kept.sum(dim=1).tolist()
    # The weight of S where the instance joins S; a subset that holds it is its S with the instance.
    weight = [factorial(s) * factorial(size - s - 1) / factorial(size) for s in range(size)]
    joining = torch.tensor([weight[s] if s < size else 0.0 for s in count], dtype=torch.float64)
    joined = torch.tensor([weight[s - 1] if s else 0.0 for s in count], dtype=torch.float64)
    factor = torch.where(kept, joined[:, None], -joining[:, None])  # (2^N, N)
    return SubsetPlan(2**size, lambda subset: kept[subset], lambda logit: logit @ factor)


def _sampled(size: int, permutations: int, seed: int) -> SubsetPlan:
    r"""The mean over orders, without the logit of the empty bag.

    In the exact values, :math:`f(\emptyset)` subtracts the same from every instance, :math:`f(\emptyset) / N`. In a
    sample, its weight would depend on how often an instance comes first. So orders start from the mean logit of the
    single instances, :math:`c`, and all instances then share :math:`c - f(\emptyset)` evenly.
    """
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.rand(-(-permutations // 2), size, generator=generator).argsort(dim=-1)  # (P / 2, N)
    rank = torch.stack([drawn, size - 1 - drawn], dim=1).flatten(0, 1)[:permutations]  # (P, N), each one's place

    def kept(subset: Tensor) -> Tensor:
        """The single instances first, then of each order the first 0, 1, …, N to come."""
        order, come = (subset - size).clamp(min=0) // (size + 1), (subset - size) % (size + 1)
        single = torch.arange(size) == subset[:, None]
        return torch.where((subset < size)[:, None], single, rank[order] < come[:, None])

    def combine(logit: Tensor) -> Tensor:
        start = logit[:, :size].mean(dim=1)  # (B,), c
        in_order = logit[:, size:].reshape(-1, permutations, size + 1)
        nothing = in_order[:, 0, 0]
        in_order = torch.cat([start[:, None, None].expand(-1, permutations, 1), in_order[:, :, 1:]], dim=-1)
        gained = in_order.diff(dim=-1)  # (B, P, N) by whoever came at that place
        mean = gained.gather(-1, rank.expand(len(gained), -1, -1)).mean(dim=1)
        return mean + ((start - nothing) / size)[:, None]

    return SubsetPlan(size + permutations * (size + 1), kept, combine)
