"""What is fitted before a stage trains: a centre and a map of the features, the share of tokens, start and head."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from torch import Tensor

from miv.data import ExemplarSet, csr
from miv.data.batches import embedded, make_batch, rows_together
from miv.data.splits import query_groups
from miv.evaluation.metrics import weighted_auroc
from miv.files.arrays import Floats, Integers, Labels, Vectors
from miv.poolings.similar import AlignedNorm, ScaledProduct
from miv.runtime import evaluating
from miv.training.centring import assume_centre, assumed_power, fit_whitening, is_clear_gain, use_requested_centre
from miv.training.label_map import fit_map
from miv.training.similar_start import fit_scale_and_sharpness, fit_share
from miv.training.stage_module import Sets, SplitFeatures
from miv.verifier.network import Verifier

STRENGTHS = (4.0, 1.3)  # of the pull to the start, per input; more would leave nothing to fit, less memorises
FOLDS = 5
_MOST_EXEMPLARS = 20_000  # for the fit
_MOST_NUMBERS = 1 << 25  # of inputs in memory: 128 MB, and 256 MB more while they are fitted
_FEWEST_EXEMPLARS = 2_000  # however many channels there are
_MOST_FOR_CHOOSING = 4_000  # exemplars: more would not help to choose between two strengths
_STEPS = 100
_SMALLEST_SPREAD = 0.1  # of the median: a channel that hardly varies in train would get an enormous weight


@dataclass(frozen=True, eq=False)
class _Inputs:
    """What the regression of ``E`` exemplars sees."""

    offset: Floats  # (E,) logits of the start
    scaled: Vectors  # (E, 2 C) products and distances, each with mean 0 and deviation 1 on train
    label: Labels  # (E,)
    weight: Floats  # (E,) of the exemplars, 1 on average

    def take(self, rows: Integers) -> "_Inputs":
        return _Inputs(self.offset[rows], self.scaled[rows], self.label[rows], self.weight[rows])

    def losses(self, solution: Floats) -> Floats:
        """``(E,)`` cross-entropy after adding weights ``(2 C,)`` to the start."""
        logit = self.offset + self.scaled @ solution
        return np.logaddexp(0, (1 - 2 * self.label.astype(np.float64)) * logit) * self.weight


def fit_head(verifier: Verifier, train: ExemplarSet, features: Vectors, seed: int = 0) -> float | None:
    r"""Fit the weights of a similarity that starts as a scaled cosine, and return the strength of the pull.

    The bag vectors stay those of the start. A logistic regression on the products :math:`v^Q \odot v^P` and the
    distances :math:`|v^Q - v^P|`, each scaled to deviation 1, changes the logit :math:`\ell` of the start:

    .. math:: \min_\delta \sum_e L\big(y_e,\; \ell_e + \delta^\top x_e\big) + \frac{\lambda}{2} \|\delta\|^2,
        \qquad \lambda = 2 C k

    Cross-validation over the queries of train chooses :math:`k`. The start is kept (``None``) unless the regression
    lowers the cross-entropy of held-out bags; the weaker pull must do so by a standard error.
    """
    similarity = verifier.pooling.similarity
    if not isinstance(similarity, ScaledProduct) or not similarity.weight.requires_grad:
        return None
    random = np.random.default_rng([seed, 17])
    # The references of one query share its bag and label, so they are never on two sides of a fold.
    together = csr.to_rows(query_groups(train), train.all_references[0])
    train = train.by_reference()
    most = min(_MOST_EXEMPLARS, max(_FEWEST_EXEMPLARS, _MOST_NUMBERS // (2 * similarity.channels)))
    chosen = np.sort(random.permutation(len(train))[:most])
    if len(chosen) < len(train):
        train, together = train.subset(chosen), together[chosen]
    values, offset = _inputs_and_logits(verifier, train, features)
    mean, spread = values.mean(axis=0, dtype=np.float64), values.std(axis=0, dtype=np.float64)
    varying = spread[spread > 0]
    spread = np.maximum(spread, _SMALLEST_SPREAD * float(np.median(varying)) if len(varying) else 1.0)
    values -= mean.astype(np.float32)
    values /= spread.astype(np.float32)
    weight = np.ones(len(train)) if train.weight is None else train.weight / train.weight.mean()
    inputs = _Inputs(offset, values, train.label, weight)
    strength = _choose(inputs, together, random)
    if strength is None:
        return None
    solution = _solve(inputs, strength)
    change = solution / spread
    before = {name: tensor.clone() for name, tensor in similarity.state_dict().items()}
    _apply(similarity, change, -float(change @ mean))
    # The baseline attends by its similarity, so its bag vectors may be others now: measure again.
    logit = logits_of(verifier, train, features)
    nothing = np.zeros_like(solution)
    now = _Inputs(logit, values, train.label, weight).losses(nothing).mean()
    if not now < inputs.losses(nothing).mean():
        similarity.load_state_dict(before)
        return None
    return strength


def logits_of(verifier: Verifier, exemplars: ExemplarSet, features: Vectors) -> Floats:
    """``(E,)`` logits of exemplars with one reference each."""
    return _inputs_and_logits(verifier, exemplars, features, only_logits=True)[1]


def _inputs_and_logits(
    verifier: Verifier, exemplars: ExemplarSet, features: Vectors, *, only_logits: bool = False
) -> tuple[Vectors, Floats]:
    """``(E, 2 C)`` products and distances of query and bag vector, and ``(E,)`` logits."""
    pooling, count = verifier.pooling, len(exemplars)
    lookup = embedded(features, verifier.dtype)
    channels = cast(ScaledProduct, pooling.similarity).channels  # of the vectors; what tokens say does not change
    rows = np.zeros((0 if only_logits else count, 2 * channels), np.float32)
    logits = np.zeros(count)
    with evaluating(verifier), torch.no_grad():
        together = rows_together(pooling.channels)
        for first in range(0, count, together):
            part = slice(first, min(first + together, count))
            batch = make_batch(exemplars, np.arange(part.start, part.stop), lookup).to(verifier.device)
            pooled = pooling(*batch.single_queries_and_bags())
            query, bag = pooled.query_vector, pooled.bag_vector
            logits[part] = pooling.similarity(query, bag).double().cpu().numpy()
            if not only_logits:
                query, bag = query[:, :channels], bag[:, :channels]
                rows[part] = torch.cat([query * bag, (query - bag).abs()], dim=1).float().cpu().numpy()
    return rows, logits


def _choose(inputs: _Inputs, together: NDArray[np.generic], random: Generator) -> float | None:
    """The strength with the lowest cross-entropy of held-out bags; ``None`` if no strength beats the start."""
    names, places = np.unique(together, return_inverse=True)
    folds = min(FOLDS, len(names))
    if folds < 2:
        return None
    part = random.permutation(len(names))[places] % folds  # (E,)
    part[random.permutation(len(part))[_MOST_FOR_CHOOSING:]] = -1
    held_out = [np.flatnonzero(part == number) for number in range(folds)]
    fitting = [np.flatnonzero((part != number) & (part >= 0)) for number in range(folds)]
    if any(len(np.unique(inputs.label[rows])) < 2 for rows in fitting):
        return None
    nothing = np.zeros(inputs.scaled.shape[1])
    best, losses = None, np.concatenate([inputs.take(rows).losses(nothing) for rows in held_out])
    for strength in STRENGTHS:
        solutions = [_solve(inputs.take(rows), strength) for rows in fitting]
        parts = [inputs.take(rows).losses(found) for rows, found in zip(held_out, solutions, strict=True)]
        gain = losses - np.concatenate(parts)  # (E,)
        # The strongest pull changes so little that any gain will do; a weaker one may memorise.
        if gain.mean() > 0 and (strength == STRENGTHS[0] or is_clear_gain(gain)):
            best, losses = strength, np.concatenate(parts)
    return best


def _solve(inputs: _Inputs, strength: float) -> Floats:
    """``(2 C,)`` the change of the weights."""
    count = inputs.scaled.shape[1]
    pull = strength * count
    sign = 1 - 2 * inputs.label.astype(np.float64)
    scaled = inputs.scaled.astype(np.float64)  # once; a product with float64 converts it in every step

    def objective(solution: Floats) -> tuple[float, Floats]:
        logit = inputs.offset + scaled @ solution
        slope = sign * expit(sign * logit) * inputs.weight
        value = float((np.logaddexp(0, sign * logit) * inputs.weight).sum() + pull / 2 * solution @ solution)
        return value, scaled.T @ slope + pull * solution

    found = minimize(objective, np.zeros(count), jac=True, method="L-BFGS-B", options={"maxiter": _STEPS})
    return np.asarray(found.x, np.float64)


def _apply(similarity: ScaledProduct, change: Floats, intercept: float) -> None:
    """Add the change to the weights, and keep their mean size 1, so that one rate suits them and the scale."""
    channels = similarity.channels
    with torch.no_grad():
        per_weight = torch.from_numpy(change).to(similarity.weight) * (channels / similarity.scale)
        similarity.weight.add_(per_weight[:channels])
        similarity.distance.sub_(per_weight[channels:])
        similarity.intercept.add_(intercept)
        size = similarity.weight.abs().mean()
        if size > 1:
            similarity.divide(size)


def fit_start(
    verifier: Verifier,
    sets: Sets,
    features: SplitFeatures,
    seed: int,
    *,
    only_scale: bool,
    with_head: bool,
    has_learned_features: bool = False,
) -> list[str]:
    """Fit the parts in their order, each of which needs those before it; return lines for standard error."""
    train, known = sets["train"], features["train"]
    validation = None if sets["validation"] is train else sets["validation"]
    held_out: dict[str, Any] = {"validation": validation, "validation_features": features["validation"]}
    power = share = None
    is_new = not only_scale and _is_new(verifier)
    use_requested_centre(verifier, train, known, has_learned_features)
    if is_new and not has_learned_features:
        assume_centre(verifier, train, known)
    if not only_scale:
        power = fit_whitening(verifier, train, known, seed, assumed=assumed_power(verifier.backbone), **held_out)
    if is_new:
        share = fit_share(verifier, train, known, seed, **held_out)
    keep_centre = power is not None
    fit_scale_and_sharpness(verifier, train, known, seed, only_scale=only_scale, keep_centre=keep_centre, **held_out)
    has_map = is_new and _fit_map(verifier, sets, features, seed)
    if with_head:
        fit_head(verifier, train, known, seed)
    told = []
    if share is not None:
        matching = f"Token similarity has weight {share:g} relative to vector similarity."
        told.append(matching if share else "Token matching is off: it did not improve the fit.")
    if power is not None:
        told.append(f"Features are partially whitened (power {power:g}).")
    if has_map:
        told.append("Fitted a linear map to the labels; it improves AUROC on held-out bags.")
    return told


def _fit_map(verifier: Verifier, sets: Sets, features: SplitFeatures, seed: int) -> bool:
    """Fit the map, and return whether it is kept: not if the verdicts on validation are worse for it."""
    train, known = sets["train"], features["train"]
    validation = None if sets["validation"] is train else sets["validation"]
    before = deepcopy(verifier.pooling.state_dict())
    fitted = fit_map(verifier, train, known, seed, validation=validation, validation_features=features["validation"])
    if fitted is None:
        return False
    # Only the scale: a map fitted to these bags makes their witnesses look too near.
    fit_scale_and_sharpness(verifier, train, known, seed, only_scale=True)
    if not verifier.pooling.starts_as_nearest:  # its verdicts mean nothing before it has learned
        return True
    with_map = deepcopy(verifier.pooling.state_dict())
    without = _auroc_with_head(verifier, before, sets, features, seed)
    is_kept = _auroc_with_head(verifier, with_map, sets, features, seed) >= without
    verifier.pooling.load_state_dict(with_map if is_kept else before)
    return is_kept


def _auroc_with_head(
    verifier: Verifier, state: Mapping[str, Tensor], sets: Sets, features: SplitFeatures, seed: int
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
