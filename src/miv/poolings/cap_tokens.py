import math

import torch
from torch import Tensor, nn

from miv.bags import Bags
from miv.errors import MIVError
from miv.poolings.cap_dba import EuclideanPooling
from miv.poolings.maxsim import TokenSimilarity
from miv.poolings.pooling_base import Pooling, PoolingOutput, check_count, register_pooling
from miv.poolings.similar import AlignedNorm, ScaledProduct

SHARE = 0.04  # of the tokens, until it is fitted: few texts of any kind lose with it
SHARPNESS = 8.0  # of the attention that is returned; a cosine that is greater by 0.125 has e times the share
_TOGETHER = 256  # pairs of texts of about one length compared together


class VectorNorm(AlignedNorm):
    r"""The ``AlignedNorm`` of the first ``channels`` channels, a text's vector; its tokens follow as they are.

    Args:
        channels: length of the vector.
        length: of a feature; if it is the same, the vector is also the only token.
    """

    def __init__(self, channels: int, length: int) -> None:
        super().__init__(channels, learned=False)  # so that no gradient runs through tokens that are fixed
        self.length = length

    def direction(self, x: Tensor) -> Tensor:
        return super().direction(x[..., : self.channels])

    def forward(self, x: Tensor) -> Tensor:
        tokens = x[..., self.channels :] if self.length > self.channels else x
        return torch.cat([super().forward(x), tokens], dim=-1)


class MatchedProduct(ScaledProduct):
    r"""Similarity of query and bag vector, plus what the tokens say.

    .. math:: sim = \frac{s}{C} \sum_{i=1}^C \Big(w_i \, v^Q_i \, v^P_i - d_i \, |v^Q_i - v^P_i|\Big) + s r t + b

    for vectors of ``C + 1`` channels, the last of which are 1 and :math:`t`, the similarity of the tokens.

    Args:
        channels: ``C``.
    """

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.share = nn.Parameter(torch.tensor(SHARE))  # r

    def product(self, query: Tensor, targets: Tensor) -> Tensor:
        matched = query[:, -1] * targets[:, -1] * self.share  # (B,)
        return super().product(query[:, :-1], targets[:, :-1]) + matched

    def forward(self, query: Tensor, targets: Tensor) -> Tensor:
        """Compare row by row: ``(B, C + 1)`` and ``(B, C + 1)`` to ``(B,)``."""
        matched = query[:, -1] * targets[:, -1] * self.share  # (B,)
        return super().forward(query[:, :-1], targets[:, :-1]) + matched * self.scale


@register_pooling("cap_tokens", section="–")
class CapTokensPooling(Pooling):
    r"""CAP on the vectors of texts, together with the similarity of their tokens; for ``sentence_tokens``.

    .. math::
        t_n = sim(q, t_n) \text{ of maxsim}, \qquad
        u_n = \frac{c - \sum_m \beta_m (q_m - v_{nm})^2}{s \sqrt{D / 2}} + r \, t_n, \qquad
        t = \max_n t_n, \qquad a_n \propto \exp\{8 u_n\}

    At first, :math:`u_n` is a cosine and the tokens' share :math:`r` of their similarity. The vectors are pooled by
    ``cap_dba_l2`` with scores :math:`\kappa \sqrt{D / 2} \, u_n`, so sharp that the softmax keeps hardly more than the
    best target; the attention :math:`a_n` that is returned ranks all of them and does not affect the logit. The logit
    has the same two parts, see ``MatchedProduct``.

    Args:
        channels: length of a feature: a vector, then the tokens.
        vector: length of the vector; by default all channels, and the vector is also the only token.
        width: channels per token.
        heads: ``h`` of CAP, a divisor of ``vector``.
    """

    starts_as_nearest = True

    def __init__(self, channels: int, vector: int | None = None, width: int | None = None, heads: int = 1) -> None:
        super().__init__(channels)
        self.vector = check_count("vector", channels if vector is None else vector, channels)
        rest = channels - self.vector or channels
        self.width = check_count("width", rest if width is None else width)
        if rest % self.width:
            raise MIVError(f"width is {width}. Expected a divisor of {rest}, the channels of the tokens.")
        self.cap = EuclideanPooling(self.vector, heads)
        self.cap.start_similar()
        self.cap.norm = self.cap.similarity = nn.Identity()  # type: ignore[assignment]  # those of this pooling count
        self.tokens = TokenSimilarity(self.width)
        self.share = nn.Parameter(torch.tensor(SHARE))  # r of the attention
        self.gain = nn.Parameter(torch.ones(self.vector))  # γ of the norm
        self.bias = nn.Parameter(torch.zeros(self.vector))  # b of the norm
        self.start_similar()

    def start_similar(self) -> None:
        """It has one start: nothing in the paper compares tokens."""
        self.norm = VectorNorm(self.vector, self.channels)
        self.similarity = MatchedProduct(self.vector)

    def forward(self, query: Tensor, bags: Bags) -> PoolingOutput:
        asked, targets = (x[:, : self.vector] * self.gain + self.bias for x in (query, bags.values))  # (B, C), (T, C)
        match = self.match(query[:, self.vector :], bags.with_values(bags.values[:, self.vector :]))  # (T, 1)
        spread = math.sqrt(self.cap.head_channels / 2)
        more = match * (self.share * spread)  # (T, 1)
        pooled, score = self.cap.attend(asked, bags.with_values(targets), more)
        query_vector = torch.cat(
            [pooled.query_vector, torch.ones_like(pooled.query_vector[:, :1])], dim=1
        )  # (B, C + 1)
        bag_vector = torch.cat([pooled.bag_vector, bags.max(match)], dim=1)  # (B, C + 1)
        attention = bags.softmax(score.mean(dim=1, keepdim=True) * (SHARPNESS / spread))  # (T, 1)
        return PoolingOutput(query_vector, bag_vector, attention.to(bag_vector.dtype))

    def match(self, query: Tensor, bags: Bags) -> Tensor:
        """The similarity ``(T, 1)`` of the tokens of each target to those of its query."""
        if torch.compiler.is_compiling():  # a compiled or exported graph has one shape
            return self.tokens(bags.expand(query), bags.values)[:, None]
        owner = bags.expand(torch.arange(len(bags), device=query.device)[:, None])[:, 0]  # (T,)
        # Most texts are much shorter than the longest, and padding costs as much as tokens.
        used = [(x.unflatten(1, (-1, self.width)).norm(dim=2) > 0).sum(dim=1) for x in (query, bags.values)]
        used = [used[0][owner], used[1]]  # (T,) each
        order = (used[0] * 4096 + used[1]).argsort()  # (T,)
        matches = []
        for rows in order.split(_TOGETHER):
            of_query, of_target = (self.width * max(1, int(tokens[rows].max())) for tokens in used)
            matches.append(self.tokens(query[:, :of_query][owner[rows]], bags.values[:, :of_target][rows]))
        return torch.cat(matches)[order.argsort()][:, None]
