from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from torch import Tensor, nn

from miv.bags import Bags
from miv.poolings.pooling_base import Pooling, PoolingOutput, check_choice, check_count, register_pooling
from miv.poolings.stored import BagVectorForm, StoredForm


@register_pooling("mi_net", section="4.2")
class MINetPooling(Pooling):
    r"""MI-Net of Wang et al. (2018): fully connected layers, then a pooling of the embeddings.

    .. math:: v^P = O \; pool_n \; relu\big(\dots relu(x_n A_1) \dots A_k\big), \qquad v^Q = v^{query}

    The map :math:`O` brings the pooled embedding back to ``C`` channels. There is no attention.

    Args:
        channels: ``C``.
        hidden: sizes of the fully connected layers; by default as published.
        pool: ``max``, ``mean`` or ``lse``, the log of the mean exponential.
    """

    has_attention = False

    def __init__(
        self, channels: int, hidden: Sequence[int] = (256, 128, 64), pool: Literal["max", "mean", "lse"] = "max"
    ) -> None:
        super().__init__(channels)
        check_choice("pool", pool, ("max", "mean", "lse"))
        self.pool = pool
        check_count("number of hidden layers", len(hidden), most=64)
        sizes = [channels, *(check_count("hidden", size) for size in hidden)]
        layers = [(nn.Linear(i, o), nn.ReLU()) for i, o in pairwise(sizes)]
        self.embed = nn.Sequential(*(part for pair in layers for part in pair))  # A_1 … A_k
        self.to_output = nn.Linear(sizes[-1], channels)  # O

    def forward(self, query: Tensor, bags: Bags) -> PoolingOutput:
        embedded = self.embed(bags.values)  # (T, H)
        if self.pool == "max":
            pooled = bags.max(embedded)  # (B, H)
        elif self.pool == "mean":
            pooled = bags.mean(embedded)
        else:
            pooled = bags.logsumexp(embedded) - bags.sizes[:, None].to(embedded.dtype).log()
        return PoolingOutput(query, self.to_output(pooled), None)

    def stored_form(self) -> StoredForm:
        return BagVectorForm(self)
