"""Scores for the instances of bags, by any method and for any pooling."""

from typing import Protocol, get_args

import torch
from torch import Tensor

from miv.bags import Bags
from miv.decisions.reference_pairs import Pairs
from miv.decisions.reference_rule import ReferenceRule
from miv.decisions.witness_rules import WitnessesBy
from miv.errors import MIVError, unknown_name
from miv.explain.alone import logits_alone
from miv.explain.rollout import attention_rollout
from miv.explain.shapley import leave_one_out, shapley
from miv.explain.subsets import EmptyBag, score_instances
from miv.poolings import Pooling
from miv.poolings.msa import SelfAttentionPooling
from miv.poolings.pooling_base import check_count

METHODS: tuple[str, ...] = get_args(WitnessesBy)
_MOST_EXACT = 16  # 65,536 subsets of one bag
_MOST_FOR_SUBSETS = 2000  # instances per bag


class BagAnswers(Protocol):
    """A scorer's output for ``B`` bags with ``T`` instances in total."""

    @property
    def logit(self) -> Tensor:
        """``(B,)``."""

    @property
    def attention(self) -> Tensor | None:
        """``(T,)``, sums to 1 in each bag; ``None`` if the pooling has no attention."""


class Scorer(Protocol):
    """A ``Verifier``, or anything else that scores bags of features with a pooling."""

    @property
    def pooling(self) -> Pooling:
        """The pooling of the scorer."""

    @property
    def reference_rule(self) -> ReferenceRule:
        """How it combines several references of a query."""

    def verify_features(self, query: Tensor | Bags, bags: Bags) -> BagAnswers:
        """Score queries ``(B, C)``, or ``Bags`` of references, and bags of values ``(T, C)``."""


def explain_features(
    scorer: Scorer,
    query: Tensor | Bags,
    bags: Bags,
    method: str = "leave_one_out",
    *,
    exact_up_to: int = 8,
    permutations: int = 32,
    seed: int = 0,
    empty_bag: EmptyBag = "undecided",
) -> Tensor:
    """How much each instance contributes to a yes: queries ``(B, C)`` and bags of ``(T, C)`` to scores ``(T,)``.

    Args:
        scorer: a verifier in evaluation mode. ``attention`` needs a pooling with attention, ``rollout`` the pooling
            ``msa``.
        query: features of the queries, or ``Bags`` with the references of each.
        bags: features of the bags.
        method: one of ``METHODS``. ``alone``, ``leave_one_out`` and ``shapley`` are in units of the logit and may be
            negative; ``attention`` and ``rollout`` are shares, which sum to 1 in each bag.
        exact_up_to: largest bag size with exact Shapley values, from ``2 ** N`` subsets.
        permutations: number of permutations to sample for larger bags; see ``miv.explain.shapley``.
        seed: random seed of the sample; the scores of a bag do not depend on the other bags.
        empty_bag: the verdict on an empty bag; see ``miv.explain.subsets.score_instances``.

    >>> from miv import Verifier
    >>> verifier = Verifier("mi_net", channels=4).eval()
    >>> bags = Bags.from_list([torch.randn(3, 4), torch.randn(1, 4)])
    >>> explain_features(verifier, torch.randn(2, 4), bags, "shapley").shape
    torch.Size([4])
    """
    check_method(scorer.pooling, method)

    def logits_of(query: Tensor | Bags, bags: Bags) -> Tensor:
        return scorer.verify_features(query, bags).logit

    with torch.inference_mode():
        if method == "attention":
            attention = scorer.verify_features(query, bags).attention
            assert attention is not None  # noqa: S101 - by the check
            return attention
        if method == "alone":
            return logits_alone(logits_of, query, bags)
        if method == "rollout":
            return _rollout(scorer, query, bags)
        _check_cost(scorer.pooling, method, bags)
        if method == "leave_one_out":
            return score_instances(logits_of, query, bags, leave_one_out(), empty_bag)
        check_count("exact_up_to", exact_up_to, most=_MOST_EXACT)
        check_count("permutations", permutations)
        return score_instances(logits_of, query, bags, shapley(exact_up_to, permutations, seed), empty_bag)


def _rollout(scorer: Scorer, query: Tensor | Bags, bags: Bags) -> Tensor:
    """Attention rollout; those of several references are weighted like their logits."""
    if not isinstance(query, Bags):
        return attention_rollout(scorer.pooling, query, bags)
    pairs = Pairs.of(query, bags)
    share = pairs.shares(scorer.reference_rule, scorer.verify_features(pairs.query, pairs.bags).logit)
    return pairs.summed(pairs.bags.expand(share) * attention_rollout(scorer.pooling, pairs.query, pairs.bags), bags)


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
    """Raise an error if verifying the subsets of a bag takes hours: with msa, time grows with its size cubed."""
    largest = int(bags.sizes.max())
    if isinstance(pooling, SelfAttentionPooling) and largest > _MOST_FOR_SUBSETS:
        raise MIVError(
            f"A bag has {largest:,} instances. {method} with the pooling msa takes at most {_MOST_FOR_SUBSETS:,}. Use "
            "rollout or alone for the witnesses, or none for the verdict only."
        )
