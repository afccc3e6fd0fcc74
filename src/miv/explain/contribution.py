"""Contribution: how the logit of a bag is divided among its instances."""

from typing import Protocol

import torch
from torch import Tensor

from miv.bags import Bags
from miv.decisions.reference_pairs import Pairs
from miv.decisions.reference_rule import ReferenceRule
from miv.poolings import Pooling


class PooledScorer(Protocol):
    """A ``Verifier``, or anything else that compares what a pooling gives."""

    @property
    def pooling(self) -> Pooling:
        """The pooling of the scorer."""

    @property
    def reference_rule(self) -> ReferenceRule:
        """How it combines several references of a query."""


def contributions(scorer: PooledScorer, query: Tensor | Bags, bags: Bags) -> Tensor | None:
    r"""What each instance adds to the logit: queries ``(B, C)`` and bags of ``(T, C)`` to ``(T,)``.

    With the attention :math:`a_{nj}` of instance :math:`n` in head :math:`j` and the logit :math:`z` of its bag

    .. math:: c_n = \sum_j a_{nj} \frac{\partial z}{\partial a_{nj}}

    If the bag vector is a sum weighted by attention, as in CAP and gated attention, the logit is linear in the
    attention, and the contributions add up to the part of the logit that depends on the bag. Behind a norm of the sum,
    and with a similarity that also weighs distances, they are a first-order estimate. Unlike attention, a contribution
    also knows whether what is looked at speaks for a yes or a no. The contributions of several references are weighted
    like their logits.

    Returns:
        ``None`` if the logit is not a smooth function of the attention: without attention, and for the poolings that
        choose one instance.
    """
    if not scorer.pooling.has_attention:
        return None
    if isinstance(query, Bags):
        pairs = Pairs.of(query, bags)
        found, logit = _of_pairs(scorer, pairs.query, pairs.bags)
        share = pairs.shares(scorer.reference_rule, logit)
        return None if found is None else pairs.summed(pairs.bags.expand(share) * found, bags)
    return _of_pairs(scorer, query, bags)[0]


def _of_pairs(scorer: PooledScorer, query: Tensor, bags: Bags) -> tuple[Tensor | None, Tensor]:
    """Contributions ``(T,)`` and logits ``(B,)`` of single queries."""
    with torch.inference_mode(mode=False), torch.enable_grad():
        # Copies, because tensors made in inference mode cannot be part of a gradient.
        query = query.clone().requires_grad_()
        bags = Bags(bags.values.clone().requires_grad_(), bags.ptr.clone())
        pooled = scorer.pooling(query, bags)
        logit = scorer.pooling.similarity(pooled.query_vector, pooled.bag_vector)  # (B,)
        attention = pooled.attention
        if attention is None or not attention.requires_grad:
            return None, logit.detach()
        # Bags do not affect each other, so the gradient of the sum is that of each.
        [slope] = torch.autograd.grad(logit.sum(), attention, allow_unused=True)  # (T, h)
        return None if slope is None else (attention * slope).sum(dim=1).detach(), logit.detach()
