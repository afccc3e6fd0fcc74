"""Predict on a whole set, embedding each instance once: answers, and scores of the instances."""

import logging
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from miv.backbones.cache import embed_instances
from miv.data import ExemplarSet
from miv.evaluation.predictions import Predictions
from miv.files.arrays import Floats, Mask
from miv.runtime import Progress
from miv.verifier.decisions import WitnessesBy
from miv.verifier.engine import (
    EmbeddedExemplars,
    explain_embedded,
    foreign_of,
    out_of_distribution,
    verify_embedded,
)
from miv.verifier.explain import as_shares, check_method

if TYPE_CHECKING:
    from miv.verifier.network import Verifier


logger = logging.getLogger(__name__)


def predict(
    verifier: "Verifier",
    exemplars: ExemplarSet,
    features: NDArray[np.float32] | None = None,
    progress: Progress | None = None,
) -> Predictions:
    """Verify every exemplar of a set.

    Args:
        verifier: the verifier; each of its parts keeps its training or evaluation mode.
        exemplars: the set.
        features: ``(P, C)`` features of the pool, if known; otherwise the instances in use are embedded.
        progress: reports the progress of embedding and verifying.
    """
    _warn_of_other_images(verifier, exemplars)
    if features is None:
        exemplars = verifier.backbone.paired(exemplars)
        features = embed_instances(verifier.backbone, exemplars.pool, exemplars.used, progress)
    answers = verify_embedded(verifier, embedded_exemplars(exemplars, features), progress)
    attention = answers.attention if verifier.pooling.has_attention else None
    return Predictions.of(exemplars, answers.logit, attention, answers.score)


def withheld(
    verifier: "Verifier",
    exemplars: ExemplarSet,
    features: NDArray[np.float32] | None = None,
    progress: Progress | None = None,
) -> Mask | None:
    """``(E,)`` bool: the exemplars without a yes or no, because they are out of distribution or have no content.

    ``None`` if the verifier has no limit, and all instances have content. The arguments are those of ``predict``.
    """
    if features is None:
        features = embed_instances(verifier.backbone, exemplars.pool, exemplars.used, progress)
    embedded = embedded_exemplars(exemplars, features, foreign_of(verifier, exemplars.pool, exemplars.used))
    flags = out_of_distribution(verifier, embedded)
    return None if flags is None else flags.withheld


def _warn_of_other_images(verifier: "Verifier", exemplars: ExemplarSet) -> None:
    """Print a warning if the images of a set were made in another way than those of the verifier."""
    steps, own = exemplars.pool.image_steps, None if verifier.instances is None else verifier.instances.steps
    if steps is not None and own is not None and steps != own:
        logger.warning(
            "The images of this set were made by: %s, those that the verifier was trained on by: %s. Its answers are "
            "for images made the same way.",
            ", ".join(steps) or "no steps",
            ", ".join(own) or "no steps",
        )


def explain(
    verifier: "Verifier",
    exemplars: ExemplarSet,
    method: str = "leave_one_out",
    *,
    features: NDArray[np.float32] | None = None,
    progress: Progress | None = None,
) -> NDArray[np.float64]:
    """How much each bag member contributes to a yes, ``(T,)`` in the order of ``exemplars.bag_index``.

    The methods are those of ``miv.verifier.explain.explain_features``; ``features`` ``(P, C)`` those of the pool, if
    known.
    """
    check_method(verifier.pooling, method)
    return explain_embedded(verifier, _embed(verifier, exemplars, features, progress), method, progress)


def witness_shares(
    verifier: "Verifier",
    exemplars: ExemplarSet,
    logit: Floats,
    method: WitnessesBy,
    progress: Progress | None = None,
    features: NDArray[np.float32] | None = None,
) -> Floats:
    """Shares ``(T,)`` of all bag members of a set, given the logits ``(E,)`` of the bags; they sum to 1 in each bag.

    ``features`` ``(P, C)`` are those of the pool, if known.
    """
    scores = explain(verifier, exemplars, method, features=features, progress=progress)
    return as_shares(scores, method, logit, exemplars.bag_ptr, verifier.dtype)


def embedded_exemplars(
    exemplars: ExemplarSet, features: NDArray[np.float32], is_foreign: Mask | None = None
) -> EmbeddedExemplars:
    """The exemplars over the features ``(P, C)`` of their pool."""
    references = exemplars.all_references[1]
    return EmbeddedExemplars.among(
        features, references, exemplars.bag_index, exemplars.bag_ptr, exemplars.reference_ptr, is_foreign
    )


def _embed(
    verifier: "Verifier", exemplars: ExemplarSet, features: NDArray[np.float32] | None, progress: Progress | None
) -> EmbeddedExemplars:
    """The exemplars over the features of their pool; if these are not known, the instances in use are embedded."""
    if features is None:
        exemplars = verifier.backbone.paired(exemplars)
        features = embed_instances(verifier.backbone, exemplars.pool, exemplars.used, progress)
    return embedded_exemplars(exemplars, features)
