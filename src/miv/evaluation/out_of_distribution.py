"""Fit the out-of-distribution check: the covariance of train features, and a limit from validation data."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from miv.backbones.cache import embed_pool
from miv.data import ExemplarSet
from miv.errors import MIVError
from miv.files.arrays import Floats
from miv.runtime import Progress
from miv.verifier.out_of_distribution import OutOfDistributionLimit

if TYPE_CHECKING:
    from miv.verifier.network import Verifier

_MOST_INSTANCES = 2_000  # of each set to embed; more change little
_MOST_DIRECTIONS = 64
_MOST_NUMBERS = 75_000  # in the directions: a file of 300 kB
_RIDGE, _RIDGE_OF_FEW = 0.001, 0.01  # of the mean variance; the second for as many instances as channels

_DEFAULT_RATE = 0.01
_HIGHEST_RATE = 0.05  # a default limit with more false alarms does more harm than good
_LEAST_TRAIN = 200  # distinct train instances of a default limit; a covariance of fewer flags ordinary inputs
_LEAST_EXEMPLARS = 100  # and exemplars to calibrate on: instances of one bag are often alike


def fit_out_of_distribution(
    train: NDArray[np.float32],
    validation: NDArray[np.float32],
    rate: float = _DEFAULT_RATE,
    clusters: NDArray[Any] | None = None,
) -> OutOfDistributionLimit:
    r"""Fit the limit so that at most a share ``rate`` of the instances of a new cluster is beyond it, on average.

    With the share :math:`\ell_k(t)` of the instances of cluster :math:`k` beyond :math:`t`, the limit is the smallest
    :math:`t` with :math:`\frac{1 + \sum_k \ell_k(t)}{1 + K} \le rate` (conformal risk control, Angelopoulos et al.
    2022). If each instance is a cluster, this is the usual conformal quantile.

    Args:
        train: ``(N, C)``, features of train instances.
        validation: ``(n, C)``, features of other instances.
        rate: the false-alarm rate.
        clusters: ``(n,)``, such as the class of each validation instance, because instances of one class are alike; by
            default every instance counts as independent.
    """
    clusters = np.arange(len(validation)) if clusters is None else clusters
    count = len(np.unique(clusters))
    if not 0 < rate < 1:
        raise MIVError(f"The false-alarm rate is {rate:g}. Expected a number between 0 and 1, such as 0.01.")
    if rate < _lowest_rate(clusters) - 1e-12:
        raise MIVError(
            f"A false-alarm rate of {rate:g} cannot be promised with {count} classes or instances. Expected at least "
            f"{math.ceil(1 / rate - 1e-9) - 1:,}. Use more data, or a rate of {_lowest_rate(clusters):.2g} or more."
        )
    if len(train) < 2:
        raise MIVError(f"Train has {len(train)} instances. Expected at least 2.")
    unset = _covariance(train, rate)
    distance = unset.distance(validation)
    limit = _limit(distance, clusters, rate)
    measured = {
        "train_instances": len(train),
        "validation_instances": len(validation),
        "clusters": count,
        "beyond": float((distance > limit).mean()),
    }
    return replace(unset, limit=limit, measured=measured)


def _lowest_rate(clusters: NDArray[Any]) -> float:
    """The lowest false-alarm rate that instances of these clusters ``(n,)`` can promise for a new cluster."""
    return 1 / (len(np.unique(clusters)) + 1)


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


def choose_limit(
    verifier: "Verifier",
    load_train: Callable[[], ExemplarSet],
    exemplars: ExemplarSet,
    features: NDArray[np.float32] | None,
    rate: float | None,
    cache: Path,
    progress: Progress,
) -> tuple[OutOfDistributionLimit | None, list[str]]:
    """Fit the limit on the train split and on ``exemplars``, and return it with notes for the user.

    If no ``rate`` was requested, it is 0.01, or the lowest that the data can promise. If that is above 0.05, or the
    data are few, there is no limit, and a note. A requested rate that is not possible is an error. With 0 there is no
    limit.
    """
    if rate == 0:
        return None, []
    try:
        if verifier.backbone.reads_pairs:
            raise MIVError("a backbone of pairs has no features of single instances.")
        train = load_train()
        train_rows, rows = _sample(train), _sample(exemplars)
        classes = exemplars.pool.classes
        clusters = rows if classes is None else classes[rows].astype(str)  # without classes, each is its own cluster
        if rate is None:
            _check_default(len(train_rows), len(exemplars), clusters)
        vector = verifier.backbone.vector_channels  # of each instance; its tokens may follow
        of_train = embed_pool(verifier.backbone, train.pool.take(train_rows), cache, progress)
        if features is None:
            of_exemplars = embed_pool(verifier.backbone, exemplars.pool.take(rows), cache, progress)
        else:
            of_exemplars = features[rows]
        requested = max(_DEFAULT_RATE, _lowest_rate(clusters)) if rate is None else rate
        return fit_out_of_distribution(of_train[:, :vector], of_exemplars[:, :vector], requested, clusters), []
    except MIVError as error:
        if rate is not None:
            raise
        notes = [f"No out-of-distribution check: {error}"]
        if verifier.unlike is not None:
            notes.append("The previous limit stays; --out-of-distribution 0 removes it.")
        return None, notes


def _check_default(train: int, exemplars: int, clusters: NDArray[Any]) -> None:
    """Raise an error if a limit without a requested rate would be unreliable, or flag too many ordinary inputs."""
    lowest = _lowest_rate(clusters)
    if train < _LEAST_TRAIN or exemplars < _LEAST_EXEMPLARS:
        raise MIVError(
            f"with {train:,} train instances and {exemplars:,} exemplars to calibrate on it would be unreliable. "
            f"Expected at least {_LEAST_TRAIN} and {_LEAST_EXEMPLARS}; to accept this, use --out-of-distribution with "
            "a rate, such as 0.05."
        )
    if lowest > _HIGHEST_RATE:
        raise MIVError(
            f"with {round(1 / lowest) - 1} classes or instances, up to {lowest:.0%} of ordinary inputs might be "
            f"beyond it. Expected at least {round(1 / _HIGHEST_RATE) - 1}; to accept this, use "
            f"--out-of-distribution {math.ceil(lowest * 1000) / 1000:g}."
        )


def _sample(exemplars: ExemplarSet) -> NDArray[np.int64]:
    """At most 2,000 of the instances that a set uses, at random, in increasing order."""
    used = exemplars.used
    if len(used) <= _MOST_INSTANCES:
        return used
    return np.sort(np.random.default_rng(0).choice(used, _MOST_INSTANCES, replace=False))


def limit_text(limit: OutOfDistributionLimit, has_classes: bool) -> str:
    """The limit in a sentence."""
    count, clusters = limit.measured["validation_instances"], limit.measured["clusters"]
    if has_classes:
        scope = f"for new classes ({count:,} instances of {clusters:,} classes)"
    else:
        scope = f"for new instances like these ({count:,} instances, each counted as independent)"
    return f"Out-of-distribution inputs are unsure, with a false-alarm rate of at most {limit.rate:.3g} {scope}."
