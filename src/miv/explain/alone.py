"""Alone: the verdict if the instance were the whole bag."""

import torch
from torch import Tensor

from miv.bags import Bags
from miv.explain.subsets import ROWS, LogitFunction


def logits_alone(logits_of: LogitFunction, query: Tensor | Bags, bags: Bags) -> Tensor:
    r"""The logit ``(T,)`` of each instance as its own bag: :math:`f(\{n\})`, in ragged batches of bags of one.

    Unlike a share, it does not depend on the rest of the bag, so instances of different bags are comparable, and a bag
    without a witness has only low scores.

    Args:
        logits_of: returns the logits of bags.
        query: features ``(B, C)``, or ``Bags`` of references.
        bags: features ``(T, C)``.
    """
    found = []
    for rows, owner in zip(bags.values.split(ROWS), bags.owner.split(ROWS), strict=True):
        one_each = torch.arange(len(rows) + 1, device=rows.device)
        found.append(logits_of(query[owner], Bags(rows, one_each)))
    return torch.cat(found)
