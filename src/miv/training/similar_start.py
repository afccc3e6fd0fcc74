"""Fits what starts as a cosine to the train bags: weight of tokens, centre, sharpness, scale and intercept."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from miv.bags import Bags
from miv.data import ExemplarSet, csr
from miv.data.batches import embedded, make_batch, rows_together
from miv.evaluation.baselines import mean_direction
from miv.evaluation.metrics import weighted_auroc
from miv.files.arrays import Floats, Integers, Labels, Vectors
from miv.poolings import Pooling
from miv.poolings.cap import CrossAttentionPooling
from miv.poolings.cap_tokens import SHARE, CapTokensPooling, MatchedProduct
from miv.poolings.similar import AlignedNorm, ScaledProduct
from miv.runtime import evaluating
from miv.training.centring import are_of_one_kind, is_clear_gain
from miv.training.stage_module import ENOUGH
from miv.verifier.network import Verifier

SHARPNESS = (0.37, 1.0, 2.0, 4.0, 8.0, 16.0)
SHARPER = (64.0, 256.0, 1024.0)  # for fewer channels than this, whose scores lie close together
_CHANNELS = 128
MOST_EXEMPLARS = 1_500  # enough to fit three numbers; some poolings are slow
_VANISHING = 1e-17  # far above what float32 can hold, because a map that is learned later makes scores differ more
_MOST_VANISHING = 0.01
_ROUNDING = 1e-6  # smaller differences between products are rounding errors


@dataclass(frozen=True, eq=False)
class StartFit:
    """The fitted start."""

    centre: Tensor  # (C,) subtracted from the features; zeros, or the mean of the train features
    sharpness: Tensor | None  # (h,) sharpness of each head's attention, if the pooling is CAP
    scale: float  # of the cosine
    intercept: float  # of the logit
    losses: Floats  # (E,) weighted cross-entropy of the train bags used for the fit
    auroc: float  # of these bags

    @property
    def loss(self) -> float:
        """The mean of the losses."""
        return float(self.losses.mean())


def fit_scale_and_sharpness(
    verifier: Verifier,
    train: ExemplarSet,
    features: Vectors,
    seed: int = 0,
    *,
    validation: ExemplarSet | None = None,
    validation_features: Vectors | None = None,
    only_scale: bool = False,
    keep_centre: bool = False,
) -> StartFit | None:
    r"""Fit the start of a verifier with a scaled cosine similarity; return ``None`` for the paper's similarity.

    For each centre (none, or the mean of the train features) and each sharpness of the attention, a logistic regression
    of one variable gives scale and intercept,

    .. math:: P(y = 1) = \sigma\Big(\frac{s}{C} \sum_i w_i \, v^Q_i v^P_i + b\Big),

    and the sharpness with the lowest cross-entropy is kept. The verifier's own centre, and what it has learned, is kept
    unless another lowers the cross-entropy by a standard error of the difference. With ``validation``, the choice
    stands only if it is not below the plain answer there.
    """
    pooling = verifier.pooling
    if not isinstance(pooling.norm, AlignedNorm) or not isinstance(pooling.similarity, ScaledProduct):
        return None
    some = _some(train, seed)
    if some is None:
        return None
    own, own_sharpness = pooling.norm.centre.clone(), _sharpness(pooling)
    own_sharpness = None if own_sharpness is None else own_sharpness.detach().clone()
    vectors = features[:, : len(own)]  # tokens may follow
    mean = torch.from_numpy(mean_direction(train, vectors)).to(own)
    centres = [own] if keep_centre else [torch.zeros_like(own), mean]
    centres.sort(key=lambda centre: not torch.equal(centre, own))  # the one that was assumed comes first
    grid = SHARPNESS if len(own) >= _CHANNELS else SHARPNESS + SHARPER
    sharps = [None] if own_sharpness is None else [torch.full_like(own_sharpness, sharp) for sharp in grid]
    with evaluating(verifier), torch.no_grad():
        rivals = [] if only_scale else [_fits(pooling, some, features, centre, sharps) for centre in centres]
        if only_scale or not (_is_one_of(own, centres) and _is_one_of(own_sharpness, sharps)):
            rivals.insert(0, _fits(pooling, some, features, own, [own_sharpness]))
        best, *others = (min(tried, key=lambda fit: fit.loss) for tried in rivals)
        for other in others:
            best = other if is_clear_gain(best.losses - other.losses) else best
        checked = None if validation is None else _some(validation, seed)
        if not only_scale and checked is not None and validation_features is not None:
            best = _checked(pooling, best, rivals, checked, validation_features)
        _set(pooling, best.centre, best.sharpness)
        pooling.similarity.scale.fill_(best.scale)
        pooling.similarity.intercept.fill_(best.intercept)
    return best


def _sharpness(pooling: Pooling) -> Tensor | None:
    """``(h,)`` that of the part of the pooling that attends, if it is CAP."""
    part = pooling.cap if isinstance(pooling, CapTokensPooling) else pooling
    return part.sharpness if isinstance(part, CrossAttentionPooling) else None


def _set(pooling: Pooling, centre: Tensor, sharpness: Tensor | None) -> None:
    cast(AlignedNorm, pooling.norm).centre.copy_(centre)
    own = _sharpness(pooling)
    if own is not None and sharpness is not None:
        own.copy_(sharpness)


def _some(exemplars: ExemplarSet, seed: int) -> ExemplarSet | None:
    """A sample large enough to fit a few numbers; ``None`` if it has only one label. A reference counts alone."""
    exemplars = exemplars.by_reference()
    chosen = np.random.default_rng([seed, 11]).permutation(len(exemplars))[:MOST_EXEMPLARS]
    some = exemplars.subset(np.sort(chosen))
    return None if some.label.min() == some.label.max() else some


def _checked(
    pooling: Pooling, best: StartFit, rivals: list[list[StartFit]], validation: ExemplarSet, features: Vectors
) -> StartFit:
    """The best fit of train, unless the plain answer has a higher AUROC on validation.

    The plain answer is what the verifier learned before, or the sharpest attention with its centre. If it wins, the fit
    with the highest AUROC on train and validation together is taken; of equals the later, sharper one.
    """
    fits, on_validation = [], []
    for tried in rivals:
        products, _ = _products(pooling, validation, features, tried[0].centre, [fit.sharpness for fit in tried])
        on_validation += [weighted_auroc(validation.label, product, validation.weight) for product in products]
        fits += tried
    plain = len(rivals[0]) - 1
    if on_validation[fits.index(best)] >= on_validation[plain]:
        return best
    weight = min(1.0, len(validation) / ENOUGH)
    total = [fit.auroc + weight * found for fit, found in zip(fits, on_validation, strict=True)]
    return fits[max(range(len(fits)), key=lambda number: (total[number], number))]


def _is_one_of(given: Tensor | None, known: Sequence[Tensor | None]) -> bool:
    return given is None or any(one is not None and torch.equal(given, one) for one in known)


def _fits(
    pooling: Pooling, exemplars: ExemplarSet, features: Vectors, centre: Tensor, sharps: Sequence[Tensor | None]
) -> list[StartFit]:
    """Scale and intercept for a centre and each sharpness, the first of them at least, that ranks all targets."""
    products, vanishing = _products(pooling, exemplars, features, centre, sharps)
    weight = None if exemplars.weight is None else exemplars.weight / exemplars.weight.mean()
    return [
        _fit(product, exemplars.label, weight, centre, sharp)
        for number, (product, sharp) in enumerate(zip(products, sharps, strict=True))
        if number == 0 or vanishing[number] <= _MOST_VANISHING
    ]


def _fit(product: Floats, label: Labels, weight: Floats | None, centre: Tensor, sharpness: Tensor | None) -> StartFit:
    mean, spread = float(product.mean()), float(product.std())
    slope = intercept = 0.0
    if spread > _ROUNDING * max(1.0, abs(mean)):
        model = LogisticRegression(C=1.0).fit((product[:, None] - mean) / spread, label, weight)
        slope = float(model.coef_[0, 0]) / spread
        intercept = float(model.intercept_[0]) - slope * mean
    if slope <= 0:  # the sign is known in advance
        share = float(np.clip(np.average(label, weights=weight), 1e-3, 1 - 1e-3))
        slope, intercept = 1.0, float(np.log(share / (1 - share)) - mean)
    sign = 1 - 2 * label.astype(np.float64)  # -1 where the label is 1
    losses = np.logaddexp(0, sign * (slope * product + intercept)) * (1.0 if weight is None else weight)
    return StartFit(centre, sharpness, slope, intercept, losses, weighted_auroc(label, product, weight))


def _products(
    pooling: Pooling, exemplars: ExemplarSet, features: Vectors, centre: Tensor, sharps: Sequence[Tensor | None]
) -> tuple[list[Floats], list[float]]:
    """For each sharpness, the values ``(E,)`` that scale and intercept apply to, and the part of vanishing shares."""
    similarity = cast(ScaledProduct, pooling.similarity)
    weight = similarity.weight
    lookup = embedded(features, weight.dtype)
    parts: list[list[Floats]] = [[] for _ in sharps]
    vanishing = np.zeros(len(sharps))
    together = rows_together(pooling.channels)
    for first in range(0, len(exemplars), together):
        rows = np.arange(first, min(first + together, len(exemplars)))
        query, bags = make_batch(exemplars, rows, lookup).to(weight.device).single_queries_and_bags()
        _set(pooling, centre, None)
        query, bags = pooling.norm(query), bags.with_values(pooling.norm(bags.values))  # the same for every sharpness
        for number, (part, sharp) in enumerate(zip(parts, sharps, strict=True)):
            _set(pooling, centre, sharp)
            pooled = pooling.forward(query, bags)  # after the norm
            product = similarity.product(pooled.query_vector, pooled.bag_vector)  # (B,)
            part.append(product.double().cpu().numpy())
            if pooled.attention is not None:
                vanishing[number] += float((pooled.attention < _VANISHING).float().mean()) * len(rows) / len(exemplars)
    return [np.concatenate(part) for part in parts], vanishing.tolist()


# How much the tokens of texts count beside their vectors.

SHARES = (0.0, 0.02, SHARE, 0.08, 0.16, 0.32)  # 0: the vectors alone
OF_ANSWERS = 0.16  # the default if queries and targets are texts of two kinds
_MOST_EXEMPLARS = 1_500  # of each split, to choose one of a few numbers
_TOGETHER = 128  # exemplars


@dataclass(frozen=True, eq=False)
class _Similarities:
    """What decides the share: for ``T`` targets in the bags of ``R`` references."""

    references: ExemplarSet  # one exemplar per reference
    owner: Integers  # (R,) the number of the exemplar that has this reference
    cosine: Floats  # (T,) of the vectors
    match: Floats  # (T,) similarity of the tokens

    def nearest(self, share: float) -> Floats:
        """``(R,)`` the largest similarity of each bag."""
        return csr.bag_maxima(self.cosine + share * self.match, self.references.bag_ptr)

    @property
    def weight(self) -> Floats:
        """``(R,)``, 1 on average for an exemplar, whose references share it."""
        weight = np.ones(len(self.owner)) if self.references.weight is None else self.references.weight
        return weight * (len(np.unique(self.owner)) / weight.sum())


def fit_share(
    verifier: Verifier,
    train: ExemplarSet,
    features: Vectors,
    seed: int = 0,
    *,
    validation: ExemplarSet | None = None,
    validation_features: Vectors | None = None,
) -> float | None:
    r"""Choose how much tokens count beside vectors in a verifier with the pooling ``cap_tokens``; return the share.

    For each share :math:`r`, a logistic regression separates the bags by

    .. math:: \max_n \big(\cos(q, v_n) + r \, t_n\big)

    with the similarity :math:`t_n` of the tokens. The share with the lowest cross-entropy is taken if that is lower
    than with the default by a standard error of the difference. The default is 0.16 if targets answer queries, such as
    a claim and its evidence, and 0.04 if texts of one kind are compared.
    """
    pooling = verifier.pooling
    if not isinstance(pooling, CapTokensPooling):
        return None
    parts = [_similarities(verifier, pooling, train, features, seed)]
    if validation is not None and validation_features is not None:
        parts.append(_similarities(verifier, pooling, validation, validation_features, seed))
    label = np.concatenate([part.references.label for part in parts])  # (R,)
    if label.min() == label.max():
        return None
    weight = np.concatenate([part.weight for part in parts])  # (R,)
    # References of one query are one observation, and exemplars of the two splits have numbers of their own.
    _, owner = np.unique(np.concatenate([p.owner + at * len(train) for at, p in enumerate(parts)]), return_inverse=True)
    nearest = {share: np.concatenate([part.nearest(share) for part in parts]) for share in SHARES}
    losses = {share: 1.0 * np.bincount(owner, _losses(nearest[share], label, weight)) for share in SHARES}
    default = SHARE if are_of_one_kind(train) else OF_ANSWERS
    best = min(SHARES, key=lambda share: losses[share].mean())
    if not is_clear_gain(losses[default] - losses[best]):
        best = default
    with torch.no_grad():
        pooling.share.fill_(best)
        cast(MatchedProduct, pooling.similarity).share.fill_(best)
    return best


def _similarities(
    verifier: Verifier, pooling: CapTokensPooling, exemplars: ExemplarSet, features: Vectors, seed: int
) -> _Similarities:
    """Of a sample that is large enough."""
    references = exemplars.by_reference()
    chosen = np.sort(np.random.default_rng([seed, 23]).permutation(len(references))[:_MOST_EXEMPLARS])
    some, owner = references.subset(chosen), csr.owners(exemplars.all_references[0])[chosen]
    direction, cosine = cast(AlignedNorm, pooling.norm).direction, []
    with evaluating(verifier), torch.no_grad():
        for query, bags in _batches(verifier, some, features):
            product = bags.expand(direction(query)) * direction(bags.values)
            cosine.append(product.sum(dim=1).double().cpu().numpy())
    return _Similarities(some, owner, np.concatenate(cosine), token_matches(verifier, pooling, some, features))


def token_matches(verifier: Verifier, pooling: CapTokensPooling, exemplars: ExemplarSet, features: Vectors) -> Floats:
    """``(T,)`` the similarity of the tokens of each target to those of its query."""
    norm = cast(AlignedNorm, pooling.norm)
    found = []
    with evaluating(verifier), torch.no_grad():
        for query, bags in _batches(verifier, exemplars, features):
            # After the norm, tokens follow the vector.
            tokens, targets = (norm(one)[:, pooling.vector :] for one in (query, bags.values))
            found.append(pooling.match(tokens, bags.with_values(targets))[:, 0].double().cpu().numpy())
    return np.concatenate(found)


def _batches(verifier: Verifier, exemplars: ExemplarSet, features: Vectors) -> Iterator[tuple[Tensor, Bags]]:
    lookup = embedded(features, verifier.dtype)
    for first in range(0, len(exemplars), _TOGETHER):
        rows = np.arange(first, min(first + _TOGETHER, len(exemplars)))
        yield make_batch(exemplars, rows, lookup).to(verifier.device).single_queries_and_bags()


def _losses(nearest: Floats, label: Labels, weight: Floats) -> Floats:
    """``(R,)`` weighted cross-entropy of the bags by the largest similarity of each."""
    score = ((nearest - nearest.mean()) / max(float(nearest.std()), 1e-9))[:, None]
    found = LogisticRegression(C=1.0).fit(score, label, weight).decision_function(score)
    return np.asarray(np.logaddexp(0, (1 - 2 * label.astype(np.float64)) * found) * weight)
