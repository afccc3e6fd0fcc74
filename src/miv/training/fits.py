"""Bags as plain arrays, and what recipes fit: whitening, maps of features, one logistic regression, and a head."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from torch import Tensor
from torch.nn import functional

from miv.bags import Bags
from miv.data import ExemplarSet, csr
from miv.data.splits import query_groups
from miv.evaluation.baselines import unit_rows
from miv.files.arrays import Floats, Integers, Labels, Mask, Vectors


@dataclass(frozen=True, eq=False)
class BagData:
    """``R`` queries (each reference counts as one) and their bags with ``T`` targets, over ``U`` distinct instances."""

    units: Vectors  # (U, C) features scaled to length 1
    query: Integers  # (R,) rows of the queries
    target: Integers  # (T,) rows of the targets
    ptr: Integers  # (R + 1,) the borders between the bags
    label: Labels  # (R,)
    weight: Floats  # (R,) 1 on average over exemplars; the references of a query share its weight
    group: Integers  # (R,) what must not be on two sides of a fold
    exemplar: Integers  # (R,) number of the exemplar that a reference belongs to
    match: Floats  # (T,) similarity of the tokens of texts, or zeros
    witness: Mask | None = None  # (T,) whether a target is a witness, if that is known
    whole: "BagData | None" = None  # the bags that these were taken from

    @classmethod
    def of(cls, exemplars: ExemplarSet, features: Vectors, channels: int | None = None) -> "BagData":
        """From the features ``(P, C)`` of the pool, of which the first ``channels`` are compared."""
        references = exemplars.by_reference()
        owner = csr.owners(exemplars.all_references[0])  # (R,)
        weight = np.ones(len(exemplars)) if exemplars.weight is None else exemplars.weight / exemplars.weight.mean()
        used = references.used
        return cls(
            units=unit_rows(features[:, :channels], used),
            query=np.searchsorted(used, references.query),
            target=np.searchsorted(used, references.bag_index),
            ptr=references.bag_ptr,
            label=references.label,
            weight=(weight / np.diff(exemplars.all_references[0]))[owner],
            group=query_groups(exemplars)[owner],
            exemplar=owner,
            match=np.zeros(len(references.bag_index)),
            witness=references.witness,
        )

    def __len__(self) -> int:
        return len(self.query)

    @property
    def owner(self) -> Integers:
        """``(T,)`` the number of each target's query."""
        return csr.owners(self.ptr)

    @property
    def can_learn(self) -> bool:
        """Whether there are bags of both labels."""
        return len(self) > 0 and bool(self.label.min() < self.label.max())

    @cached_property
    def moments(self) -> "Moments":
        """Those of the units; a part has those of the whole, so that they are computed once."""
        return Moments.of(self.units) if self.whole is None else self.whole.moments

    def subset(self, keep: Mask) -> "BagData":
        """The references for which ``(R,)`` is true."""
        return self._part(np.flatnonzero(keep), *csr.take_bags(self.ptr, np.flatnonzero(keep)))

    def nearest(self, similarity: Floats, most: int) -> "BagData":
        """The same with at most so many targets of each bag, those of the highest similarity ``(T,)``."""
        size = np.diff(self.ptr)
        if size.max() <= most:
            return self
        order = np.lexsort((-similarity, self.owner))
        rank = np.arange(len(order)) - self.ptr[self.owner]
        return self._part(np.arange(len(self)), csr.borders(np.minimum(size, most)), np.sort(order[rank < most]))

    def _part(self, references: Integers, ptr: Integers, members: Integers) -> "BagData":
        """Some references ``(R',)``, and of all targets ``(T',)`` for bags with the borders ``ptr``."""
        used, rows = np.unique(np.concatenate([self.query[references], self.target[members]]), return_inverse=True)
        query, target = np.split(rows, [len(references)])
        rest = {name: getattr(self, name)[references] for name in ("label", "weight", "group", "exemplar")}
        witness = None if self.witness is None else self.witness[members]
        parts = {"units": self.units[used], "match": self.match[members], "witness": witness}
        parts["whole"] = self if self.whole is None else self.whole
        return replace(self, query=query, target=target, ptr=ptr, **parts, **rest)

    def sample(self, most: int, most_targets: int, random: np.random.Generator) -> "BagData":
        """At most so many queries and targets; all references of an exemplar or none."""
        if len(self) <= most and len(self.target) <= most_targets:
            return self
        size = np.bincount(self.exemplar, np.diff(self.ptr))  # (E,) targets, once per reference
        count = np.bincount(self.exemplar)
        order = random.permutation(len(size))
        possible = (size[order] <= most_targets) & (count[order] <= most)  # one giant bag must not leave out the others
        order = order[possible]
        fits = (np.cumsum(size[order]) <= most_targets) & (np.cumsum(count[order]) <= most)
        return self.subset(np.isin(self.exemplar, order[fits]))

    @property
    def weight_of_exemplars(self) -> Floats:
        """``(E,)`` the weights of the exemplars that have references here."""
        return np.asarray(np.bincount(np.unique(self.exemplar, return_inverse=True)[1], self.weight), np.float64)

    def per_exemplar(self, values: Floats) -> Floats:
        """``(E,)`` the mean of ``(R,)`` over the references of each exemplar, in their order."""
        _, number = np.unique(self.exemplar, return_inverse=True)
        return np.asarray(np.bincount(number, values) / np.bincount(number))

    @property
    def first(self) -> NDArray[np.int64]:
        """``(E,)`` the first reference of each exemplar."""
        return np.unique(self.exemplar, return_index=True)[1]


