"""Leave-one-out and Shapley: how much of the logit is owed to each instance."""

from math import factorial

import torch
from torch import Tensor

from miv.explaining.subsets import Plan, Planner


def leave_one_out() -> Planner:
    r"""How far the logit falls without the instance: :math:`f(X) - f(X \setminus \{n\})`."""

    def plan(bags: int, size: int) -> Plan:
        whole = torch.ones(1, size, dtype=torch.bool)
        kept = torch.cat([whole, ~torch.eye(size, dtype=torch.bool)])  # (1 + N, N)
        return Plan(kept.expand(bags, -1, -1), lambda logit: logit[:, :1] - logit[:, 1:])

    return plan


def shapley(exact_up_to: int, permutations: int, generator: torch.Generator) -> Planner:
    r"""The Shapley value (1953) of the instance in the game in which a subset of the bag is worth its logit.

    .. math::
        \phi_n = \sum_{S \subseteq X \setminus \{n\}} \frac{|S|! \, (N - |S| - 1)!}{N!}
                 \big( f(S \cup \{n\}) - f(S) \big)

    The scores of a bag sum to :math:`f(X) - f(\emptyset)`, whether they are exact or sampled.

    Args:
        exact_up_to: the largest bag whose ``2 ** N`` subsets are all verified.
        permutations: in larger bags, how many orders the instances come in, one after the other. Each second
            order is the one before it reversed (antithetic), which an instance that came late enters early.
        generator: of the orders.
    """

    def plan(bags: int, size: int) -> Plan:
        return _exact(bags, size) if size <= exact_up_to else _sampled(bags, size, permutations, generator)

    return plan


def _exact(bags: int, size: int) -> Plan:
    kept = (torch.arange(2**size)[:, None] >> torch.arange(size)) & 1 == 1  # (2^N, N), a subset a binary number
    count = kept.sum(dim=1).tolist()
    # The weight of S where the instance joins S; a subset that holds it is its S with the instance.
    weight = [factorial(s) * factorial(size - s - 1) / factorial(size) for s in range(size)]
    joining = torch.tensor([weight[s] if s < size else 0.0 for s in count], dtype=torch.float64)
    joined = torch.tensor([weight[s - 1] if s else 0.0 for s in count], dtype=torch.float64)
    factor = torch.where(kept, joined[:, None], -joining[:, None])  # (2^N, N)
    return Plan(kept.expand(bags, -1, -1), lambda logit: logit @ factor)


def _sampled(bags: int, size: int, permutations: int, generator: torch.Generator) -> Plan:
    drawn = torch.rand(bags, -(-permutations // 2), size, generator=generator).argsort(dim=-1)  # (B, P / 2, N)
    rank = torch.stack([drawn, size - 1 - drawn], dim=2).flatten(1, 2)[:, :permutations]  # (B, P, N), its place
    kept = rank[:, :, None] < torch.arange(size + 1)[:, None]  # (B, P, N + 1, N): the first 0, 1, …, N to come

    def combine(logit: Tensor) -> Tensor:
        gained = logit.reshape(bags, -1, size + 1).diff(dim=-1)  # (B, P, N) by whoever came at that place
        return gained.gather(-1, rank).mean(dim=1)

    return Plan(kept.flatten(1, 2), combine)
