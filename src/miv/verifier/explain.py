"""Scores for the instances of bags, by any method and for any pooling."""

from typing import cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from miv.bags import Bags
from miv.data import csr
from miv.errors import MIVError, unknown_name
from miv.files.arrays import Floats
from miv.poolings import Pooling
from miv.poolings.msa import EncoderLayer, SelfAttentionPooling
from miv.poolings.pooling_base import check_count
from miv.verifier.decisions import WitnessesBy
from miv.verifier.network import Verifier
from miv.verifier.references import Pairs
from miv.verifier.subsets import EXACT_UP_TO, PERMUTATIONS, leave_one_out, logits_alone, score_instances, shapley

METHODS: tuple[str, ...] = get_args(WitnessesBy)
_MOST_EXACT = 16  # 65,536 subsets of one bag
_MOST_FOR_SUBSETS = 2000  # instances per bag
# A drop of the logit below this many rounding errors counts as 0, relative to the logit if that is above 1.
_ROUNDINGS = 16


def explain_features(
    verifier: Verifier,
    query: Tensor | Bags,
    bags: Bags,
    method: str = "leave_one_out",
    *,
    exact_up_to: int = EXACT_UP_TO,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> Tensor:
    """How much each instance contributes to a yes: queries ``(B, C)`` and bags of ``(T, C)`` to scores ``(T,)``.

    Args:
        verifier: in evaluation mode. ``attention`` needs a pooling with attention, ``rollout`` the pooling ``msa``.
        query: features of the queries, or ``Bags`` with the references of each.
        bags: features of the bags.
        method: one of ``METHODS``. ``alone``, ``leave_one_out`` and ``shapley`` are in units of the logit and may be
            negative; ``attention`` and ``rollout`` are shares, which sum to 1 in each bag.
        exact_up_to: largest bag size with exact Shapley values, from ``2 ** N`` subsets.
        permutations: number of permutations to sample for larger bags; see ``miv.verifier.subsets.shapley``.
        seed: random seed of the sample; the scores of a bag do not depend on the other bags.

    >>> from miv import Verifier
    >>> verifier = Verifier("mi_net", channels=4).eval()
    >>> bags = Bags.from_list([torch.randn(3, 4), torch.randn(1, 4)])
    >>> explain_features(verifier, torch.randn(2, 4), bags, "shapley").shape
    torch.Size([4])
    """
    check_method(verifier.pooling, method)

    def logits_of(query: Tensor | Bags, bags: Bags) -> Tensor:
        return verifier.verify_features(query, bags).logit

    with torch.inference_mode():
        if method == "attention":
            attention = verifier.verify_features(query, bags).attention
            assert attention is not None  # noqa: S101 - by the check
            return attention
        if method == "alone":
            return logits_alone(logits_of, query, bags)
        if method == "rollout":
            return _rollout(verifier, query, bags)
        _check_cost(verifier.pooling, method, bags)
        if method == "leave_one_out":
            return score_instances(logits_of, query, bags, leave_one_out)
        check_count("exact_up_to", exact_up_to, most=_MOST_EXACT)
        check_count("permutations", permutations)
        return score_instances(logits_of, query, bags, shapley(exact_up_to, permutations, seed))


def _rollout(verifier: Verifier, query: Tensor | Bags, bags: Bags) -> Tensor:
    """Attention rollout; those of several references are weighted like their logits."""
    if not isinstance(query, Bags):
        return attention_rollout(verifier.pooling, query, bags)
    pairs = Pairs.of(query, bags)
    share = pairs.shares(verifier.reference_rule, verifier.verify_features(pairs.query, pairs.bags).logit)
    return pairs.summed(pairs.bags.expand(share) * attention_rollout(verifier.pooling, pairs.query, pairs.bags), bags)


def check_method(pooling: Pooling, method: str) -> None:
    """Raise an error for an unknown method, or one that the pooling does not support."""
    if method not in METHODS:
        raise unknown_name("method of explaining", method, METHODS)
    if method == "attention" and not pooling.has_attention:
        raise MIVError(
            "This pooling has no attention. Use alone, leave_one_out or shapley, which "
            "work with every pooling, or rollout for msa."
        )
    if method == "rollout" and not isinstance(pooling, SelfAttentionPooling):
        raise MIVError("Attention rollout is for the pooling msa only. Choose leave_one_out or shapley instead.")


def _check_cost(pooling: Pooling, method: str, bags: Bags) -> None:
    """Raise an error if verifying the subsets of a bag takes hours: with msa, it grows with the cube of its size."""
    largest = int(bags.sizes.max())
    if isinstance(pooling, SelfAttentionPooling) and largest > _MOST_FOR_SUBSETS:
        raise MIVError(
            f"A bag has {largest:,} instances. {method} with the pooling msa takes at most {_MOST_FOR_SUBSETS:,}. Use "
            "rollout or alone for the witnesses, or none for the verdict only."
        )


def attention_rollout(pooling: Pooling, query: Tensor, bags: Bags) -> Tensor:
    r"""The share ``(T,)`` of the bag vector that comes from each target; sums to 1 in each bag.

    With the attention :math:`W_l` of layer ``l``, the mean over its heads, and as much from the residual connection:

    .. math:: R = A_L \cdots A_2 A_1, \qquad A_l = \tfrac{1}{2} (W_l + I)

    The first row of ``R`` is the origin of the output at the first place. There are two such outputs, [CLS] for the
    bag and the query; the result is their mean, without the share of the first place itself.
    """
    pooling = cast(SelfAttentionPooling, pooling)
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


def as_shares(
    scores: Floats, method: WitnessesBy, logit: Floats, ptr: NDArray[np.int64], dtype: torch.dtype = torch.float32
) -> Floats:
    r"""Convert scores ``(T,)`` of ``explain_features`` to shares, which are not negative and sum to 1 in each bag.

    Attention and rollout are already shares. Scores :math:`\phi_n` in units of the logit become

    .. math:: a_n = \max(\phi_n, 0) \Big/ \sum_m \max(\phi_m, 0)

    and :math:`1 / N` each if none is positive. Scores of ``alone``, which are logits :math:`z_n`, become

    .. math:: a_n = \sigma(z_n) \Big/ \sum_m \sigma(z_m)

    so two instances that each suffice get equal shares, and instances still differ if none suffices.

    ``logit`` ``(E,)`` and ``dtype`` are those of the verifier, so that a score within rounding error counts as 0.

    >>> as_shares(np.array([3.0, -1.0, 1.0, -2.0, 0.0]), "leave_one_out", np.zeros(2), np.array([0, 3, 5])).tolist()
    [0.75, 0.0, 0.25, 0.5, 0.5]
    """
    if method in ("attention", "rollout"):
        return scores
    if method == "alone":
        from scipy.special import expit

        positive = expit(scores)
    else:
        rounding = _ROUNDINGS * torch.finfo(dtype).eps * np.maximum(1.0, np.abs(logit))  # (E,)
        positive = np.where(scores > csr.to_rows(rounding, ptr), scores, 0.0)
    total = csr.to_rows(csr.bag_sums(positive, ptr), ptr)  # (T,) of the bag of each instance
    even = 1 / csr.to_rows(np.diff(ptr), ptr)
    return np.divide(positive, total, out=even, where=total > 0)
