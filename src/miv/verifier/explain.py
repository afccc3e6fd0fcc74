"""Scores for the instances of bags, by any method and for any pooling.

Leave-one-out and Shapley are plans: which subsets of a bag to verify, and how the logits become a score for each
instance. Bags of one size share a plan, so they are verified together, thousands of instances per call, and the scores
of a bag do not depend on the other bags.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import factorial
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv.bags import Bags
from miv.data import csr
from miv.errors import MIVError, unknown_name
from miv.files.arrays import Floats
from miv.poolings import Pooling
from miv.poolings.msa import SelfAttentionPooling
from miv.poolings.pooling_base import check_count
from miv.runtime import pause
from miv.verifier.decisions import WitnessesBy
from miv.verifier.network import Verifier

METHODS: tuple[str, ...] = get_args(WitnessesBy)
ROWS = 1 << 15  # instances pooled per call
EXACT_UP_TO, PERMUTATIONS = 8, 32  # of Shapley values: all subsets of bags up to this size, and orders of larger ones
_MOST_EXACT = 16  # 65,536 subsets of one bag
_MOST_POOLED = 1 << 21  # instances for the sampled Shapley values of one bag: 32 orders of a bag of 362
_MOST_FOR_SUBSETS = 2000  # instances per bag of msa
# A drop of the logit below this many rounding errors counts as 0, relative to the logit if that is above 1.
_ROUNDINGS = 16


def explain_features(
    verifier: Verifier,
    query: Tensor | Bags,
    bags: Bags,
    method: str = "leave_one_out",
    *,
    exact_up_to: int = EXACT_UP_TO,
    permutations: int = PERMUTATIONS,
) -> Tensor:
    """How much each instance contributes to a yes: queries ``(B, C)`` and bags of ``(T, C)`` to scores ``(T,)``.

    Args:
        verifier: in evaluation mode. ``attention`` needs a pooling with attention.
        query: features of the queries, or ``Bags`` with the references of each.
        bags: features of the bags.
        method: one of ``METHODS``. All but ``attention``, whose shares sum to 1 in each bag, are in units of the logit
            and may be negative.
        exact_up_to: largest bag size with exact Shapley values, from ``2 ** N`` subsets.
        permutations: number of orders to sample for larger bags; see ``shapley``.

    >>> from miv import Verifier
    >>> verifier = Verifier("mi_net", channels=4).eval()
    >>> bags = Bags.from_list([torch.randn(3, 4), torch.randn(1, 4)])
    >>> explain_features(verifier, torch.randn(2, 4), bags, "shapley").shape
    torch.Size([4])
    """
    check_method(verifier.pooling, method)

    def logits_of(query: Tensor | Bags, bags: Bags) -> Tensor:
        return verifier.verify_features(query, bags).logit

    with torch.inference_mode():
        if method == "attention":
            attention = verifier.verify_features(query, bags).attention
            assert attention is not None  # noqa: S101 - by the check
            return attention
        if method == "alone":
            return logits_alone(logits_of, query, bags)
        largest = int(bags.sizes.max())
        if isinstance(verifier.pooling, SelfAttentionPooling) and largest > _MOST_FOR_SUBSETS:  # it would take hours
            raise MIVError(
                f"A bag has {largest:,} instances. {method} with the pooling msa takes at most {_MOST_FOR_SUBSETS:,}. "
                "Use alone for the witnesses, or none for the verdict only."
            )
        if method == "leave_one_out":
            return score_instances(logits_of, query, bags, leave_one_out)
        check_count("exact_up_to", exact_up_to, most=_MOST_EXACT)
        check_count("permutations", permutations)
        return score_instances(logits_of, query, bags, partial(shapley, exact_up_to, permutations))


def check_method(pooling: Pooling, method: str) -> None:
    """Raise an error for an unknown method, or one that the pooling does not support."""
    if method not in METHODS:
        raise unknown_name("method of explaining", method, METHODS)
    if method == "attention" and not pooling.has_attention:
        raise MIVError("This pooling has no attention. Use alone, leave_one_out or shapley instead.")


def as_shares(
    scores: Floats, method: WitnessesBy, logit: Floats, ptr: NDArray[np.int64], dtype: torch.dtype = torch.float32
) -> Floats:
    r"""Convert scores ``(T,)`` of ``explain_features`` to shares, which are not negative and sum to 1 in each bag.

    Attention is already shares. Scores :math:`\phi_n` in units of the logit become

    .. math:: a_n = \max(\phi_n, 0) \Big/ \sum_m \max(\phi_m, 0)

    and :math:`1 / N` each if none is positive. Scores of ``alone``, which are logits :math:`z_n`, become

    .. math:: a_n = \sigma(z_n) \Big/ \sum_m \sigma(z_m)

    so two instances that each suffice get equal shares, and instances still differ if none suffices.

    ``logit`` ``(E,)`` and ``dtype`` are those of the verifier, so that a score within rounding error counts as 0.

    >>> as_shares(np.array([3.0, -1.0, 1.0, -2.0, 0.0]), "leave_one_out", np.zeros(2), np.array([0, 3, 5])).tolist()
    [0.75, 0.0, 0.25, 0.5, 0.5]
    """
    if method == "attention":
        return scores
    if method == "alone":
        from scipy.special import expit

        positive = expit(scores)
    else:
        rounding = _ROUNDINGS * torch.finfo(dtype).eps * np.maximum(1.0, np.abs(logit))  # (E,)
        positive = np.where(scores > csr.to_rows(rounding, ptr), scores, 0.0)
    total = csr.to_rows(csr.bag_sums(positive, ptr), ptr)  # (T,) of the bag of each instance
    even = 1 / csr.to_rows(np.diff(ptr), ptr)
    return np.divide(positive, total, out=even, where=total > 0)


# Scores from the logits of subsets of a bag.

# From the features of queries (B, C), or of their references, and of bags (T, C) to logits (B,).
LogitFunction = Callable[[Any, Bags], Tensor]


@dataclass(frozen=True)
class SubsetPlan:
    """A plan for bags of ``N`` instances each."""

    subsets: int  # K, number of subsets of a bag to verify
    members: Callable[[Tensor], Tensor]  # from numbers (P,) below K to the instances of these subsets, (P, N) bool
    combine: Callable[[Tensor], Tensor]  # from logits (B, K) of subsets to scores (B, N) of instances


# From the size of a bag to the plan for it.
Planner = Callable[[int], SubsetPlan]


def score_instances(logits_of: LogitFunction, query: Tensor | Bags, bags: Bags, planner: Planner) -> Tensor:
    """Scores ``(T,)`` float64 of the instances, from features: ``query`` ``(B, C)`` and bags of ``(T, C)``.

    The logit of an empty bag is 0, a probability of one half, so the score of a single instance is the whole logit of
    its bag.
    """
    scores = torch.zeros(len(bags.values), dtype=torch.float64)
    for size in bags.sizes.unique().tolist():
        plan = planner(size)
        of_size = (bags.sizes == size).nonzero().squeeze(1)
        for chosen in of_size.split(max(1, ROWS // (plan.subsets * size))):
            places = bags.ptr[chosen, None] + torch.arange(size, device=bags.ptr.device)  # (B, N)
            scores[places.cpu()] = plan.combine(_subset_logits(logits_of, query[chosen], bags.values, places, plan))
    return scores


def _subset_logits(
    logits_of: LogitFunction, query: Tensor | Bags, values: Tensor, places: Tensor, plan: SubsetPlan
) -> Tensor:
    """``(B, K)`` float64: the logit of each subset, its instances in the order of the bag."""
    bags, size = places.shape
    logit = torch.zeros(bags * plan.subsets, dtype=torch.float64)
    for part in torch.arange(len(logit)).split(max(1, ROWS // (size * _times_pooled(query)))):
        pause()
        members = plan.members(part % plan.subsets)  # (P, N)
        sizes = members.sum(dim=1)
        part, members, sizes = part[sizes > 0], members[sizes > 0], sizes[sizes > 0]
        if not len(part):
            continue
        bag = (part // plan.subsets).to(places.device)  # (P,)
        subset, member = (index.to(places.device) for index in members.nonzero(as_tuple=True))
        ptr = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]).to(places.device)
        logit[part] = logits_of(query[bag], Bags(values[places[bag[subset], member]], ptr)).double().cpu()
    return logit.reshape(bags, plan.subsets)


def _times_pooled(query: Tensor | Bags) -> int:
    """How often a bag is pooled for a logit: with several references, once for each and once for their mean."""
    return 1 + int(query.sizes.max()) if isinstance(query, Bags) else 1


def logits_alone(logits_of: LogitFunction, query: Tensor | Bags, bags: Bags) -> Tensor:
    r"""The logit ``(T,)`` of each instance as its own bag: :math:`f(\{n\})`, in ragged batches of bags of one.

    Unlike a share, it does not depend on the rest of the bag, so instances of different bags are comparable, and a bag
    without a witness has only low scores.
    """
    logits = []
    together = max(1, ROWS // _times_pooled(query))
    for rows, owner in zip(bags.values.split(together), bags.owner.split(together), strict=True):
        pause()
        borders = torch.arange(len(rows) + 1, device=rows.device)
        logits.append(logits_of(query[owner], Bags(rows, borders)))
    return torch.cat(logits)


def leave_one_out(size: int) -> SubsetPlan:
    r"""The drop of the logit without the instance: :math:`f(X) - f(X \setminus \{n\})`."""
    # Subset 0 is the whole bag, subset n + 1 is the bag without instance n.
    return SubsetPlan(
        1 + size, lambda subset: torch.arange(size) != subset[:, None] - 1, lambda logit: logit[:, :1] - logit[:, 1:]
    )


def shapley(exact_up_to: int, permutations: int, size: int) -> SubsetPlan:
    r"""The Shapley value (1953) of the instance in the game where the value of a subset is its logit.

    .. math::
        \phi_n = \sum_{S \subseteq X \setminus \{n\}} \frac{|S|! \, (N - |S| - 1)!}{N!}
                 \big( f(S \cup \{n\}) - f(S) \big)

    The scores of a bag sum to :math:`f(X) - f(\emptyset)`, whether they are exact or sampled.
    Bags above ``exact_up_to`` are sampled by ``permutations`` orders, each second one the reverse of the previous
    (antithetic), so that late instances also come early; see ``orders_for``.
    """
    return _exact(size) if size <= exact_up_to else _sampled(size, orders_for(size, permutations))


def instances_pooled(method: str, size: int, references: int = 1) -> int:
    """About how many instances are pooled to verify and explain a bag; several references pool it once more each.

    >>> instances_pooled("attention", 100), instances_pooled("leave_one_out", 100), instances_pooled("alone", 100, 3)
    (100, 10100, 800)
    """
    orders = orders_for(size, PERMUTATIONS)
    sampled = size * (1 + orders * (size + 1) // 2)
    shapley = 2**size * size // 2 if size <= EXACT_UP_TO else sampled
    explained = {"alone": size, "leave_one_out": size * size, "shapley": shapley}.get(method, 0)
    return (size + explained) * (1 if references == 1 else 1 + references)


def orders_for(size: int, permutations: int) -> int:
    """Number of orders for a bag of ``size``: fewer for very large bags, at least one and its reverse.

    >>> [orders_for(size, 32) for size in (10, 300, 500, 1000, 5000)]
    [32, 32, 16, 4, 2]
    """
    affordable = _MOST_POOLED // (size * (size + 1) // 2)
    return min(permutations, max(2, affordable))


def _exact(size: int) -> SubsetPlan:
    members = (torch.arange(2**size)[:, None] >> torch.arange(size)) & 1 == 1  # (2^N, N), a subset a binary number
    count = members.sum(dim=1).tolist()
    # The weight of S where the instance joins S; a subset that holds it is its S with the instance.
    weight = [factorial(s) * factorial(size - s - 1) / factorial(size) for s in range(size)]
    joining = torch.tensor([weight[s] if s < size else 0.0 for s in count], dtype=torch.float64)
    joined = torch.tensor([weight[s - 1] if s else 0.0 for s in count], dtype=torch.float64)
    factor = torch.where(members, joined[:, None], -joining[:, None])  # (2^N, N)
    return SubsetPlan(2**size, lambda subset: members[subset], lambda logit: logit @ factor)


def _sampled(size: int, permutations: int) -> SubsetPlan:
    r"""The mean over orders, without the logit of the empty bag.

    In the exact values, :math:`f(\emptyset)` subtracts the same from every instance, :math:`f(\emptyset) / N`. In a
    sample, its weight would depend on how often an instance comes first. So orders start from the mean logit of the
    single instances, :math:`c`, and all instances then share :math:`c - f(\emptyset)` evenly.
    """
    generator = torch.Generator().manual_seed(0)
    drawn = torch.rand(-(-permutations // 2), size, generator=generator).argsort(dim=-1)  # (P / 2, N)
    rank = torch.stack([drawn, size - 1 - drawn], dim=1).flatten(0, 1)[:permutations]  # (P, N), each one's place

    def members(subset: Tensor) -> Tensor:
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

    return SubsetPlan(size + permutations * (size + 1), members, combine)
