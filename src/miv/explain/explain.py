"""Scores for the instances of a set, by any method and for any verifier."""

from typing import get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv.backbones.feature_cache import embed_instances
from miv.bags import Bags
from miv.data import ExemplarSet
from miv.data.batches import embedded, make_batch
from miv.decisions.witness_rules import WitnessesBy
from miv.errors import MIVError, unknown_name
from miv.explain.alone import logits_alone
from miv.explain.rollout import attention_rollout
from miv.explain.shapley import leave_one_out, shapley
from miv.explain.subsets import EmptyBag, score_instances
from miv.models.verifier import Verifier
from miv.poolings.msa import SelfAttentionPooling
from miv.poolings.pooling_base import check_count
from miv.runtime.evaluation_mode import evaluating
from miv.runtime.progress import Progress, SilentProgress

METHODS: tuple[str, ...] = get_args(WitnessesBy)
_EXEMPLARS = 1024  # that are looked up together
_MOST_EXACT = 16  # 65,536 subsets of one bag


def explain(
    verifier: Verifier,
    exemplars: ExemplarSet,
    method: str = "leave_one_out",
    *,
    features: NDArray[np.float32] | None = None,
    exact_up_to: int = 8,
    permutations: int = 32,
    seed: int = 0,
    empty_bag: EmptyBag = "undecided",
    progress: Progress | None = None,
) -> NDArray[np.float64]:
    """How much each bag member speaks for yes, ``(T,)`` in the order of ``exemplars.bag_index``.

    Args:
        verifier: any; ``attention`` needs a pooling that has it, ``rollout`` the pooling ``msa``.
        exemplars: the set.
        method: one of ``METHODS``. ``alone``, ``leave_one_out`` and ``shapley`` are in units of the logit and may be
            negative; ``attention`` and ``rollout`` are shares, which sum to 1 in each bag.
        features: ``(P, C)`` of the pool, where they are known; otherwise the instances that occur are embedded.
        exact_up_to: the largest bag whose Shapley values are exact, of ``2 ** N`` subsets.
        permutations: of larger bags, for their sampled Shapley values; see ``miv.explain.shapley``.
        seed: of the sample, in which the scores of a bag do not depend on the other bags.
        empty_bag: the verdict on nothing; see ``miv.explain.subsets.score_instances``.
        progress: is told how far it is.
    """
    progress = progress or SilentProgress()
    if features is None:
        features = embed_instances(verifier.backbone, exemplars.pool, exemplars.used, progress)
    scores = np.zeros(len(exemplars.bag_index))
    weight = next(verifier.pooling.parameters())
    step = progress.step(f"Explaining by {method}", total=len(exemplars))
    with evaluating(verifier), torch.inference_mode(), step as advance:
        for start in range(0, len(exemplars), _EXEMPLARS):
            chosen = np.arange(start, min(start + _EXEMPLARS, len(exemplars)))
            batch = make_batch(exemplars, chosen, embedded(features, weight.dtype)).to(weight.device)
            query, bags = batch.queries_and_bags()
            found = explain_features(
                verifier,
                query,
                bags,
                method,
                exact_up_to=exact_up_to,
                permutations=permutations,
                seed=seed,
                empty_bag=empty_bag,
            )
            scores[exemplars.bag_ptr[chosen[0]] : exemplars.bag_ptr[chosen[-1] + 1]] = found.double().cpu().numpy()
            advance(len(chosen))
    return scores


def explain_features(
    verifier: Verifier,
    query: Tensor,
    bags: Bags,
    method: str = "leave_one_out",
    *,
    exact_up_to: int = 8,
    permutations: int = 32,
    seed: int = 0,
    empty_bag: EmptyBag = "undecided",
) -> Tensor:
    """Do as ``explain`` from features, queries ``(B, C)`` and bags of ``(T, C)``, to scores ``(T,)``.

    >>> verifier = Verifier("mi_net", channels=4).eval()
    >>> bags = Bags.from_list([torch.randn(3, 4), torch.randn(1, 4)])
    >>> explain_features(verifier, torch.randn(2, 4), bags, "shapley").shape
    torch.Size([4])
    """
    check_method(verifier, method)
    with torch.inference_mode():
        if method == "attention":
            attention = verifier.verify_features(query, bags).attention
            assert attention is not None  # noqa: S101 - by the check
            return attention
        if method == "alone":
            return logits_alone(verifier, query, bags)
        if method == "rollout":
            return attention_rollout(verifier, query, bags)
        if method == "leave_one_out":
            return score_instances(verifier, query, bags, leave_one_out(), empty_bag)
        check_count("exact_up_to", exact_up_to, most=_MOST_EXACT)
        check_count("permutations", permutations)
        return score_instances(verifier, query, bags, shapley(exact_up_to, permutations, seed), empty_bag)


def check_method(verifier: Verifier, method: str) -> None:
    """Refuse a method that there is not, or that this verifier's pooling does not allow."""
    if method not in METHODS:
        raise unknown_name("method of explaining", method, METHODS)
    if method == "attention" and not verifier.pooling.has_attention:
        raise MIVError(
            "This pooling has no attention to take witnesses from. Choose alone, leave_one_out or shapley, which "
            "every pooling allows, or rollout for msa."
        )
    if method == "rollout" and not isinstance(verifier.pooling, SelfAttentionPooling):
        raise MIVError("Attention rollout is for the pooling msa only. Choose leave_one_out or shapley instead.")
