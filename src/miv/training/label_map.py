"""Fits the map of a verifier's norm to the labels of the train bags, before any other weight learns."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor
from torch.nn import functional

from miv.bags import Bags
from miv.data import ExemplarSet, csr
from miv.data.splits import query_groups
from miv.files.arrays import Integers, Mask, Vectors
from miv.poolings.cap_tokens import CapTokensPooling
from miv.poolings.similar import INTERCEPT, SCALE, AlignedNorm
from miv.training.auto import FEW_CHANNELS
from miv.training.centring import HeldOutScores, auroc_gain
from miv.training.similar_start import token_matches
from miv.training.stage_module import ENOUGH
from miv.verifier.network import Verifier

SHARPNESS = 16.0  # of the attention while the map is fitted


@dataclass(frozen=True, eq=False)
class MapPairs:
    """The queries and targets of ``R`` references, one or more for each exemplar, as far as a map can change them."""

    coordinates: Tensor  # (U, K) of the distinct instances along the main directions
    rest: Tensor  # (U,) the squared length of what the map leaves as it is
    query: Tensor  # (T,) the row of each target's query
    target: Tensor  # (T,) the row of each target
    product: Tensor  # (T,) of what the map leaves as it is
    more: Tensor  # (T,) what the tokens of texts add to the cosine
    ptr: Tensor  # (R + 1,) the borders between the bags
    label: Tensor  # (R,)
    weight: Tensor  # (R,), 1 on average for an exemplar, whose references share it
    exemplar: Tensor  # (R,) the number of the exemplar that has this reference

    @classmethod
    def of(cls, verifier: Verifier, exemplars: ExemplarSet, features: Vectors, directions: Tensor) -> "MapPairs":
        count, owner = len(exemplars), csr.owners(exemplars.all_references[0])
        exemplars = exemplars.by_reference()
        norm = cast(AlignedNorm, verifier.pooling.norm)
        units = units_after(norm, features[exemplars.used, : norm.channels])  # tokens may follow
        query, target = (
            torch.from_numpy(np.searchsorted(exemplars.used, one))
            for one in (exemplars.query[exemplars.owner], exemplars.bag_index)
        )
        coordinates = units @ directions  # (U, K)
        left = units - coordinates @ directions.T  # (U, C)
        more = torch.zeros(len(target), dtype=torch.float32)
        if isinstance(verifier.pooling, CapTokensPooling):
            matches = token_matches(verifier, verifier.pooling, exemplars, features)
            more = torch.from_numpy(matches).float() * verifier.pooling.share.detach().cpu()
        weight = np.ones(len(exemplars)) if exemplars.weight is None else exemplars.weight
        label, scaled = torch.from_numpy(exemplars.label).float(), torch.from_numpy(weight * (count / weight.sum()))
        product, ptr = (left[query] * left[target]).sum(dim=1), torch.from_numpy(exemplars.bag_ptr)
        pairs = (query, target, product, more, ptr, label, scaled.float(), torch.from_numpy(owner))
        return cls(coordinates, left.square().sum(dim=1), *pairs)

    @property
    def reuse(self) -> float:
        """By which standard errors grow, because the exemplars share instances."""
        exemplars, bag_size = len(self.exemplar.unique()), len(self.target) / len(self.label)
        return math.sqrt(max(1.0, exemplars * (1 + bag_size) / len(self.coordinates)))

    def subset(self, keep: Mask) -> "MapPairs":
        """Only those of some exemplars: ``(E,)``, true for those to keep."""
        kept = torch.from_numpy(keep)[self.exemplar]  # (R,)
        sizes = self.ptr.diff()  # (R,)
        targets = kept.repeat_interleave(sizes)  # (T,)
        used, place = torch.cat([self.query[targets], self.target[targets]]).unique(return_inverse=True)
        query, target = place.chunk(2)
        weight = self.weight[kept]
        return MapPairs(
            coordinates=self.coordinates[used],
            rest=self.rest[used],
            query=query,
            target=target,
            product=self.product[targets],
            more=self.more[targets],
            ptr=functional.pad(sizes[kept].cumsum(0), (1, 0)),
            label=self.label[kept],
            weight=weight * (int(keep.sum()) / weight.sum()),
            exemplar=self.exemplar[kept].unique(return_inverse=True)[1],
        )

    def pooled(self, matrix: Tensor) -> Tensor:
        """``(R,)`` the similarity of each reference and its bag after the map ``(K, K)``."""
        moved = self.coordinates @ matrix.T  # (U, K)
        length = (moved.square().sum(dim=1) + self.rest).clamp(min=1e-12).sqrt()  # (U,)
        # Not by an index in brackets, whose gradient depends on the timing of threads.
        query, target = (moved.index_select(0, rows) for rows in (self.query, self.target))  # (T, K)
        lengths = length.index_select(0, self.query) * length.index_select(0, self.target)  # (T,)
        similar = (((query * target).sum(dim=1) + self.product) / lengths + self.more)[:, None]  # (T, 1)
        bags = Bags(similar, self.ptr)
        return bags.sum(bags.softmax(similar * SHARPNESS) * similar)[:, 0]


def units_after(norm: AlignedNorm, features: Vectors) -> Tensor:
    """``(U, C)`` the features after centre and map, of length 1."""
    with torch.no_grad():
        given = torch.from_numpy(np.array(features)).to(norm.map)
        return norm.direction(given).float().cpu()


# Of the pull to the map before, from strong to weak. None: that map itself.
STRENGTHS = (None, 300.0, 100.0, 30.0)
STRENGTHS_OF_FEW = (*STRENGTHS, 10.0, 3.0, 1.0)
FOLDS = 4
_STEPS = 8  # for each strength
_MOST_CHANNELS = 2_048  # more take minutes
_MOST_DIRECTIONS = 128  # that the map changes
_MOST_EXEMPLARS, _MOST_TARGETS = 6_000, 60_000  # for the fit
_MOST_FOR_CHOOSING, _MOST_TARGETS_FOR_CHOOSING = 1_500, 20_000  # enough to choose one of a few strengths
_MOST_NUMBERS = 1 << 25  # of all targets in memory: 128 MB


def fit_map(
    verifier: Verifier,
    train: ExemplarSet,
    features: Vectors,
    seed: int = 0,
    *,
    validation: ExemplarSet | None,
    validation_features: Vectors,
) -> float | None:
    r"""Fit the map to the train bags, if that improves AUROC on held-out bags; return the strength of the pull.

    A bag is as similar to its query as its targets are, weighted by attention; a logistic regression on that one number
    learns the map :math:`M` of all features, starting at the map :math:`M_0` of the norm:

    .. math:: \min_{A, s, b} \sum_e L\Big(y_e,\; s \sum_n a_n c_n + b\Big) + \frac{\lambda}{2} \|A - I\|^2, \qquad
        c_n = \cos(M q, M t_n), \quad a_n \propto \exp\{16 \, c_n\}, \quad M = A M_0

    With more than 128 channels, :math:`A` changes only the main directions of the train instances. Cross-validation
    over the queries of train, and validation, choose :math:`\lambda`: the strongest pull must be better than none, and
    each weaker one better than the best so far by a standard error of the AUROC. Without validation there is no map.
    """
    norm = verifier.pooling.norm
    if not isinstance(norm, AlignedNorm) or not verifier.pooling.learns or norm.channels > _MOST_CHANNELS:
        return None
    if validation is None or min(np.bincount(validation.label, minlength=2)) < 2:
        return None
    random = np.random.default_rng([seed, 29])
    most_targets = min(_MOST_TARGETS, _MOST_NUMBERS // norm.channels)
    rows = _sample(train, random, _MOST_EXEMPLARS, most_targets)
    if len(rows) == 0 or len(np.unique(train.label[rows])) < 2:
        return None
    known = train.subset(rows)
    directions = _main_directions(units_after(norm, features[known.used, : norm.channels]))
    strengths = STRENGTHS_OF_FEW if norm.channels < FEW_CHANNELS else STRENGTHS
    pairs = MapPairs.of(verifier, known, features, directions)
    path = _path(pairs, strengths)
    rows = _sample(known, random, _MOST_FOR_CHOOSING, _MOST_TARGETS_FOR_CHOOSING)
    folds = [] if len(rows) == 0 else _folds(pairs, known, rows, strengths, random)
    rows = _sample(validation, random, _MOST_FOR_CHOOSING, _MOST_TARGETS_FOR_CHOOSING)
    if len(rows) == 0:
        return None
    others = _scores(MapPairs.of(verifier, validation.subset(rows), validation_features, directions), path)
    place = _choose([part for part in folds if part.can_choose], others) if others.can_choose else 0
    if place == 0:
        return None
    with torch.no_grad():
        change = directions @ (path[place] - path[0]) @ directions.T  # (C, C)
        norm.map.add_(change.to(norm.map) @ norm.map)
    return strengths[place]


def _path(pairs: MapPairs, strengths: Sequence[float | None]) -> list[Tensor]:
    """A map ``(K, K)`` for each strength; each starts where the one before ended."""
    identity = torch.eye(pairs.coordinates.shape[1], dtype=torch.float32)
    matrix, scale, intercept = identity.clone(), identity.new_tensor(SCALE), identity.new_tensor(INTERCEPT)
    path = []

    def descend(learned: list[Tensor], strength: float) -> None:
        for weight in learned:
            weight.requires_grad_(True)
        optimiser = torch.optim.LBFGS(learned, max_iter=_STEPS, line_search_fn="strong_wolfe")

        def closure() -> Tensor:
            optimiser.zero_grad()
            logit = pairs.pooled(matrix) * scale + intercept
            losses = functional.binary_cross_entropy_with_logits(logit, pairs.label, reduction="none")
            loss = (losses * pairs.weight).sum() + strength / 2 * (matrix - identity).square().sum()
            torch.autograd.backward(loss)
            return loss

        optimiser.step(closure)

    for strength in strengths:
        descend([scale, intercept] if strength is None else [matrix, scale, intercept], strength or 0.0)
        path.append(matrix.detach().clone())
    return path


def _folds(
    pairs: MapPairs, exemplars: ExemplarSet, rows: Integers, strengths: Sequence[float | None], random: Generator
) -> list[HeldOutScores]:
    """The bags of these rows in folds, each scored by maps that were fitted to the others; nothing for too few."""
    names, unit = np.unique(query_groups(exemplars.subset(rows)), return_inverse=True)
    folds = min(FOLDS, len(names))
    part = np.full(len(exemplars), -1)
    part[rows] = random.permutation(len(names))[unit] % folds
    found = []
    for number in range(folds if folds > 1 else 0):
        fitting, held_out = pairs.subset((part >= 0) & (part != number)), pairs.subset(part == number)
        if len(fitting.label.unique()) > 1:
            found.append(_scores(held_out, _path(fitting, strengths)))
    return found


def _scores(pairs: MapPairs, path: Sequence[Tensor]) -> HeldOutScores:
    """The score of each exemplar for each map: the mean of its references."""
    exemplar = pairs.exemplar.numpy()
    _, first, references = np.unique(exemplar, return_index=True, return_counts=True)
    with torch.no_grad():
        scores = [np.bincount(exemplar, pairs.pooled(matrix).double().numpy()) / references for matrix in path]
    return HeldOutScores(pairs.label.numpy()[first].astype(np.int8), scores, pairs.reuse)


def _choose(folds: list[HeldOutScores], others: HeldOutScores) -> int:
    """The place of the best strength, from strong to weak.

    The folds share instances with the bags that were fitted, so a map must not be worse on validation and, if that is
    enough to tell, must be better there than none by a standard error.
    """
    best, parts = 0, [*folds, others]
    for place in range(1, len(others.scores)):
        gain, error = auroc_gain(parts, place, best)
        on_validation, its_error = auroc_gain([others], place, 0)
        holds = on_validation > (its_error / others.reuse if len(others.label) >= ENOUGH else 0)
        # The strongest pull changes so little that any gain will do; a weaker one may memorise.
        if gain > (0 if place == 1 else error) and holds and auroc_gain([others], place, best)[0] >= 0:
            best = place
    return best


def _sample(exemplars: ExemplarSet, random: Generator, most: int, most_targets: int) -> Integers:
    """The places of at most so many exemplars and targets, in order; none if not even one bag fits."""
    targets = exemplars.bag_sizes * np.diff(exemplars.all_references[0])  # (E,) each reference has the bag for itself
    if len(exemplars) <= most and targets.sum() <= most_targets:
        return np.arange(len(exemplars))
    order = random.permutation(len(exemplars))[:most]
    order = order[targets[order] <= most_targets]  # one giant bag must not leave out the others
    return np.sort(order[np.cumsum(targets[order]) <= most_targets])


def _main_directions(units: Tensor) -> Tensor:
    """``(C, K)`` the directions along which the rows ``(U, C)`` vary most, or all of them if they are few."""
    channels = units.shape[1]
    if channels <= _MOST_DIRECTIONS:
        return torch.eye(channels, dtype=torch.float32)
    centred = units - units.mean(dim=0)
    _, directions = torch.linalg.eigh((centred.T @ centred).double())  # from small to large
    return directions[:, -_MOST_DIRECTIONS:].float()
