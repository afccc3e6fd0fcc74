"""Verify subsets of a bag: the basis of leave-one-out and Shapley scores.

Every method is a plan: which subsets of a bag to verify, and how the logits become a score for each instance. Bags of
one size share a plan, so they are verified together, thousands of instances per call, and the scores of a bag do not
depend on the other bags.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from miv.bags import Bags
from miv.errors import MIVError, unknown_name

EmptyBag = Literal["undecided", "error"]
# From the features of queries (B, C), or of their references, and of bags (T, C) to logits (B,).
LogitFunction = Callable[[Any, Bags], Tensor]
ROWS = 1 << 15  # instances pooled per call


@dataclass(frozen=True)
class SubsetPlan:
    """A plan for bags of ``N`` instances each.

    Args:
        subsets: ``K``, number of subsets of a bag to verify.
        kept: maps the numbers ``(P,)`` of some subsets, each below ``K``, to their instances, ``(P, N)`` bool; all at
            once would be too large for a large bag.
        combine: maps the logits ``(B, K)`` of the subsets of ``B`` bags to the scores ``(B, N)`` of their instances.
    """

    subsets: int
    kept: Callable[[Tensor], Tensor]
    combine: Callable[[Tensor], Tensor]


# From the size of a bag to the plan for it.
Planner = Callable[[int], SubsetPlan]


def score_instances(
    logits_of: LogitFunction, query: Tensor | Bags, bags: Bags, planner: Planner, empty_bag: EmptyBag = "undecided"
) -> Tensor:
    """Scores ``(T,)`` float64 of the instances, from features: ``query`` ``(B, C)`` and bags of ``(T, C)``.

    Args:
        logits_of: returns the logits of bags.
        query: of each bag.
        bags: the instances.
        planner: creates the plan for bags of one size.
        empty_bag: the verdict on an empty bag. ``undecided``: a logit of 0, a probability of one half, so the score of
            a single instance is the whole logit of its bag. ``error``: raise an error.
    """
    if empty_bag not in get_args(EmptyBag):
        raise unknown_name("policy for an empty bag", empty_bag, get_args(EmptyBag))
    scores = torch.zeros(len(bags.values), dtype=torch.float64)
    for size in bags.sizes.unique().tolist():
        plan = planner(size)
        of_size = (bags.sizes == size).nonzero().squeeze(1)
        for chosen in of_size.split(max(1, ROWS // (plan.subsets * size))):
            places = bags.ptr[chosen, None] + torch.arange(size, device=bags.ptr.device)  # (B, N)
            logit = _subset_logits(logits_of, query[chosen], bags.values, places, plan, empty_bag)
            scores[places.cpu()] = plan.combine(logit)
    return scores


def _subset_logits(
    logits_of: LogitFunction,
    query: Tensor | Bags,
    values: Tensor,
    places: Tensor,
    plan: SubsetPlan,
    empty_bag: EmptyBag,
) -> Tensor:
    """``(B, K)`` float64: the logit of each subset, its instances in the order of the bag."""
    bags, size = places.shape
    logit = torch.zeros(bags * plan.subsets, dtype=torch.float64)
    for part in torch.arange(len(logit)).split(max(1, ROWS // size)):
        kept = plan.kept(part % plan.subsets)  # (P, N)
        sizes = kept.sum(dim=1)
        if not bool(sizes.all()):
            if empty_bag == "error":
                raise MIVError(
                    f"A bag of {size} would become empty, and a verifier has no verdict on an empty bag. "
                    "Remove such exemplars, or use empty_bag='undecided' for a logit of 0."
                )
            part, kept, sizes = part[sizes > 0], kept[sizes > 0], sizes[sizes > 0]
            if not len(part):
                continue
        bag = (part // plan.subsets).to(places.device)  # (P,)
        subset, member = (index.to(places.device) for index in kept.nonzero(as_tuple=True))
        ptr = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]).to(places.device)
        logit[part] = logits_of(query[bag], Bags(values[places[bag[subset], member]], ptr)).double().cpu()
    return logit.reshape(bags, plan.subsets)
