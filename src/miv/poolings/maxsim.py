import torch
from torch import Tensor, nn

from miv.bags import Bags
from miv.errors import MIVError
from miv.poolings.pooling_base import Pooling, PoolingOutput, check_count, register_pooling

SCALE, INTERCEPT = 15.0, -10.0  # until they are trained
SMALLEST = 1e-6  # length of a token that is not padding


class TokenSimilarity(nn.Module):
    r"""Compares two texts token by token (late interaction, Khattab and Zaharia 2020).

    A vector of :math:`C` channels holds :math:`C / d` tokens :math:`x_i` of width :math:`d`; the length of a token is
    its weight, and a token of zeros is padding.

    .. math::
        m(q, t) = \sum_i \|q_i\| \max\{0, \max_j \cos(q_i, t_j)\} \Big/ \sum_i \|q_i\|, \qquad
        sim = s \, m(q, t) + a^\top \bar q + c^\top \bar t + b

    with the means :math:`\bar x = \sum_i x_i / \sum_i \|x_i\|`. Each token of the query looks for its best match in
    the target, so a name or a number that the target lacks lowers the similarity, and anything else that the target
    says does not. What a query or a target is about shifts what a match is worth: everything matches "He was born".

    Args:
        width: :math:`d`.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.scale = nn.Parameter(torch.tensor(SCALE))  # s
        self.intercept = nn.Parameter(torch.tensor(INTERCEPT))  # b
        self.query_offset = nn.Parameter(torch.zeros(width))  # a
        self.target_offset = nn.Parameter(torch.zeros(width))  # c

    def forward(self, query: Tensor, targets: Tensor) -> Tensor:
        """Compare row by row: ``(B, C)`` and ``(B, C)`` to ``(B,)``."""
        of_query, of_target = (_tokens(x, self.width) for x in (query, targets))  # (B, L, d), (B, M, d)
        weight, length = of_query.norm(dim=2), of_target.norm(dim=2)  # (B, L), (B, M)
        cosine = _unit(of_query) @ _unit(of_target).transpose(1, 2)  # (B, L, M)
        best = cosine.amax(dim=2).clamp(min=0)  # (B, L)
        sums = [lengths.sum(dim=1).clamp(min=SMALLEST) for lengths in (weight, length)]  # (B,) each
        shift = of_query.sum(dim=1) @ self.query_offset / sums[0] + of_target.sum(dim=1) @ self.target_offset / sums[1]
        return (weight * best).sum(dim=1) / sums[0] * self.scale + shift + self.intercept


@register_pooling("maxsim", section="–")
class MaxSimPooling(Pooling):
    r"""The target that matches most of the query's tokens represents the bag; for the backbone ``tokens``.

    .. math::
        n^* = argmax_n \, sim(v^{query}, v^{target}_n), \qquad v^P = v^{target}_{n^*}, \qquad
        a_n \propto \exp\{sim(v^{query}, v^{target}_n)\}

    with the similarity of tokens, see ``TokenSimilarity``. The attention ranks all targets; it does
    not affect the logit. Features are used as they are, without a first norm. Of equally good targets, the first is
    :math:`v^P`.

    Args:
        channels: ``C``.
        width: channels per token, a divisor of ``C``; by default all, so that a vector is one token.
    """

    score_is_logit = True
    takes_best = True

    def __init__(self, channels: int, width: int | None = None) -> None:
        super().__init__(channels)
        width = channels if width is None else width
        check_count("width", width)
        if channels % width:
            raise MIVError(f"width is {width}. Expected a divisor of channels, {channels}.")
        self.norm = nn.Identity()  # type: ignore[assignment]  # the length of a token is its weight
        self.similarity = TokenSimilarity(width)  # type: ignore[assignment]

    def start_similar(self) -> None:
        """Keep everything: it starts as a cosine of tokens."""

    def forward(self, query: Tensor, bags: Bags) -> PoolingOutput:
        targets = bags.values  # (T, C)
        similarity = self.similarity(bags.expand(query), targets)[:, None]  # (T, 1)
        is_best = similarity == bags.expand(bags.max(similarity))  # (T, 1)
        # Of several, the first: a mean of two texts would match neither.
        early = is_best.float() / torch.ones_like(similarity, dtype=torch.float32).cumsum(dim=0)  # (T, 1)
        chosen = (early == bags.expand(bags.max(early))).to(targets.dtype)  # (T, 1)
        attention = bags.softmax(similarity).to(targets.dtype)  # (T, 1)
        return PoolingOutput(query, bags.sum(chosen * targets), attention, similarity[:, 0], similarity)


def _tokens(x: Tensor, width: int) -> Tensor:
    """``(B, C)`` to tokens ``(B, L, d)``, without those at the end that are padding in every row."""
    tokens = x.unflatten(1, (-1, width))
    if torch.compiler.is_compiling():  # a compiled or exported graph has one shape
        return tokens
    used = tokens.any(dim=2).any(dim=0).nonzero()  # (number of columns with a token, 1)
    return tokens[:, : int(used[-1]) + 1] if len(used) else tokens[:, :1]


def _unit(tokens: Tensor) -> Tensor:
    """Tokens of length 1; padding stays 0."""
    return tokens / tokens.norm(dim=-1, keepdim=True).clamp(min=SMALLEST)
