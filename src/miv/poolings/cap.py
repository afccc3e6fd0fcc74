"""Cross-attention pooling: the common part of the attention functions VEMA, DBA and plain multiplication."""

from abc import abstractmethod
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from miv.bags import Bags
from miv.errors import MIVError
from miv.poolings.layers import Excitation, HeadNorm, identity_linear
from miv.poolings.pooling_base import Pooling, PoolingOutput, check_choice, check_flag, check_heads


class CrossAttentionPooling(Pooling):
    r"""Cross-attention pooling (CAP): the query decides which targets get attention.

    The paper's equations 8a and 8b, for the heads :math:`j = 1, \dots, h`, each of :math:`D = C / h` channels:

    .. math::
        O^P_j &= as_j(v^{query} W_j, v^{target} W_j) \;
                 LN_j\big(v^{target} W_j \odot MHCE_j(v^{query})\big) \\
        O^Q_j &= LN_j\big(v^{query} W_j \odot MHCE_j(v^{query})\big)

    and query and bag vector are the concatenated outputs of the heads. A subclass defines :math:`as`; MHCE is equation
    12. The epsilons are the authors': 1e-3 is added to variances before the pooling and in ``post``, and the square of
    1e-6 in ``LN_j``.

    Args:
        channels: ``C``.
        heads: ``h``, a divisor of ``C``.
        projection: whether to use ``W``; without it there is one head ("non-headed").
        co_excitation: whether to use the gate ``MHCE``.
        norm: position of the LayerNorm of the values. ``pre``: in each head before the sum (``LN_j``);
            ``post``: one over all ``C`` after it; ``none``.
        gate_reads: input of ``MHCE``: the query before the projection, as in the paper's models, or after
            it (``projected_query``), as in the third step of the authors' ablation ladder.
    """

    compares_bag: ClassVar[bool] = False  # whether the scores of a target depend on the other targets
    starts_as_nearest = True  # with one head; each of several has a norm of its own, so one without meaning counts too

    def __init__(
        self,
        channels: int,
        heads: int = 2,
        projection: bool = True,
        co_excitation: bool = True,
        norm: Literal["pre", "post", "none"] = "pre",
        gate_reads: Literal["query", "projected_query"] = "query",
    ) -> None:
        super().__init__(channels)
        check_flag("projection", projection)
        check_flag("co_excitation", co_excitation)
        check_choice("norm", norm, ("pre", "post", "none"))
        check_choice("gate_reads", gate_reads, ("query", "projected_query"))
        if not projection and heads != 1:
            raise MIVError(f"projection is False and heads is {heads}. Without a projection, set heads=1.")
        self.heads = heads
        self.head_channels = check_heads(channels, heads)  # D
        self.gate_reads = gate_reads
        self.project = identity_linear(channels) if projection else nn.Identity()  # W_1 … W_h side by side
        self.gate = Excitation(channels) if co_excitation else None  # MHCE
        self.pre_norm = HeadNorm(channels, heads) if norm == "pre" else None  # LN_j
        self.post_norm = nn.LayerNorm(channels, eps=1e-3) if norm == "post" else None
        self.sharpness: nn.Parameter | None = None
        self.add_attention_weights()

    def start_similar(self) -> None:
        """Also give each head a fitted factor for its scores, so that attention starts as sharp as the data need."""
        super().start_similar()
        self.sharpness = nn.Parameter(torch.ones(self.heads))

    def add_attention_weights(self) -> None:
        """Create the parameters of the attention function; none by default."""
        return

    @abstractmethod
    def scores(self, query: Tensor, keys: Bags, targets: Bags) -> Tensor:
        """Score every instance by every head, ``(T, h)``; the softmax over each bag comes after.

        Args:
            query: ``(B, C)``, projected.
            keys: ``(T, C)``, the targets projected.
            targets: ``(T, C)``, the targets before projection.
        """

    def forward(self, query: Tensor, bags: Bags) -> PoolingOutput:
        return self.attend(query, bags)[0]

    def attend(self, query: Tensor, bags: Bags, more: Tensor | None = None) -> tuple[PoolingOutput, Tensor]:
        """Pool, and return the scores ``(T, h)`` too, before sharpness and softmax.

        Args:
            query: ``(B, C)``.
            bags: values ``(T, C)``.
            more: ``(T, 1)``, added to the scores of every head.
        """
        projected_query = self.project(query)  # (B, C)
        keys = bags.with_values(self.project(bags.values))  # (T, C)
        scores = self.scores(projected_query, keys, bags)  # (T, h)
        if more is not None:
            scores = scores + more
        sharp = scores if self.sharpness is None else scores * self.sharpness
        attention = bags.softmax(sharp).to(keys.values.dtype)  # (T, h)
        merging = None if self.compares_bag or self.post_norm is not None else sharp

        gate = None
        query_value = projected_query
        if self.gate is not None:
            gate = self.gate(query if self.gate_reads == "query" else projected_query)  # (B, C)
            query_value = projected_query * gate  # (B, C)

        if self.pre_norm is not None:
            bag_value = self.pre_norm.pool(attention, keys, gate)  # (B, C)
            return PoolingOutput(self.pre_norm(query_value), bag_value, attention, None, merging), scores
        bag_value = keys.weighted_sum(attention, keys.values)  # (B, C)
        if gate is not None:
            bag_value = bag_value * gate  # a factor of every term of the sum
        if self.post_norm is not None:
            return PoolingOutput(self.post_norm(query_value), self.post_norm(bag_value), attention), scores
        return PoolingOutput(query_value, bag_value, attention, None, merging), scores