_MOST_CHANNELS = 2_048  # a larger covariance takes minutes
_MOST_DIRECTIONS = 128  # that a map changes
_STEPS = 8  # of L-BFGS for each pull on the labels
_STEPS_OF_CONTRAST = 12
_TOGETHER = 400  # queries that are compared with the same targets
_ATTENTION = 16.0  # sharpness while a map is fitted
_TEMPERATURE = 0.1  # of the contrast
_RIDGE, _RIDGE_OF_FEW = 0.1, 0.3  # of the mean variance; the second for as many instances as channels


@dataclass(frozen=True, eq=False)
class Moments:
    """The mean ``(C,)`` of unit features and their main directions ``(C, D)``, from weak to strong."""

    mean: Vectors
    directions: NDArray[np.float64]
    variance: Floats  # (D,)
    count: int

    @classmethod
    def of(cls, units: Vectors) -> "Moments":
        mean = units.mean(axis=0)
        centred = units - mean
        if units.shape[1] <= _MOST_CHANNELS:
            variance, directions = np.linalg.eigh((centred.T @ centred / len(units)).astype(np.float64))
            return cls(mean, directions, np.maximum(variance, 0), len(units))
        with torch.random.fork_rng([]):
            torch.manual_seed(0)
            _, length, strong = torch.svd_lowrank(torch.from_numpy(centred), _MOST_DIRECTIONS, niter=4)
        return cls(mean, strong.flip(1).double().numpy(), length.flip(0).double().numpy() ** 2 / len(units), len(units))

    def whitening(self, power: float) -> Vectors:
        r"""A map ``(C, C)`` that whitens in part: :math:`M \propto (\Sigma + r I)^{-p/2}`."""
        # The ridge keeps directions with little evidence from being blown up.
        ridge = _RIDGE + _RIDGE_OF_FEW * len(self.variance) / self.count
        gain = (self.variance + ridge * max(float(self.variance.mean()), 1e-12)) ** (-power / 2)
        gain /= np.sqrt(np.mean(gain**2))
        return np.asarray((self.directions * gain) @ self.directions.T, np.float32)


def logistic(score: Floats, label: Labels, weight: Floats) -> tuple[float, float]:
    """Slope and intercept of a logistic regression of the labels on one score ``(R,)``; the slope is positive."""
    mean, spread = float(score.mean()), float(score.std())
    share = float(np.clip(np.average(label, weights=weight), 1e-3, 1 - 1e-3))
    odds = math.log(share / (1 - share))
    if spread > 1e-6 * max(1.0, abs(mean)):  # smaller differences are rounding errors
        scaled = ((score - mean) / spread)[:, None]
        slope, intercept = solve(scaled, np.full(len(score), odds), label, weight, 1.0)
        if slope > 0:
            return float(slope / spread), float(intercept - slope * mean / spread + odds)
    return 1.0, odds - mean


