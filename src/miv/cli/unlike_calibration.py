"""The part of ``miv calibrate`` that sets the limit for instances unlike the training data."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import typer

from miv.errors import MIVError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from miv.data import ExemplarSet
    from miv.decisions.unlike import UnlikeLimit
    from miv.models.verifier import Verifier
    from miv.runtime.progress import Progress

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
    from miv.backbones.feature_cache import embed_pool
    from miv.calibration.unlike_fit import chosen_instances, clusters_of, fit_unlike, lowest_rate
    from miv.data import load_split
    from miv.data.set_folder import is_set

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
    from miv.decisions.unlike import UNLIKE_NAME

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
