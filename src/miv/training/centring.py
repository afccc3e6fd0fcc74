"""Subtract the mean feature by default, unless training bags show that it hurts; whiten if that helps."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.random import Generator
from torch import nn

from miv.backbones.descriptors import Features, HistogramOfGradients
from miv.data import ExemplarSet, csr
from miv.data.splits import query_groups
from miv.evaluation import auroc
from miv.evaluation.baselines import mean_direction, unit_rows
from miv.evaluation.metrics import auroc_error
from miv.files.arrays import Floats, Integers, Labels, Vectors
from miv.poolings.nearest import NearestPooling
from miv.poolings.similar import AlignedNorm
from miv.training.auto import FEW_CHANNELS
from miv.verifier.network import Verifier

_SHARED = 0.2  # length of the mean of unit features from which on they share a direction
_ONE_KIND = 0.05  # of the queries that are targets too; fewer may be accidents


def assume_centre(verifier: Verifier, train: ExemplarSet, features: Vectors) -> bool:
    """Subtract the mean of the train features, scaled to length 1, if they share a direction; return whether they do.

    Not if texts answer others, such as claims and evidence, and not for columns of a table.
    """
    norm = verifier.pooling.norm
    if not isinstance(norm, AlignedNorm) or not verifier.pooling.learns or norm.has_map:
        return False
    if train.pool.kind == "text" and not are_of_one_kind(train):
        return False
    # Columns of a table: standardising has taken the mean away, or was clearly worse.
    if isinstance(verifier.backbone, Features) and (verifier.backbone.standardise or norm.channels < FEW_CHANNELS):
        return False
    mean = mean_direction(train, features[:, : norm.channels])  # tokens may follow
    if np.linalg.norm(mean) < _SHARED:
        return False
    with torch.no_grad():
        norm.centre.copy_(torch.from_numpy(mean))
    return True


def use_requested_centre(
    verifier: Verifier, train: ExemplarSet, features: Vectors, has_learned_features: bool = False
) -> None:
    """Subtract that mean if the option ``centred`` of ``nearest`` asks for it; a centre of the same features stays."""
    pooling, norm = verifier.pooling, verifier.pooling.norm
    is_asked = isinstance(pooling, NearestPooling) and pooling.centred
    if is_asked and isinstance(norm, AlignedNorm) and (has_learned_features or not norm.centre.any()):
        with torch.no_grad():
            norm.centre.copy_(torch.from_numpy(mean_direction(train, features)))


def are_of_one_kind(exemplars: ExemplarSet) -> bool:
    """Whether instances that are queries here are targets there, so that all are of one kind."""
    return bool(np.isin(np.unique(exemplars.all_references[1]), exemplars.bag_index).mean() >= _ONE_KIND)


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """Bags to choose by."""

    label: Labels  # (E,)
    scores: list[Floats]  # (E,) that each candidate gives them
    reuse: float = 1.0  # by which standard errors grow, because bags that share instances are not independent

    @property
    def can_choose(self) -> bool:
        """Whether there are at least two bags with each label; with one, there is no standard error."""
        return bool(min(np.sum(self.label == 0), np.sum(self.label == 1)) > 1)


def auroc_gain(parts: list[HeldOutScores], one: int, other: int) -> tuple[float, float]:
    """How much AUROC a candidate gains over another, averaged over the parts by size, and its standard error."""
    share = np.array([len(part.label) for part in parts], np.float64)
    share /= share.sum()
    gains = [auroc(part.label, part.scores[one]) - auroc(part.label, part.scores[other]) for part in parts]
    errors = [part.reuse * auroc_error(part.label, part.scores[one], part.scores[other]) for part in parts]
    return float(share @ gains), float(np.sqrt(share**2 @ np.square(errors)))


def is_clear_gain(gain: Floats) -> bool:
    """Whether the mean of ``(E,)`` gains exceeds its standard error."""
    return bool(gain.mean() > gain.std() / np.sqrt(len(gain)))


def independent(exemplars: ExemplarSet) -> float:
    """Number of exemplars the instances allow without reuse: the effective sample size."""
    return min(len(exemplars), len(exemplars.used) / (1 + float(exemplars.bag_sizes.mean())))


POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)  # 0: the plain cosine, after the centre of the norm
FOLDS = 3
_MOST_CHANNELS = 2_048  # more take minutes and say little about so large a covariance
_MOST_INSTANCES = 10_000
_MOST_EXEMPLARS = 1_500  # to choose one of a few powers
_LEAST_GAIN = 0.02  # of AUROC; for less, the ranks of the witnesses lose more than the verdicts gain
_RIDGE, _RIDGE_OF_FEW = 0.1, 0.3  # of the mean variance; the second for as many instances as channels


def assumed_power(backbone: nn.Module) -> float:
    """The power to assume; neighbouring cells of ``hog`` share edges, so cosines count the same stroke many times."""
    return 0.25 if isinstance(backbone, HistogramOfGradients) else 0.0


@dataclass(frozen=True, eq=False)
class _Spectrum:
    """Mean ``(C,)`` of unit features, and variances ``(C,)`` along their principal directions ``(C, C)``."""

    mean: Vectors
    variance: Floats
    directions: Vectors

    @classmethod
    def of(cls, units: Vectors) -> "_Spectrum":
        """Of the rows ``(N, C)``; the ridge keeps directions with little evidence from being blown up."""
        mean = units.mean(axis=0)
        centred = units - mean
        variance, directions = np.linalg.eigh((centred.T @ centred / len(units)).astype(np.float64))
        variance = np.maximum(variance, 0)
        ridge = (_RIDGE + _RIDGE_OF_FEW * len(variance) / len(units)) * max(float(variance.mean()), 1e-12)
        return cls(mean, variance + ridge, directions.astype(np.float32))

    def gains(self, power: float) -> Vectors:
        """``(C,)`` the factor along each direction, 1 in the mean square."""
        found = self.variance ** (-power / 2)
        return np.asarray(found / np.sqrt(np.mean(found**2)), np.float32)


def fit_whitening(
    verifier: Verifier,
    train: ExemplarSet,
    features: Vectors,
    seed: int = 0,
    *,
    validation: ExemplarSet | None = None,
    validation_features: Vectors | None = None,
    assumed: float = 0.0,
) -> float | None:
    r"""Whiten the features in part, if that improves the nearest target on held-out bags; return the power.

    With mean :math:`\mu` and covariance :math:`\Sigma` of the train instances, scaled to length 1, the norm gets

    .. math:: c = \mu, \qquad M \propto (\Sigma + r I)^{-p/2}

    Cross-validation over the queries of train, and validation, choose :math:`p`. The assumed power is kept unless the
    best is better by a standard error and, if it is higher, by 0.02; then the lowest power is taken that is not worse
    than the best by a standard error. Power 0 (``None``) changes nothing.
    """
    norm = verifier.pooling.norm
    if not isinstance(norm, AlignedNorm) or not verifier.pooling.learns or norm.has_map:
        return None
    if norm.channels > _MOST_CHANNELS:
        return None
    random = np.random.default_rng([seed, 19])
    features = features[:, : norm.channels]  # tokens may follow
    if validation_features is not None:
        validation_features = validation_features[:, : norm.channels]
    centre = norm.centre.cpu().numpy().astype(np.float32)
    spectrum = _spectrum(features, train.used, random)
    powers = sorted({*POWERS, assumed})
    parts = _folds(train, features, random, powers, centre)
    if validation is not None and validation_features is not None:
        parts.append(_scores(_some(validation, random), validation_features, spectrum, powers, centre))
    power = _choose([part for part in parts if part.can_choose], powers, assumed)
    if power == 0:
        return None
    turned = spectrum.directions * spectrum.gains(power)
    with torch.no_grad():
        norm.centre.copy_(torch.from_numpy(spectrum.mean))
        norm.map.copy_(torch.from_numpy(turned @ spectrum.directions.T))
    return power


def _folds(
    train: ExemplarSet, features: Vectors, random: Generator, powers: Sequence[float], centre: Vectors
) -> list[HeldOutScores]:
    """Cross-validation in which held-out instances take no part in the covariance, if enough others are left."""
    some = _some(train, random)
    names, places = np.unique(query_groups(some), return_inverse=True)
    folds = min(FOLDS, len(names))
    if folds < 2:
        return []
    part = random.permutation(len(names))[places] % folds  # (E,)
    found = []
    for number in range(folds):
        held_out, others = some.subset(part == number), some.subset(part != number).used
        unseen = np.setdiff1d(others, held_out.used)
        # With fewer instances than channels, the covariance would be far from the one that is judged here.
        rows = unseen if len(unseen) >= features.shape[1] else others
        found.append(_scores(held_out, features, _spectrum(features, rows, random), powers, centre))
    return found


def _choose(parts: list[HeldOutScores], powers: Sequence[float], assumed: float) -> float:
    if not parts:
        return assumed
    numbers = range(len(powers))
    best = max(numbers, key=lambda one: auroc_gain(parts, one, 0)[0])
    if not _is_clear(parts, best, powers.index(assumed), _LEAST_GAIN if powers[best] > assumed else 0.0):
        return assumed
    return next(powers[one] for one in numbers if one == best or not _is_clear(parts, best, one))


def _is_clear(parts: list[HeldOutScores], one: int, other: int, least: float = 0.0) -> bool:
    gain, error = auroc_gain(parts, one, other)
    return gain > max(error, least)


def _scores(
    exemplars: ExemplarSet, features: Vectors, spectrum: _Spectrum, powers: Sequence[float], centre: Vectors
) -> HeldOutScores:
    """The cosine of the nearest target for each power; each reference of a query counts as an exemplar of its own."""
    exemplars = exemplars.by_reference()
    units = unit_rows(features, exemplars.used)
    query = np.searchsorted(exemplars.used, exemplars.query)[exemplars.owner]  # (T,)
    target = np.searchsorted(exemplars.used, exemplars.bag_index)  # (T,)
    turned = np.asarray((units - spectrum.mean) @ spectrum.directions, np.float32)
    plain = _unit(units - centre) if centre.any() else units
    forms = (plain if power == 0 else _unit(turned * spectrum.gains(power)) for power in powers)
    each = (np.einsum("tc,tc->t", form[query], form[target]).astype(np.float64) for form in forms)
    return HeldOutScores(exemplars.label, [csr.bag_maxima(one, exemplars.bag_ptr) for one in each])


def _spectrum(features: Vectors, rows: Integers, random: Generator) -> _Spectrum:
    return _Spectrum.of(unit_rows(features, np.sort(random.permutation(rows)[:_MOST_INSTANCES])))


def _some(exemplars: ExemplarSet, random: Generator) -> ExemplarSet:
    return exemplars.subset(np.sort(random.permutation(len(exemplars))[:_MOST_EXEMPLARS]))


def _unit(rows: Vectors) -> Vectors:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.float32(1e-6))
