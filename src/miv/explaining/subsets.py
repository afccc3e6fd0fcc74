"""What a verifier says of parts of a bag: the ground of leave-one-out and of Shapley scores.

Every method is a plan: which subsets of a bag to verify, and how the logits become a score for each instance. Bags of
one size have plans of one shape, so they are verified together, in calls of thousands of instances.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from miv.bags import Bags
from miv.errors import MivError, unknown_name
from miv.verifier import Verifier

EmptyBag = Literal["undecided", "error"]
ROWS = 1 << 15  # instances that are pooled in one call


@dataclass(frozen=True)
class Plan:
    """For ``B`` bags of ``N`` instances each.

    Args:
        kept: ``(B, K, N)`` bool, which instances are in each of the ``K`` subsets of a bag.
        combine: from the logits ``(B, K)`` of the subsets to the scores ``(B, N)`` of the instances.
    """

    kept: Tensor
    combine: Callable[[Tensor], Tensor]


# From the number of bags and their size to the plan for them.
Planner = Callable[[int, int], Plan]


def score_instances(
    verifier: Verifier, query: Tensor, bags: Bags, planner: Planner, empty_bag: EmptyBag = "undecided"
) -> Tensor:
    """Scores ``(T,)`` float64 of the instances, from features: ``query`` ``(B, C)`` and bags of ``(T, C)``.

    Args:
        verifier: in evaluation mode.
        query: of each bag.
        bags: the instances.
        planner: makes the plan for bags of one size.
        empty_bag: what the verdict on nothing is. ``undecided``: a logit of 0, a probability of one half, so that the
            one instance of a bag of one has the bag's whole logit as its score. ``error``: refuse where it is asked.
    """
    if empty_bag not in get_args(EmptyBag):
        raise unknown_name("policy for an empty bag", empty_bag, get_args(EmptyBag))
    scores = torch.zeros(len(bags.values), dtype=torch.float64)
    for size in bags.sizes.unique().tolist():
        of_size = (bags.sizes == size).nonzero().squeeze(1)
        for chosen in of_size.split(max(1, ROWS // planner(1, size).kept[0].numel())):
            plan = planner(len(chosen), size)
            places = bags.ptr[chosen, None] + torch.arange(size, device=bags.ptr.device)  # (B, N)
            logit = _subset_logits(verifier, query, bags.values, chosen, places, plan.kept, empty_bag)
            scores[places.cpu()] = plan.combine(logit)
    return scores


def _subset_logits(
    verifier: Verifier,
    query: Tensor,
    values: Tensor,
    chosen: Tensor,
    places: Tensor,
    kept: Tensor,
    empty_bag: EmptyBag,
) -> Tensor:
    """``(B, K)`` float64: the logit of each subset, its instances in the order of the bag."""
    bags, subsets, size = kept.shape
    flat = kept.reshape(-1, size)  # (B * K, N)
    sizes = flat.sum(dim=1)
    if empty_bag == "error" and bool((sizes == 0).any()):
        raise MivError(
            f"A bag of {size} would be left empty, and a verifier has no verdict on nothing. "
            "Leave such exemplars out, or say empty_bag='undecided' for a logit of 0."
        )
    logit = torch.zeros(len(flat), dtype=torch.float64)
    for part in (sizes > 0).nonzero().squeeze(1).split(max(1, ROWS // size)):
        subset, member = flat[part].nonzero(as_tuple=True)
        bag = part // subsets  # (P,)
        rows = places[bag[subset].to(places.device), member.to(places.device)]
        ptr = torch.cat([sizes.new_zeros(1), sizes[part].cumsum(0)]).to(places.device)
        answer = verifier.verify_features(query[chosen[bag.to(chosen.device)]], Bags(values[rows], ptr))
        logit[part] = answer.logit.double().cpu()
    return logit.reshape(bags, subsets)
