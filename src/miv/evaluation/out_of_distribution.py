"""Fit the limit for instances unlike the training data: a covariance from train, the limit from validation."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from numpy.typing import NDArray

from miv.data import ExemplarSet
from miv.errors import MIVError
from miv.files.json import Floats
from miv.verifier.out_of_distribution import UnlikeLimit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from miv.data import ExemplarSet
    from miv.runtime import Progress
    from miv.verifier.network import Verifier
    from miv.verifier.out_of_distribution import UnlikeLimit


MOST_INSTANCES = 2_000
"""Instances of each set to embed; more change little."""

_MOST_DIRECTIONS = 64
_MOST_NUMBERS = 75_000  # in the directions: a file of 300 kB
_RIDGE, _RIDGE_OF_FEW = 0.001, 0.01  # of the mean variance; the second for as many instances as channels


def chosen_instances(exemplars: ExemplarSet, seed: int = 0) -> NDArray[np.int64]:
    """Return at most ``MOST_INSTANCES`` of the instances that a set uses, at random, in increasing order."""
    used = exemplars.used
    if len(used) <= MOST_INSTANCES:
        return used
    return np.sort(np.random.default_rng(seed).choice(used, MOST_INSTANCES, replace=False))


def lowest_rate(clusters: NDArray[Any]) -> float:
    """The lowest false-alarm rate that instances of these clusters ``(n,)`` can promise for a new cluster."""
    return 1 / (len(np.unique(clusters)) + 1)


def clusters_of(exemplars: ExemplarSet, rows: NDArray[np.int64]) -> NDArray[Any]:
    """The class of each instance, if known; else every instance counts as a cluster of its own."""
    return rows if exemplars.pool.classes is None else exemplars.pool.classes[rows].astype(str)


def fit_unlike(
    train: NDArray[np.float32],
    validation: NDArray[np.float32],
    rate: float = 0.01,
    clusters: NDArray[Any] | None = None,
) -> UnlikeLimit:
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
    if not 0 < rate < 1:
        raise MIVError(f"The false-alarm rate is {rate:g}. Expected a number between 0 and 1, such as 0.01.")
    if rate < lowest_rate(clusters) - 1e-12:
        raise MIVError(
            f"A false-alarm rate of {rate:g} cannot be promised with {len(np.unique(clusters))} classes or instances. "
            f"Expected at least {math.ceil(1 / rate - 1e-9) - 1:,}. Use more data, or a rate of "
            f"{lowest_rate(clusters):.2g} or more."
        )
    if len(train) < 2:
        raise MIVError(f"Train has {len(train)} instances. Expected at least 2.")
    unset = _covariance(train, rate)
    distance = unset.distance(validation)
    limit = _limit(distance, clusters, rate)
    measured = {
        "train_instances": len(train),
        "validation_instances": len(validation),
        "clusters": len(np.unique(clusters)),
        "beyond": float((distance > limit).mean()),
    }
    return replace(unset, limit=limit, measured=measured)


def _covariance(train: NDArray[np.float32], rate: float) -> UnlikeLimit:
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
    return UnlikeLimit(mean.astype(np.float32), rows[:count].astype(np.float32), variance + ridge, rest, 0.0, rate)


def _limit(distance: Floats, clusters: NDArray[Any], rate: float) -> float:
    _, number, size = np.unique(clusters, return_inverse=True, return_counts=True)
    order = np.argsort(distance, kind="stable")[::-1]
    # Beyond a limit at the i-th largest distance are those before it; equal distances are on the same side.
    lost = np.append(0.0, np.cumsum(1 / size[number[order]]))[:-1]
    allowed = (1 + lost) / (1 + len(size)) <= rate + 1e-12
    return float(distance[order][allowed][-1])


# The part of ``miv calibrate`` that sets the limit for instances unlike the training data.

DEFAULT_RATE = 0.01
_HIGHEST_RATE = 0.05  # a default limit with more false alarms does more harm than good
_LEAST_TRAIN = 200  # distinct train instances of a default limit; a covariance of fewer calls ordinary inputs unlike
_LEAST_EXEMPLARS = 100  # and exemplars to calibrate on: instances of one bag are often alike


def unlike_limit(
    verifier: "Verifier",
    data: Path,
    exemplars: "ExemplarSet",
    features: "NDArray[np.float32] | None",
    rate: float | None,
    cache: Path,
    progress: "Progress",
) -> "UnlikeLimit | None":
    """Fit the limit on the train split of the data and on ``exemplars``.

    If no ``rate`` was requested, it is 0.01, or the lowest that the data can promise. If that is above 0.05, or the
    data are few, there is no limit, and a note. A requested rate that is not possible is an error. With 0 there is no
    limit.
    """
    from miv.backbones.cache import embed_pool
    from miv.data import load_split
    from miv.data.folder import is_set
    from miv.evaluation.out_of_distribution import chosen_instances, clusters_of, fit_unlike, lowest_rate

    if rate == 0:
        return None
    try:
        if is_set(data):
            raise MIVError(f"{data} is a single set, without the train split that the limit is fitted on.")
        train = load_split(data, "train")
        rows, own = chosen_instances(train), chosen_instances(exemplars)
        if rate is None and (len(rows) < _LEAST_TRAIN or len(exemplars) < _LEAST_EXEMPLARS):
            raise MIVError(
                f"with {len(rows):,} train instances and {len(exemplars):,} exemplars to calibrate on it would be "
                f"unreliable. Expected at least {_LEAST_TRAIN} and {_LEAST_EXEMPLARS}; to accept this, use --unlike "
                "with a rate, such as 0.05."
            )
        clusters = clusters_of(exemplars, own)
        wanted = max(DEFAULT_RATE, lowest_rate(clusters)) if rate is None else rate
        if rate is None and wanted > _HIGHEST_RATE:
            raise MIVError(
                f"with {round(1 / wanted) - 1} classes or instances, up to {wanted:.0%} of ordinary inputs might be "
                f"beyond it. Expected at least {round(1 / _HIGHEST_RATE) - 1}; to accept this, use "
                f"--unlike {math.ceil(wanted * 1000) / 1000:g}."
            )
        known = embed_pool(verifier.backbone, train.pool.take(rows), cache, progress)
        if features is None:
            found = embed_pool(verifier.backbone, exemplars.pool.take(own), cache, progress)
        else:
            found = features[own]
        vector = verifier.backbone.vector_channels  # of each instance; its tokens may follow
        return fit_unlike(known[:, :vector], found[:, :vector], wanted, clusters)
    except MIVError as error:
        if rate is not None:
            raise
        typer.echo(f"No limit for inputs unlike the training data: {error}", err=True)
        if verifier.unlike is not None:
            typer.echo("The limit from before stays; --unlike 0 removes it.", err=True)
        return None


def replace_limit(folder: Path, limit: "UnlikeLimit | None", rate: float | None) -> None:
    """Save the limit in the verifier's folder; with the rate 0, remove one from before."""
    from miv.verifier.out_of_distribution import UNLIKE_NAME

    if limit is not None:
        limit.save(folder)
    elif rate == 0:
        (folder / UNLIKE_NAME).unlink(missing_ok=True)


def limit_words(limit: "UnlikeLimit", classes: bool) -> str:
    """The limit in a sentence; ``classes``: whether the classes of the instances are known."""
    count, clusters = limit.measured["validation_instances"], limit.measured["clusters"]
    if classes:
        promised = f"for new classes ({count:,} instances of {clusters:,} classes)"
    else:
        promised = f"for new instances like these ({count:,} instances, each counted as independent)"
    return f"Inputs unlike the training data: unsure, with a false-alarm rate of at most {limit.rate:.3g} {promised}."
