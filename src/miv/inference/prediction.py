"""What a verifier says of a whole set, embedding each instance once: its answers, and scores of the instances."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from miv.backbones.feature_cache import embed_instances
from miv.data import ExemplarSet
from miv.decisions.witness_rules import WitnessesBy
from miv.evaluation import Predictions
from miv.explain import as_shares, check_method
from miv.explain.subsets import EmptyBag
from miv.inference.engine import EmbeddedExemplars, explain_embedded, verify_embedded
from miv.io.checked_values import Floats
from miv.runtime.processes import ProcessShare
from miv.runtime.progress import Progress

if TYPE_CHECKING:
    from miv.models.verifier import Verifier


def predict(
    verifier: "Verifier",
    exemplars: ExemplarSet,
    features: NDArray[np.float32] | None = None,
    progress: Progress | None = None,
) -> Predictions:
    """Verify every exemplar of a set; with several processes each takes a share, and all get the whole.

    Args:
        verifier: is left in the mode, training or not, in which it is, each of its parts.
        exemplars: the set.
        features: ``(P, C)`` of the pool, where they are known; otherwise the instances that occur are embedded.
        progress: is told how far embedding and verifying are.
    """
    share = ProcessShare.of_this_process()
    mine = share.part(np.arange(len(exemplars)))  # they follow each other, and so do their bags
    logit = np.zeros(len(exemplars), np.float32)
    attention = np.zeros(len(exemplars.bag_index), np.float32)
    if features is None:
        used = exemplars.subset(mine).used if len(mine) else mine
        features = embed_instances(verifier.backbone, exemplars.pool, used, progress)
    if len(mine):
        first, last = int(mine[0]), int(mine[-1]) + 1
        answers = verify_embedded(verifier, _embedded(exemplars, features).part(first, last), progress)
        logit[first:last] = answers.logit
        if answers.attention is not None:
            attention[exemplars.bag_ptr[first] : exemplars.bag_ptr[last]] = answers.attention
    return Predictions.of(exemplars, share.sum(logit), share.sum(attention) if verifier.pooling.has_attention else None)


def explain(
    verifier: "Verifier",
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
        verifier: is left in the mode, training or not, in which it is, each of its parts.
        exemplars: the set.
        method: as this and the four options below for ``miv.explain.explain_features``.
        features: ``(P, C)`` of the pool, where they are known; otherwise the instances that occur are embedded.
        exact_up_to: the largest bag whose Shapley values are exact.
        permutations: of larger bags, for their sampled Shapley values.
        seed: of the sample.
        empty_bag: the verdict on nothing.
        progress: is told how far embedding and explaining are.
    """
    check_method(verifier.pooling, method)
    if features is None:
        features = embed_instances(verifier.backbone, exemplars.pool, exemplars.used, progress)
    options = {"exact_up_to": exact_up_to, "permutations": permutations, "seed": seed, "empty_bag": empty_bag}
    return explain_embedded(verifier, _embedded(exemplars, features), method, progress, **options)


def witness_shares(
    verifier: "Verifier",
    exemplars: ExemplarSet,
    logit: Floats,
    method: WitnessesBy,
    progress: Progress | None = None,
    features: NDArray[np.float32] | None = None,
) -> Floats:
    """``(T,)`` shares of all bag members of a set, of sum 1 in each bag, where the bags have these logits ``(E,)``.

    ``features`` ``(P, C)`` are those of the pool, where they are known.
    """
    scores = explain(verifier, exemplars, method, features=features, progress=progress)
    return as_shares(scores, method, logit, exemplars.bag_ptr, verifier.dtype)


def _embedded(exemplars: ExemplarSet, features: NDArray[np.float32]) -> EmbeddedExemplars:
    return EmbeddedExemplars.among(features, exemplars.query, exemplars.bag_index, exemplars.bag_ptr)
