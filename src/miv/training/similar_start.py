"""Fits what starts as a cosine to the train bags: centre, sharpness of the attention, scale and intercept."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from torch import nn

from miv.batches import embedded, make_batch
from miv.exemplars import ExemplarSet
from miv.modes import evaluating
from miv.poolings import Pooling
from miv.poolings.cap import CrossAttentionPooling
from miv.poolings.similar import AlignedNorm, ScaledProduct
from miv.verifier import Verifier

SHARPNESS = (0.37, 1.0, 2.0, 4.0, 8.0, 16.0)
MOST_EXEMPLARS = 1_500  # three numbers need no more, and some poolings are slow
_TOGETHER = 512  # exemplars


@dataclass(frozen=True, eq=False)
class StartFit:
    """What was fitted.

    Args:
        is_centred: whether the mean of the train features is subtracted.
        sharpness: of the attention, where the pooling has it.
        scale: of the cosine.
        intercept: of the logit.
        losses: ``(E,)`` cross-entropy of the train bags that it was fitted to.
    """

    is_centred: bool
    sharpness: float | None
    scale: float
    intercept: float
    losses: NDArray[np.float64]

    @property
    def loss(self) -> float:
        """The mean of the losses."""
        return float(self.losses.mean())


def fit_start(
    verifier: Verifier,
    train: ExemplarSet,
    features: NDArray[np.float32],
    seed: int = 0,
    *,
    only_scale: bool = False,
) -> StartFit | None:
    r"""Fit the start of a verifier whose similarity is a scaled cosine; ``None`` where it is the paper's.

    For each centre (none, or the mean of the train features) and each sharpness of the attention, a logistic regression
    of one variable gives scale and intercept,

    .. math:: P(y = 1) = \sigma\Big(\frac{s}{C} \sum_i v^Q_i v^P_i + b\Big),

    and the sharpness of the least cross-entropy is kept. A centre is kept where it lowers the cross-entropy by more
    than a standard error of the difference: on a few hundred bags, less is chance. Neither the weights of the pooling
    nor the map of its norm are touched.

    Args:
        verifier: it is changed.
        train: the exemplars.
        features: ``(P, C)`` of the pool of ``train``, as the backbone gives them.
        seed: of the choice among many exemplars.
        only_scale: leave centre and sharpness as they are. A map that was learned on these very bags makes witnesses
            look nearer than those of new bags will, so that too little sharpness would seem enough.
    """
    pooling = verifier.pooling
    if not isinstance(pooling.norm, AlignedNorm) or not isinstance(pooling.similarity, ScaledProduct):
        return None
    chosen = np.random.default_rng([seed, 11]).permutation(len(train))[:MOST_EXEMPLARS]
    some = train.subset(np.sort(chosen))
    if some.label.min() == some.label.max():
        return None  # nothing to tell apart
    sharpness = pooling.sharpness if isinstance(pooling, CrossAttentionPooling) else None
    with evaluating(verifier), torch.no_grad():
        now = pooling.norm.centre.clone()
        centres = (now,) if only_scale else (torch.zeros_like(now), _mean_direction(train, features).to(now))
        fits = []
        for centre in centres:
            pooling.norm.centre.copy_(centre)
            cosines = _cosines(pooling, None if only_scale else sharpness, some, features)
            tried = [_fit_scale(one, some.label, bool(centre.any()), sharp) for sharp, one in cosines.items()]
            fits.append(min(tried, key=lambda fit: fit.loss))
        best = fits[0] if only_scale or not _is_gain(fits[0].losses - fits[1].losses) else fits[1]
        pooling.norm.centre.copy_(centres[fits.index(best)])
        if sharpness is not None and best.sharpness is not None:
            sharpness.fill_(best.sharpness)
        pooling.similarity.scale.fill_(best.scale)
        pooling.similarity.intercept.fill_(best.intercept)
    return best


def _mean_direction(train: ExemplarSet, features: NDArray[np.float32]) -> torch.Tensor:
    """``(C,)`` the mean of the features that train uses, each of length 1."""
    used = torch.from_numpy(np.asarray(features[train.used]))
    return nn.functional.normalize(used, dim=1, eps=1e-6).mean(dim=0)


def _is_gain(gain: NDArray[np.float64]) -> bool:
    """Whether what each exemplar gains ``(E,)`` is in the mean more than its standard error."""
    return bool(gain.mean() > gain.std() / np.sqrt(len(gain)))


def _fit_scale(cosine: NDArray[np.float64], label: NDArray[np.int8], is_centred: bool, sharp: float | None) -> StartFit:
    spread = float(cosine.std()) or 1.0
    model = LogisticRegression(C=1.0).fit(cosine[:, None] / spread, label)
    slope, intercept = float(model.coef_[0, 0]) / spread, float(model.intercept_[0])
    if slope <= 0:  # the sign is what is known beforehand
        share = float(np.clip(label.mean(), 1e-3, 1 - 1e-3))
        slope, intercept = 1.0, float(np.log(share / (1 - share)) - cosine.mean())
    sign = 1 - 2 * label.astype(np.float64)  # -1 where the label is 1
    losses = np.logaddexp(0, sign * (slope * cosine + intercept))
    return StartFit(is_centred, sharp, slope, intercept, losses)


def _cosines(
    pooling: Pooling, sharpness: nn.Parameter | None, exemplars: ExemplarSet, features: NDArray[np.float32]
) -> dict[float | None, NDArray[np.float64]]:
    """``(E,)`` what scale and intercept are applied to, for each sharpness that the pooling can have."""
    weight = next(pooling.parameters())
    lookup = embedded(features, weight.dtype)
    parts: dict[float | None, list[NDArray[np.float64]]] = {}
    for first in range(0, len(exemplars), _TOGETHER):
        rows = np.arange(first, min(first + _TOGETHER, len(exemplars)))
        query, bags = make_batch(exemplars, rows, lookup).to(weight.device).queries_and_bags()
        query, bags = pooling.norm(query), bags.with_values(pooling.norm(bags.values))  # alike for all
        for sharp in (None,) if sharpness is None else SHARPNESS:
            if sharpness is not None and sharp is not None:
                sharpness.fill_(sharp)
            twins = pooling(query, bags)
            cosine = (twins.query_vector * twins.bag_vector).sum(dim=1).double().cpu().numpy() / pooling.channels
            parts.setdefault(sharp, []).append(cosine)
    return {sharp: np.concatenate(found) for sharp, found in parts.items()}
