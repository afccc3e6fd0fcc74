"""What is fitted before a stage trains: a centre and a map of the features, the share of tokens, start and head."""

from collections.abc import Mapping
from copy import deepcopy

from torch import Tensor

from miv.data import ExemplarSet
from miv.evaluation.weighted_auroc import weighted_auroc
from miv.models.verifier import Verifier
from miv.poolings.similar import AlignedNorm, ScaledProduct
from miv.training.centring import assume_centre, take_asked_centre
from miv.training.head_fit import fit_head, logits_of
from miv.training.map_fit import fit_map
from miv.training.similar_start import fit_start
from miv.training.stage_module import SplitFeatures
from miv.training.token_share import fit_share, told_share
from miv.training.whitening import fit_whitening


def fit_all(
    verifier: Verifier,
    sets: dict[str, ExemplarSet],
    features: SplitFeatures,
    seed: int,
    *,
    only_scale: bool,
    with_head: bool,
    has_learned_features: bool = False,
) -> list[str]:
    """Fit the parts in their order, each of which needs those before it; return lines for standard error.

    Args:
        verifier: changed in place.
        sets: with ``train`` and ``validation``, which may be the same set: then nothing is held out.
        features: ``(P, C)`` of both pools.
        seed: random seed for folds and samples.
        only_scale: keep map, centre and sharpness, which an earlier stage fitted.
        with_head: whether the stage trains a head, and not only a map.
        has_learned_features: whether a stage before trained the backbone, for cosines without a centre.
    """
    train, known = sets["train"], features["train"]
    validation = None if sets["validation"] is train else sets["validation"]
    unseen = features["validation"]
    power = share = None
    is_new = not only_scale and _is_new(verifier)
    take_asked_centre(verifier, train, known, has_learned_features)
    if is_new and not has_learned_features:
        assume_centre(verifier, train, known)
    if not only_scale:
        power = fit_whitening(verifier, train, known, seed, validation=validation, validation_features=unseen)
    if is_new:
        share = fit_share(verifier, train, known, seed, validation=validation, validation_features=unseen)
    fit_start(
        verifier,
        train,
        known,
        seed,
        validation=validation,
        validation_features=unseen,
        only_scale=only_scale,
        keep_centre=power is not None,
    )
    has_map = is_new and _fit_map(verifier, sets, features, seed)
    if with_head:
        fit_head(verifier, train, known, seed)
    told = [] if share is None else [told_share(share)]
    if power is not None:
        told.append(f"The features are whitened in part (power {power:g}).")
    if has_map:
        told.append("A map of the features is fitted to the labels: it tells held-out bags apart better.")
    return told


def _fit_map(verifier: Verifier, sets: dict[str, ExemplarSet], features: SplitFeatures, seed: int) -> bool:
    """Fit the map, and return whether it is kept: not if the verdicts on validation are worse for it."""
    train, known = sets["train"], features["train"]
    validation = None if sets["validation"] is train else sets["validation"]
    before = deepcopy(verifier.pooling.state_dict())
    fitted = fit_map(verifier, train, known, seed, validation=validation, validation_features=features["validation"])
    if fitted is None:
        return False
    # Only the scale: a map fitted to these bags makes their witnesses look too near.
    fit_start(verifier, train, known, seed, only_scale=True)
    if not verifier.pooling.starts_as_nearest:  # its verdicts mean nothing before it has learned
        return True
    with_map = deepcopy(verifier.pooling.state_dict())
    without = _auroc_with_head(verifier, before, sets, features, seed)
    is_kept = _auroc_with_head(verifier, with_map, sets, features, seed) >= without
    verifier.pooling.load_state_dict(with_map if is_kept else before)
    return is_kept


def _auroc_with_head(
    verifier: Verifier, state: Mapping[str, Tensor], sets: dict[str, ExemplarSet], features: SplitFeatures, seed: int
) -> float:
    """The AUROC on validation after the head is fitted to the train bags, from these weights of the pooling on."""
    verifier.pooling.load_state_dict(state)
    fit_head(verifier, sets["train"], features["train"], seed)
    checked = sets["validation"].by_reference()
    return weighted_auroc(checked.label, logits_of(verifier, checked, features["validation"]), checked.weight)


def _is_new(verifier: Verifier) -> bool:
    """Whether nothing was learned yet: what an earlier verifier learned suits the features as they are."""
    norm, similarity = verifier.pooling.norm, verifier.pooling.similarity
    if not isinstance(norm, AlignedNorm) or not isinstance(similarity, ScaledProduct):
        return False
    return not norm.has_map and bool((similarity.weight == 1).all()) and not similarity.distance.any()
