import torch
from torch import Tensor, nn
from torch.nn import functional

from miv.bags import Bags
from miv.errors import MIVError
from miv.poolings.pooling_base import Pooling, PoolingOutput, check_count, check_heads, register_pooling

MOST_INSTANCES = 10_000
"""Maximum bag size: time, and the memory of gradients, grow with its square."""


@register_pooling("msa", section="4.2.4")
class SelfAttentionPooling(Pooling):
    r"""Multi-head self-attention (MSA) with a learned [CLS], as in TransMIL (Shao et al. 2021).

    .. math:: (v^P, v^Q) = MSA\big(v^{target}; (v^{[CLS]}, v^{query})\big)

    The same post-norm transformer encoder runs twice, on ([CLS], targets) and on (query, targets); each vector
    is the output at the first place. [CLS] also passes through the first LayerNorm. The paper takes no witnesses from
    it, because there is no agreed way to read them from self-attention.

    Args:
        channels: ``C``.
        heads: ``h``, a divisor of ``C``.
        layers: number of encoder layers.
    """

    has_attention = False

    def __init__(self, channels: int, heads: int = 2, layers: int = 2) -> None:
        super().__init__(channels)
        self.cls = nn.Parameter(torch.empty(channels).uniform_(-0.05, 0.05))
        check_count("layers", layers, most=64)
        self.layers = nn.ModuleList(EncoderLayer(channels, heads) for _ in range(layers))

    def forward(self, query: Tensor, bags: Bags) -> PoolingOutput:
        padded, mask = bags.to_padded()  # (B, N, C), (B, N)
        mask = functional.pad(mask, (1, 0), value=True)  # (B, 1 + N)
        cls = self.norm(self.cls).expand_as(query)  # (B, C)
        bag_vector = self._first_output(cls, padded, mask)
        return PoolingOutput(self._first_output(query, padded, mask), bag_vector, None)

    def _check(self, query: Tensor, bags: Bags) -> None:
        super()._check(query, bags)
        largest = int(bags.sizes.max())
        if largest > MOST_INSTANCES:
            raise MIVError(
                f"A bag has {largest:,} instances. The pooling msa compares each instance with each, so it takes at "
                f"most {MOST_INSTANCES:,} per bag. Split the bag, or use another pooling, such as cap_dba_l2."
            )

    def _first_output(self, first: Tensor, rest: Tensor, mask: Tensor) -> Tensor:
        sequence = torch.cat([first[:, None], rest], dim=1)  # (B, 1 + N, C)
        for layer in self.layers:
            sequence = layer(sequence, mask)
        return sequence[:, 0]  # (B, C)


class EncoderLayer(nn.Module):
    """A post-norm transformer encoder layer as in the TensorFlow model garden: no dropout, tanh GELU."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        check_heads(channels, heads)
        self.heads = heads
        self.to_query = _linear(channels, channels)
        self.to_key = _linear(channels, channels)
        self.to_value = _linear(channels, channels)
        self.to_output = _linear(channels, channels)
        self.attention_norm = nn.LayerNorm(channels, eps=1e-12)
        self.widen = _linear(channels, 4 * channels)
        self.narrow = _linear(4 * channels, channels)
        self.output_norm = nn.LayerNorm(channels, eps=1e-12)

    def forward(self, sequence: Tensor, mask: Tensor) -> Tensor:
        """``(B, N, C)`` to ``(B, N, C)``; places where ``mask`` ``(B, N)`` is false are ignored."""
        query, key, value = (self._by_head(to, sequence) for to in (self.to_query, self.to_key, self.to_value))
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None])
        attended = self.to_output(attended.transpose(1, 2).flatten(-2))  # (B, N, C)
        sequence = self.attention_norm(sequence + attended)
        hidden = functional.gelu(self.widen(sequence), approximate="tanh")  # (B, N, 4C)
        return self.output_norm(sequence + self.narrow(hidden))

    def _by_head(self, linear: nn.Module, sequence: Tensor) -> Tensor:
        by_head: Tensor = linear(sequence).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return by_head  # (B, h, N, D)


def _linear(inputs: int, outputs: int) -> nn.Linear:
    linear = nn.Linear(inputs, outputs)
    nn.init.trunc_normal_(linear.weight, std=0.02, a=-0.04, b=0.04)
    nn.init.zeros_(linear.bias)
    return linear