def solve(inputs: Vectors | Floats, offset: Floats, label: Labels, weight: Floats, pull: float) -> Floats:
    r"""``(I + 1,)`` the weights of inputs ``(R, I)``, and an intercept, to be added to logits ``offset`` ``(R,)``.

    .. math:: \min_{\delta, b} \sum_r w_r L(y_r,\; \ell_r + \delta^\top x_r + b) + \frac{\lambda}{2} \|\delta\|^2
    """
    sign = 1 - 2 * label.astype(np.float64)
    inputs = inputs.astype(np.float64)  # once; a product with float64 converts it in every step

    def objective(weights: Floats) -> tuple[float, Floats]:
        logit = offset + inputs @ weights[:-1] + weights[-1]
        slope = sign * expit(sign * logit) * weight
        loss = float((np.logaddexp(0, sign * logit) * weight).sum() + pull / 2 * weights[:-1] @ weights[:-1])
        return loss, np.append(inputs.T @ slope + pull * weights[:-1], slope.sum())

    start = np.zeros(inputs.shape[1] + 1)
    return np.asarray(minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 60}).x)


@dataclass(frozen=True, eq=False)
class _Coordinates:
    """Instances along the main directions ``(U, K)``, and what a map of these leaves as it is."""

    directions: Tensor  # (C, K)
    inside: Tensor  # (U, K)
    outside: Tensor  # (U, C)

    @classmethod
    def of(cls, units: Vectors, data: BagData) -> "_Coordinates":
        given = torch.from_numpy(np.ascontiguousarray(units))
        directions = torch.eye(units.shape[1], dtype=torch.float32)
        if len(directions) > _MOST_DIRECTIONS:  # neither a centre nor whitening turns them
            directions = torch.from_numpy(data.moments.directions[:, -_MOST_DIRECTIONS:]).float()
        inside = given @ directions
        return cls(directions, inside, given - inside @ directions.T)

    def full(self, matrix: Tensor) -> Vectors:
        """``(C, C)`` the map of all channels for one of the coordinates ``(K, K)``."""
        change = self.directions @ (matrix - torch.eye(len(matrix))) @ self.directions.T
        return np.asarray((torch.eye(len(change)) + change).numpy(), np.float32)


def label_maps(data: BagData, units: Vectors, match: Floats, pulls: Sequence[float]) -> list[Vectors]:
    r"""A map ``(C, C)`` for each pull, from strong to weak, fitted to the labels of the bags.

    .. math:: \min_{A, s, b} \sum_e L\Big(y_e,\; s \sum_n a_n c_n + b\Big) + \frac{\lambda}{2} \|A - I\|^2, \qquad
        c_n = \cos(A q, A t_n), \quad a_n \propto \exp\{16 \, c_n\}

    With more than 128 channels, :math:`A` changes only the main directions. ``match`` ``(T,)`` is added to each cosine.
    """
    at = _Coordinates.of(units, data)
    query, target = torch.from_numpy(data.query[data.owner]), torch.from_numpy(data.target)
    rest = at.outside.square().sum(dim=1)  # (U,)
    product = (at.outside[query] * at.outside[target]).sum(dim=1)  # (T,)
    more, ptr = torch.from_numpy(match).float(), torch.from_numpy(data.ptr)
    label, weight = torch.from_numpy(data.label).float(), torch.from_numpy(data.weight).float()

    def pooled(matrix: Tensor) -> Tensor:
        moved = at.inside @ matrix.T  # (U, K)
        length = (moved.square().sum(dim=1) + rest).clamp(min=1e-12).sqrt()
        # Not by an index in brackets, whose gradient depends on the timing of threads.
        pair = moved.index_select(0, query) * moved.index_select(0, target)  # (T, K)
        lengths = length.index_select(0, query) * length.index_select(0, target)
        cosine = ((pair.sum(dim=1) + product) / lengths + more)[:, None]  # (T, 1)
        bags = Bags(cosine, ptr)
        return bags.sum(bags.softmax(cosine * _ATTENTION) * cosine)[:, 0]  # (R,)

    def loss(matrix: Tensor, line: Tensor) -> Tensor:
        logit = pooled(matrix) * line[0] + line[1]
        return (functional.binary_cross_entropy_with_logits(logit, label, reduction="none") * weight).sum()

    channels = at.inside.shape[1]
    line = logistic(pooled(torch.eye(channels)).double().numpy(), data.label, data.weight)
    return [at.full(matrix) for matrix in _path([loss], channels, pulls, _STEPS, line)]


