"""Fits the rule that combines several references of a query, on bags with known labels."""

import numpy as np
from numpy.typing import NDArray

from miv.backbones.feature_cache import embed_instances
from miv.data import ExemplarSet
from miv.decisions.reference_rule import ReferenceRule
from miv.evaluation.influence import auroc_error
from miv.evaluation.weighted_auroc import weighted_auroc
from miv.inference.engine import reference_logits
from miv.inference.prediction import embedded_exemplars
from miv.models.verifier import Verifier
from miv.runtime.progress import Progress
from miv.training.pilot import ENOUGH

SHARPNESS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 256.0)  # the mean of the logits to, nearly, their maximum
MEAN_SHARE = (0.0, 0.25, 0.5, 0.75, 1.0)


def fit_reference_rule(
    verifier: Verifier,
    exemplars: ExemplarSet,
    features: NDArray[np.float32] | None = None,
    progress: Progress | None = None,
) -> ReferenceRule | None:
    """Set the rule with the highest AUROC; return it, or ``None`` if no query has several references.

    The grid contains the mean logit, the mean feature and nearly the max logit. With few exemplars, the rule that the
    verifier has stays unless another is better by more than a standard error of the difference: on a few bags, the best
    of many is chance.

    Args:
        verifier: changed in place.
        exemplars: exemplars that were not used for training, if there are any.
        features: ``(P, C)`` of their pool, if known; otherwise the instances in use are embedded.
        progress: reports the progress.
    """
    if not exemplars.has_references or exemplars.label.min() == exemplars.label.max():
        return None
    if features is None:
        features = embed_instances(verifier.backbone, exemplars.pool, exemplars.used, progress)
    logit, of_mean = reference_logits(verifier, embedded_exemplars(exemplars, features), progress)
    own = verifier.reference_rule
    rules = [own, *(ReferenceRule(sharp, share) for sharp in SHARPNESS for share in MEAN_SHARE)]
    scores = [rule.of_ragged(logit, of_mean, exemplars.all_references[0]) for rule in rules]
    aurocs = [weighted_auroc(exemplars.label, score, exemplars.weight) for score in scores]
    best = int(np.argmax(aurocs))
    needed = 0.0 if len(exemplars) >= ENOUGH else auroc_error(exemplars.label, scores[best], scores[0])
    verifier.set_reference_rule(rules[best] if aurocs[best] - aurocs[0] > needed else own)
    return verifier.reference_rule
