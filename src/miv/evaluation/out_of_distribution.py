"""Fit the out-of-distribution check: distances from train, and a limit from other instances."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from miv.backbones.cache import embed_instances, embed_pool
from miv.data import ExemplarSet, InstancePool
from miv.data.kinds import KINDS
from miv.errors import MIVError
from miv.evaluation.goals import rounded_up
from miv.files.arrays import Floats
from miv.runtime import Progress
from miv.verifier.out_of_distribution import OutOfDistributionLimit, vectors_of

if TYPE_CHECKING:
    from miv.verifier.network import Verifier

_MOST_INSTANCES = 2_000  # of each set to embed; more change little
_MOST_DIRECTIONS = 64
_MOST_NUMBERS = 75_000  # in the directions: a file of 300 kB
_RIDGE, _RIDGE_OF_FEW = 0.001, 0.01  # of the mean variance; the second for as many instances as channels
_TAIL = 0.99  # the quantile at which the distances of features and of statistics are made equal
_LEAST = 1.25  # limit of few clusters
_ORDINARY = 0.01  # of train: with more vectors of zeros, they are data
_ENOUGH = 20  # other instances

DEFAULT_RATE = 0.01


def fit_out_of_distribution(
    train: NDArray[np.float32],
    others: NDArray[np.float32],
    rate: float | None = None,
    clusters: NDArray[Any] | None = None,
    statistics: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None,
) -> OutOfDistributionLimit:
    r"""Fit the limit so that at most a share ``rate`` of the instances of a new cluster is beyond it, on average.

    With ``statistics``, the distance of an instance is the larger of those of its features and its statistics, each
    divided by its 0.99 quantile in held-out halves of train. With the share :math:`\ell_k(t)` of the instances of
    cluster :math:`k` beyond :math:`t`, the limit is the smallest :math:`t` with
    :math:`\frac{1 + \sum_k \ell_k(t)}{1 + K} \le rate` (conformal risk control, Angelopoulos et al. 2022). If each
    instance is a cluster, this is the usual conformal quantile.

    Args:
        train: ``(N, C)``, features of train instances.
        others: ``(n, C)``, features of other instances.
        rate: by default 0.01, or the lowest that the clusters can promise. The limit is then at least 1.25 times these
            quantiles, because few instances hardly show how far ordinary ones can be.
        clusters: ``(n,)``, such as the class of each of the others; by default all instances count as independent.
        statistics: ``(N, S)`` and ``(n, S)``, ``Kind.statistics`` of the same instances.
    """
    clusters = np.arange(len(others)) if clusters is None else clusters
    count = len(np.unique(clusters))
    lowest = 1 / (count + 1)
    least = _LEAST if rate is None and lowest > DEFAULT_RATE and statistics is not None else 0.0
    rate = max(DEFAULT_RATE, lowest) if rate is None else rate
    if not 0 < rate < 1:
        raise MIVError(f"The false-alarm rate is {rate:g}. Expected a number between 0 and 1, such as 0.01.")
    if rate < lowest - 1e-12:
        raise MIVError(
            f"A false-alarm rate of {rate:g} cannot be promised with {count} classes or instances. Expected at least "
            f"{math.ceil(1 / rate - 1e-9) - 1:,}. Use more data, or a rate of {rounded_up(lowest):g} or more."
        )
    if len(train) < 2:
        raise MIVError(f"Train has {len(train)} instances. Expected at least 2.")
    unset = _covariance(train, rate) if statistics is None else _scaled(train, rate)
    distance = unset.distance(others)
    if statistics is not None:
        unset = replace(unset, statistics=_scaled(statistics[0], rate))
        assert unset.statistics is not None  # noqa: S101 - for the type checker
        distance = np.maximum(distance, unset.statistics.distance(statistics[1]))
    limit = max(least, _limit(distance, clusters, rate))
    measured = {
        "train_instances": len(train),
        "validation_instances": len(others),
        "clusters": count,
        "beyond": float((distance > limit).mean()),
    }
    of_statistics = None if unset.statistics is None else replace(unset.statistics, limit=limit)
    return replace(unset, limit=limit, measured=measured, statistics=of_statistics)


def _scaled(train: NDArray[np.float32], rate: float) -> OutOfDistributionLimit:
    """The distance from train, which is 1 at the quantile of held-out train instances."""
    half = np.random.default_rng(0).permutation(len(train)) % 2 == 0
    held_out = [_covariance(train[part], rate).distance(train[~part]) for part in (half, ~half)]
    scale = max(float(np.quantile(np.concatenate(held_out), _TAIL)), 1e-12)
    whole = _covariance(train, rate)
    return replace(whole, variance=whole.variance * scale, rest=whole.rest * scale)


def _covariance(train: NDArray[np.float32], rate: float) -> OutOfDistributionLimit:
    values = np.asarray(train, np.float64)
    mean, channels = values.mean(axis=0), values.shape[1]
    centred = values - mean
    total = float(np.einsum("nc,nc->", centred, centred)) / len(values)
    ridge = (_RIDGE + _RIDGE_OF_FEW * channels / len(values)) * max(total / channels, 1e-12)
    count = max(1, min(_MOST_DIRECTIONS, _MOST_NUMBERS // channels, channels, (len(values) - 1) // 2))
    # The right singular vectors are the principal directions, also if there are fewer instances than channels.
    _, singular, rows = np.linalg.svd(centred, full_matrices=False)
    variance = singular[:count] ** 2 / len(values)
    rest = max(total - float(variance.sum()), 0.0) / max(1, channels - count) + ridge
    return OutOfDistributionLimit(
        mean.astype(np.float32), rows[:count].astype(np.float32), variance + ridge, rest, 0.0, rate
    )


def _limit(distance: Floats, clusters: NDArray[Any], rate: float) -> float:
    _, number, size = np.unique(clusters, return_inverse=True, return_counts=True)
    order = np.argsort(distance, kind="stable")[::-1]
    # Beyond a limit at the i-th largest distance are those before it; equal distances are on the same side.
    lost = np.append(0.0, np.cumsum(1 / size[number[order]]))[:-1]
    allowed = (1 + lost) / (1 + len(size)) <= rate + 1e-12
    return float(distance[order][allowed][-1])


def fit_check(
    verifier: "Verifier",
    train: ExemplarSet,
    others: ExemplarSet,
    rate: float | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> OutOfDistributionLimit:
    """The limit for a verifier: distances from ``train``, tested on the instances of ``others`` that train lacks.

    If there are hardly any, half of train is left for the test: half of its classes if they are known. The clusters are
    the classes.
    """
    if verifier.backbone.reads_pairs:
        raise MIVError("A backbone of pairs has no features of single instances.")
    pools = [exemplars.pool.take(_sample(exemplars)) for exemplars in (train, others)]
    known = set(pools[0].digests())
    new = np.flatnonzero([digest not in known for digest in pools[1].digests()])
    pools = [pools[0], pools[1].take(new)] if len(new) >= min(_ENOUGH, len(pools[0]) // 2) else _halves(pools[0])
    backbone, kind, allows_empty = verifier.backbone, KINDS[pools[0].kind], False
    vectors, statistics, clusters = [], [], None
    for pool in pools:
        if cache is None:
            features = embed_instances(backbone, pool, np.arange(len(pool)), progress)
        else:
            features = embed_pool(backbone, pool, cache, progress)
        empty = KINDS["features"].is_empty(features)
        allows_empty |= kind.is_vector and pool is pools[0] and bool(empty.mean() > _ORDINARY)
        rows = np.flatnonzero(~empty | allows_empty)
        width = backbone.token_channels or backbone.vector_channels
        vectors.append(vectors_of(features[rows], width, is_mean=backbone.token_channels is not None))
        statistics.append(kind.statistics(features[rows] if kind.is_vector else pool.values[rows]))
        clusters = None if pool.classes is None else pool.classes[rows].astype(str)
    limit = fit_out_of_distribution(vectors[0], vectors[1], rate, clusters, (statistics[0], statistics[1]))
    measured = {**limit.measured, "by": "instances" if clusters is None else "classes"}
    is_mean = backbone.token_channels is not None
    return replace(limit, measured=measured, is_mean=is_mean, allows_empty=allows_empty)


def _halves(pool: InstancePool) -> list[InstancePool]:
    """A pool in two halves: of the classes if there are two or more, else of the instances."""
    classes = np.arange(len(pool)) if pool.classes is None else pool.classes.astype(str)
    names, number = np.unique(classes, return_inverse=True)
    if len(names) == 1:
        number = np.arange(len(pool))
    first = np.random.default_rng(0).permutation(number.max() + 1) % 2 == 0
    return [pool.take(np.flatnonzero(first[number] == side)) for side in (True, False)]


def _sample(exemplars: ExemplarSet) -> NDArray[np.int64]:
    """At most 2,000 of the instances that a set uses, at random, in increasing order."""
    used = exemplars.used
    if len(used) <= _MOST_INSTANCES:
        return used
    return np.sort(np.random.default_rng(0).choice(used, _MOST_INSTANCES, replace=False))


def limit_text(limit: OutOfDistributionLimit) -> str:
    """The limit in a sentence."""
    count, clusters = limit.measured["validation_instances"], limit.measured["clusters"]
    if limit.measured.get("by") == "classes":
        scope = f"for new classes ({count:,} instances of {clusters:,} classes)"
    else:
        scope = f"for new instances like these ({count:,} instances, each counted as independent)"
    few = "; more data would lower it" if limit.rate > DEFAULT_RATE and limit.rate == 1 / (clusters + 1) else ""
    return f"Out-of-distribution inputs are unsure, with a false-alarm rate of at most {limit.rate:.3g} {scope}{few}."
