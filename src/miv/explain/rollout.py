"""Attention rollout (Abnar and Zuidema 2020): through which targets do the outputs of MSA look?"""

from typing import cast

import torch
from torch import Tensor
from torch.nn import functional

from miv.bags import Bags
from miv.errors import MIVError
from miv.poolings import Pooling
from miv.poolings.msa import EncoderLayer, SelfAttentionPooling


def attention_rollout(pooling: Pooling, query: Tensor, bags: Bags) -> Tensor:
    r"""The share ``(T,)`` of the bag vector that comes from each target; sums to 1 in each bag.

    With the attention :math:`W_l` of layer ``l``, the mean over its heads, and as much from the residual connection:

    .. math:: R = A_L \cdots A_2 A_1, \qquad A_l = \tfrac{1}{2} (W_l + I)

    The first row of ``R`` is the origin of the output at the first place. There are two such outputs, [CLS] for the
    bag and the query; the result is their mean, without the share of the first place itself.

    Args:
        pooling: ``msa``.
        query: features ``(B, C)``.
        bags: features ``(T, C)``.
    """
    if not isinstance(pooling, SelfAttentionPooling):
        raise MIVError("Attention rollout is for the pooling msa only. Choose leave_one_out or shapley instead.")
    targets, mask = bags.with_values(pooling.norm(bags.values)).to_padded()  # (B, N, C), (B, N)
    firsts = (pooling.norm(pooling.cls).expand_as(query), pooling.norm(query))
    both = [_first_row(pooling, first, targets, functional.pad(mask, (1, 0), value=True)) for first in firsts]
    share = (both[0] + both[1])[mask]  # (T,)
    return share / bags.expand(bags.sum(share))


def _first_row(pooling: SelfAttentionPooling, first: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """``(B, N)``: how much of the first output comes from each target."""
    sequence = torch.cat([first[:, None], targets], dim=1)  # (B, 1 + N, C)
    identity = torch.eye(sequence.shape[1], dtype=sequence.dtype, device=sequence.device)
    rollout = identity.expand(len(sequence), -1, -1)
    for layer in pooling.layers:
        weights = cast(EncoderLayer, layer).attention_weights(sequence, mask).mean(dim=1)  # (B, 1 + N, 1 + N)
        rollout = (weights + identity) / 2 @ rollout
        sequence = layer(sequence, mask)
    return rollout[:, 0, 1:]
