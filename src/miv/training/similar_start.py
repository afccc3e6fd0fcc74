"""Fits what starts as a cosine to the train bags: centre, sharpness of the attention, scale and intercept."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from torch import Tensor, nn

from miv.batches import embedded, make_batch
from miv.exemplars import ExemplarSet
from miv.modes import evaluating
from miv.poolings import Pooling
from miv.poolings.cap import CrossAttentionPooling
from miv.poolings.similar import AlignedNorm, ScaledProduct
from miv.values import sigmoid
from miv.verifier import Verifier

SHARPNESS = (0.37, 1.0, 2.0, 4.0, 8.0, 16.0)
MOST_EXEMPLARS = 1_500  # three numbers need no more, and some poolings are slow
_TOGETHER = 512  # exemplars
_ROUNDING = 1e-6  # products that differ by less are equal but for rounding


@dataclass(frozen=True)
class StartFit:
    """What was fitted.

    Args:
        is_centred: whether the mean direction of the train features is taken off.
        sharpness: of the attention of each head; none where the pooling is not CAP.
        scale: of the similarity.
        intercept: of the similarity.
        loss: mean cross-entropy of the train bags that it was fitted to.
    """

    is_centred: bool
    sharpness: tuple[float, ...]
    scale: float
    intercept: float
    loss: float


def fit_start(verifier: Verifier, train: ExemplarSet, features: NDArray[np.float32], seed: int = 0) -> StartFit | None:
    r"""Fit the start of a verifier whose similarity is a scaled cosine; ``None`` where it is the paper's.

    For each centre (none, or the mean of the train features) and each sharpness of the attention, a logistic regression
    of one variable gives scale and intercept,

    .. math:: P(y = 1) = \sigma\Big(\frac{s}{C} \sum_i w_i \, v^Q_i v^P_i + b\Big),

    and the combination of the least cross-entropy is kept. The centre and the sharpness that the verifier has already
    are one of these, so that one that was trained before keeps what it has learned. Neither the weights of the pooling
    nor the map of its norm are touched.

    Args:
        verifier: it is changed.
        train: the exemplars; where all have one label there is nothing to fit, and ``None`` is returned.
        features: ``(P, C)`` of the pool of ``train``, as the backbone gives them.
        seed: of the choice among many exemplars.
    """
    pooling = verifier.pooling
    if not isinstance(pooling.norm, AlignedNorm) or not isinstance(pooling.similarity, ScaledProduct):
        return None
    chosen = np.random.default_rng([seed, 11]).permutation(len(train))[:MOST_EXEMPLARS]
    some = train.subset(np.sort(chosen))
    if some.label.min() == some.label.max():
        return None
    centre = pooling.norm.centre
    sharpness = pooling.sharpness if isinstance(pooling, CrossAttentionPooling) else None
    fits = []
    with evaluating(verifier), torch.no_grad():
        for candidate in _candidates(centre, sharpness, _mean_direction(train, features).to(centre)):
            centre.copy_(candidate.centre)
            if sharpness is not None:
                sharpness.copy_(candidate.sharpness)
            scale, intercept, loss = _fit_scale(pooling, some, features)
            heads = () if sharpness is None else tuple(sharpness.tolist())
            fits.append((StartFit(bool(centre.any()), heads, scale, intercept, loss), candidate))
        best, candidate = min(fits, key=lambda fit: fit[0].loss)
        centre.copy_(candidate.centre)
        if sharpness is not None:
            sharpness.copy_(candidate.sharpness)
        pooling.similarity.scale.fill_(best.scale)
        pooling.similarity.intercept.fill_(best.intercept)
    return best


class _Candidate(NamedTuple):
    centre: Tensor  # (C,)
    sharpness: Tensor  # (h,), or of no meaning


def _candidates(centre: Tensor, sharpness: Tensor | None, mean: Tensor) -> list[_Candidate]:
    heads = torch.ones(1) if sharpness is None else torch.ones_like(sharpness)
    sharps = [heads] if sharpness is None else [heads * sharp for sharp in SHARPNESS]
    grid = [_Candidate(one, sharp) for one in (torch.zeros_like(mean), mean) for sharp in sharps]
    own = _Candidate(centre.clone(), heads if sharpness is None else sharpness.clone())
    is_known = any(torch.equal(own.centre, one) and torch.equal(own.sharpness, sharp) for one, sharp in grid)
    return grid if is_known else [own, *grid]


def _mean_direction(train: ExemplarSet, features: NDArray[np.float32]) -> Tensor:
    """``(C,)`` the mean of the features that train uses, each of length 1."""
    used = torch.from_numpy(np.asarray(features[train.used]))
    return nn.functional.normalize(used, dim=1, eps=1e-6).mean(dim=0)


def _fit_scale(pooling: Pooling, exemplars: ExemplarSet, features: NDArray[np.float32]) -> tuple[float, float, float]:
    """Scale, intercept and loss of a logistic regression on what these are applied to."""
    product = _products(pooling, exemplars, features)
    mean, spread = float(product.mean()), float(product.std())
    slope = intercept = 0.0
    if spread > _ROUNDING * max(1.0, abs(mean)):
        model = LogisticRegression(C=1.0).fit((product[:, None] - mean) / spread, exemplars.label)
        slope = float(model.coef_[0, 0]) / spread
        intercept = float(model.intercept_[0]) - slope * mean
    if slope <= 0:  # the sign is what is known beforehand
        share = float(np.clip(exemplars.label.mean(), 1e-3, 1 - 1e-3))
        slope, intercept = 1.0, float(np.log(share / (1 - share)) - mean)
    loss = log_loss(exemplars.label, sigmoid(slope * product + intercept), labels=[0, 1])
    return slope, intercept, float(loss)


def _products(pooling: Pooling, exemplars: ExemplarSet, features: NDArray[np.float32]) -> NDArray[np.float64]:
    """``(E,)`` what scale and intercept are applied to."""
    weight = pooling.similarity.weight
    lookup = embedded(features, weight.dtype)
    parts = []
    for first in range(0, len(exemplars), _TOGETHER):
        rows = np.arange(first, min(first + _TOGETHER, len(exemplars)))
        query, bags = make_batch(exemplars, rows, lookup).to(weight.device).queries_and_bags()
        twins = pooling(pooling.norm(query), bags.with_values(pooling.norm(bags.values)))
        product = (twins.query_vector * twins.bag_vector) @ weight / pooling.channels  # (B,)
        parts.append(product.double().cpu().numpy())
    return np.concatenate(parts)
