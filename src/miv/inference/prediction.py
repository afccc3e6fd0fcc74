"""The answers of a verifier for a whole set, embedding each instance once."""

import numpy as np
import torch
from numpy.typing import NDArray

from miv.backbones.feature_cache import embed_instances
from miv.data import ExemplarSet
from miv.data.batches import embedded, make_batch
from miv.evaluation import Predictions
from miv.models.verifier import Verifier
from miv.runtime.evaluation_mode import evaluating
from miv.runtime.processes import ProcessShare
from miv.runtime.progress import Progress

_EXEMPLARS = 1024  # that are pooled together


def predict(
    verifier: Verifier,
    exemplars: ExemplarSet,
    features: NDArray[np.float32] | None = None,
    progress: Progress | None = None,
) -> Predictions:
    """Verify every exemplar of a set; with several processes each takes a share, and all get the whole.

    Args:
        verifier: is left in the mode, training or not, in which it is, each of its parts.
        exemplars: the set.
        features: ``(P, C)`` of the pool, where they are known; otherwise the instances that occur are embedded.
        progress: is told how far the embedding is.
    """
    share = ProcessShare.of_this_process()
    mine = share.part(np.arange(len(exemplars)))
    if features is None:
        used = exemplars.subset(mine).used if len(mine) else mine
        features = embed_instances(verifier.backbone, exemplars.pool, used, progress)
    logit = np.zeros(len(exemplars), np.float32)
    attention = np.zeros(len(exemplars.bag_index), np.float32)
    weight = next(verifier.pooling.parameters())
    with evaluating(verifier), torch.inference_mode():
        for start in range(0, len(mine), _EXEMPLARS):
            chosen = mine[start : start + _EXEMPLARS]
            batch = make_batch(exemplars, chosen, embedded(features, weight.dtype)).to(weight.device)
            answer = verifier.verify_features(*batch.queries_and_bags())
            logit[chosen] = answer.logit.float().cpu().numpy()
            if answer.attention is not None:  # the chosen exemplars follow each other, and so do their bags
                first, last = exemplars.bag_ptr[chosen[0]], exemplars.bag_ptr[chosen[-1] + 1]
                attention[first:last] = answer.attention.float().cpu().numpy()
    return Predictions.of(exemplars, share.sum(logit), share.sum(attention) if verifier.pooling.has_attention else None)
