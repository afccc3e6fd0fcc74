import math

import torch
from torch import Tensor, nn

from miv.bags import Bags
from miv.errors import MIVError
from miv.poolings.layers import glorot_linear, identity_linear
from miv.poolings.pooling_base import Pooling, PoolingOutput, check_heads, register_pooling
from miv.poolings.stored import BagVectorForm, StoredForm


@register_pooling("pma", section="4.2.3")
class MultiheadAttentionPooling(Pooling):
    r"""Pooling by multi-head attention (PMA) of Lee et al. (2019).

    A row-wise feed-forward layer is applied to query and targets, then the seeds attend to the targets:

    .. math::
        x' &= rFF(x), \qquad
        H = LN\big(S + Multihead(S, X', X')\big), \qquad
        PMA(S) = LN\big(H + rFF_2(H)\big) \\
        (v^P, v^Q) &= PMA_2\big(v^{target}; (P, v^{query})\big)

    The learned seed :math:`P` passes the first LayerNorm, not the feed-forward layer. All four maps of the
    attention start as the identity. The returned attention is that of the learned seed, which does not see the query.

    Args:
        channels: ``C``.
        heads: ``h``, a divisor of ``C``.
        seeds: 2, the paper's choice, as above; 1 lets only :math:`P` attend, and :math:`v^Q` is the query
            after the feed-forward layer.
    """

    def __init__(self, channels: int, heads: int = 2, seeds: int = 2) -> None:
        super().__init__(channels)
        if seeds not in (1, 2):
            raise MIVError(f"seeds is {seeds}. Expected 1 (PMA_1) or 2 (PMA_2, the paper's choice).")
        self.heads = heads
        self.head_channels = check_heads(channels, heads)
        self.seeds = seeds
        self.seed = nn.Parameter(torch.empty(channels).uniform_(-0.05, 0.05))  # P
        self.row_wise = _feed_forward(channels)
        self.to_query = identity_linear(channels)
        self.to_key = identity_linear(channels)
        self.to_value = identity_linear(channels)
        self.to_output = identity_linear(channels)
        self.attention_norm = nn.LayerNorm(channels, eps=1e-3)
        self.feed_forward = _feed_forward(channels)
        self.output_norm = nn.LayerNorm(channels, eps=1e-3)

    def forward(self, query: Tensor, bags: Bags) -> PoolingOutput:
        query = self.row_wise(query)  # (B, C)
        targets = self.row_wise(bags.values)  # (T, C)
        keys, values = bags.with_values(self.to_key(targets)), self.to_value(targets)  # (T, C)
        seed = self.norm(self.seed).expand_as(query)  # (B, C)
        bag_vector, attention = self._attend(seed, keys, values)
        query_vector = self._attend(query, keys, values)[0] if self.seeds == 2 else query
        return PoolingOutput(query_vector, bag_vector, attention)

    def stored_form(self) -> StoredForm | None:
        return BagVectorForm(self) if self.seeds == 1 else None  # a second seed is the query

    def _attend(self, seed: Tensor, keys: Bags, values: Tensor) -> tuple[Tensor, Tensor]:
        """One attention block: a seed for each bag ``(B, C)`` to ``(B, C)``, and the attention ``(T, h)``."""
        products = keys.dot(self.to_query(seed), keys.values, self.heads)  # (T, h)
        attention = keys.softmax(products / math.sqrt(self.head_channels)).to(values.dtype)
        attended = self.to_output(keys.weighted_sum(attention, values))  # (B, C)
        attended = self.attention_norm(seed + attended)
        return self.output_norm(attended + self.feed_forward(attended)), attention


def _feed_forward(channels: int) -> nn.Sequential:
    return nn.Sequential(glorot_linear(channels, 4 * channels), nn.ReLU(), glorot_linear(4 * channels, channels))
