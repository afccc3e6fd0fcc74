"""Whether vectors should be standardised: measured on the train bags."""

import numpy as np
from numpy.typing import NDArray

from miv.backbones.features import Features, unlike_scales
from miv.data import ExemplarSet
from miv.evaluation import auroc
from miv.evaluation.cosines import cosines, mean_direction
from miv.evaluation.influence import auroc_error
from miv.io.checked_values import Floats

UNLIKE_SCALES = 10.0  # embeddings and descriptors reach 1 to 5, tables of measurements 100 and more
FEW_CHANNELS = 64  # fewer are columns of a table
_MOST_EXEMPLARS = 1_500


def should_standardise(train: ExemplarSet) -> bool:
    """Whether vectors should be standardised, by how well the nearest target tells the train bags apart.

    Standardising helps tables of measurements, where a column in large units would dominate the others: vectors with
    few channels, or with channels of unlike scales, are standardised unless the train bags are then told apart worse by
    a standard error. It harms embeddings, whose channels say more the more they vary: other vectors are standardised
    only if that is better by a standard error, also than centring, which the start of a verifier can do by itself.
    """
    if train.label.min() == train.label.max():
        return False
    chosen = np.random.default_rng(0).permutation(len(train))[:_MOST_EXEMPLARS]
    some = train.subset(np.sort(chosen)).compact()  # the pool may be far larger than memory
    values = np.asarray(some.pool.values, np.float32)
    backbone = Features(values.shape[1], standardise=True)
    backbone.fit(values)
    standardised = cosines(some, backbone(backbone.prepare(values)).numpy()).nearest
    unchanged = cosines(some, values).nearest
    if values.shape[1] < FEW_CHANNELS or unlike_scales(values) > UNLIKE_SCALES:
        return not _is_clearly_better(some.label, unchanged, standardised)
    centred = cosines(some, values, mean_direction(some, values)).nearest
    return all(_is_clearly_better(some.label, standardised, rival) for rival in (unchanged, centred))


def _is_clearly_better(label: NDArray[np.int8], one: Floats, other: Floats) -> bool:
    return auroc(label, one) - auroc(label, other) > auroc_error(label, one, other)
