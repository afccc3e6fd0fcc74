"""What ranks a bag's instances: attention as in the paper, a score of each instance, or the first choice alone.

Attention ranks all instances only if it is soft. The baseline gives all of it to one instance, so by attention its
other instances tie, and i-AUROC and i-AP count the ties against it. Models compare fairly if all are ranked by what
they know of every instance, or if only the first choice counts for all of them.
"""

from collections.abc import Mapping

import numpy as np

from miv.data import csr
from miv.evaluation.predictions import Predictions
from miv.evaluation.witnesses import UndefinedWitness, witness_metrics
from miv.io.checked_values import Floats

# How instances are ranked, and what a table calls it.
RANKED_BY: Mapping[str, str] = {
    "attention": "attention, as in the paper",
    "score": "its own score",
    "contribution": "contribution to the logit",
    "one_hot": "first choice only (one-hot)",
}
# The metrics of the experiments by name: how instances are ranked, and the witness metric.
RANKED_METRICS: Mapping[str, tuple[str, str]] = {
    "i_auroc": ("attention", "i_auroc"),
    "i_ap": ("attention", "i_ap"),
    "i_auroc_by_score": ("score", "i_auroc"),
    "i_ap_by_score": ("score", "i_ap"),
    "i_auroc_by_contribution": ("contribution", "i_auroc"),
    "i_ap_by_contribution": ("contribution", "i_ap"),
    "i_auroc_one_hot": ("one_hot", "i_auroc"),
    "i_ap_one_hot": ("one_hot", "i_ap"),
    "i_top1": ("one_hot", "i_top1"),
}


def rank_instances(predictions: Predictions, by: str) -> Floats | None:
    """What ranks the instances, ``(T,)``; ``None`` if the predictions lack it.

    Args:
        predictions: the answers.
        by: ``attention``; ``score``, what the pooling chooses by, which is its attention unless that is one-hot;
            ``contribution``; or ``one_hot``, 1 for the first choice (for each of several on ties) and 0 for the rest.
    """
    if by in ("attention", "contribution"):
        found: Floats | None = getattr(predictions, by)
        return found
    own = predictions.score
    if own is None and (by == "one_hot" or not _is_one_hot(predictions)):
        own = predictions.attention
    if by == "score" or own is None:
        return own
    greatest = csr.bag_maxima(own, predictions.ptr)
    return (own == csr.to_rows(greatest, predictions.ptr)).astype(np.float64)


def witness_rankings(
    predictions: Predictions, undefined: UndefinedWitness = "skip"
) -> dict[str, dict[str, float]] | None:
    """The witness metrics by how instances are ranked, of each way there is; ``None`` without witnesses or attention.

    Args:
        predictions: the answers and the truth.
        undefined: as in ``witness_metrics``.

    >>> found = Predictions([1.0], [1], [0, 3], [1.0, 0.0, 0.0], [False, True, False], score=[0.9, 0.8, -0.3])
    >>> {by: one["i_auroc"] for by, one in witness_rankings(found).items()}
    {'attention': 0.25, 'score': 0.5, 'one_hot': 0.25}
    """
    p = predictions
    if p.witness is None or p.attention is None:
        return None
    known = {by: ranked for by in RANKED_BY if (ranked := rank_instances(p, by)) is not None}
    return {by: witness_metrics(p.ptr, p.witness, ranked, p.label, undefined) for by, ranked in known.items()}


def _is_one_hot(predictions: Predictions) -> bool:
    """Whether the attention of every bag is on its first choice alone, or shared equally by several."""
    if predictions.attention is None:
        return False
    greatest = csr.to_rows(csr.bag_maxima(predictions.attention, predictions.ptr), predictions.ptr)
    several = csr.to_rows(predictions.bag_sizes, predictions.ptr) > 1
    chosen = (predictions.attention == 0) | (predictions.attention == greatest)
    return bool(several.any() and chosen.all() and (predictions.attention[several] == 0).any())