def contrast_maps(data: BagData, units: Vectors, pulls: Sequence[float]) -> list[Vectors]:
    r"""A map ``(C, C)`` for each pull with which queries of positive bags find their own (MIL-NCE, Miech et al. 2020).

    .. math:: \min_A -\sum_e w_e \log \frac{\sum_{n \in e} \exp\{\cos(A q_e, A t_n) / \tau\}}
        {\sum_n \exp\{\cos(A q_e, A t_n) / \tau\}} + \frac{\lambda}{2} \|A - I\|^2

    The sum over all bags is over those of 400 queries at a time.
    """
    at = _Coordinates.of(units, data)
    rest, weight = at.outside.square().sum(dim=1), torch.from_numpy(data.weight).float()

    def part(first: int) -> Callable[[Tensor, Tensor], Tensor]:
        last = min(first + _TOGETHER, len(data))
        ptr = data.ptr[first : last + 1] - data.ptr[first]
        rows, place = np.unique(data.target[data.ptr[first] : data.ptr[last]], return_inverse=True)
        query, target = torch.from_numpy(data.query[first:last]), torch.from_numpy(rows)
        own = torch.from_numpy(csr.owners(ptr) * len(rows) + place)  # (T,) of the matrix (R, V), as one line
        product = at.outside[query] @ at.outside[target].T  # (R, V)
        asked, told = at.inside[query], at.inside[target]

        def loss(matrix: Tensor, line: Tensor) -> Tensor:
            left, right = asked @ matrix.T, told @ matrix.T  # (R, K), (V, K)
            of_left = (left.square().sum(dim=1) + rest[query]).clamp(min=1e-12).sqrt()
            of_right = (right.square().sum(dim=1) + rest[target]).clamp(min=1e-12).sqrt()
            similar = (left @ right.T + product) / (of_left[:, None] * of_right * _TEMPERATURE)  # (R, V)
            near = similar.flatten().index_select(0, own)[:, None]  # (T, 1) of the bag's own
            bags = Bags(near, torch.from_numpy(ptr))
            highest = bags.max(near).detach()  # (R, 1)
            in_bag = (bags.sum((near - bags.expand(highest)).exp()).log() + highest)[:, 0]  # (R,)
            return ((similar.logsumexp(dim=1) - in_bag) * weight[first:last]).sum() + 0 * line.sum()

        return loss

    parts = [part(first) for first in range(0, len(data), _TOGETHER)]
    return [at.full(matrix) for matrix in _path(parts, at.inside.shape[1], pulls, _STEPS_OF_CONTRAST)]


def _path(
    losses: Sequence[Callable[[Tensor, Tensor], Tensor]],
    channels: int,
    pulls: Sequence[float],
    steps: int,
    line: tuple[float, float] = (0.0, 0.0),
) -> list[Tensor]:
    """A matrix ``(K, K)`` for each pull to the identity; each starts where the one before ended.

    Each of ``losses`` takes the matrix and two more numbers, which start at ``line``; their sum counts. SciPy's
    L-BFGS, as ``torch.optim`` takes seconds to import.
    """
    identity = np.eye(channels).reshape(-1)
    solution, path = np.concatenate([identity, line]), []

    def objective(weights: Floats, pull: float) -> tuple[float, Floats]:
        given = torch.from_numpy(weights).float().requires_grad_(True)
        change = weights[:-2] - identity
        total, gradient = pull / 2 * float(change @ change), np.append(pull * change, [0.0, 0.0])
        for loss in losses:  # one after the other, to bound memory
            value = loss(given[:-2].unflatten(0, (channels, channels)), given[-2:])
            gradient += torch.autograd.grad(value, given)[0].double().numpy()
            total += float(value.detach())
        return total, gradient

    for pull in pulls:
        options = {"maxiter": steps, "maxfun": steps + 10, "maxls": 6}  # float32 is too coarse for a long line search
        solution = minimize(objective, solution, (pull,), jac=True, method="L-BFGS-B", options=options).x
        path.append(torch.from_numpy(solution[:-2]).float().unflatten(0, (channels, channels)))
    return path
