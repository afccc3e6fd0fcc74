"""Whether vectors should be standardised: measured on the train bags."""

import numpy as np
from numpy.typing import NDArray

from miv.backbones.features import Features, unlike_scales
from miv.data import ExemplarSet
from miv.evaluation import auroc
from miv.evaluation.cosines import cosines, unit_rows
from miv.evaluation.influence import auroc_error
from miv.io.checked_values import Floats

UNLIKE_SCALES = 10.0  # embeddings and descriptors reach 1 to 5, tables of measurements 100 and more
_MOST_EXEMPLARS = 1_500


def gains_by_standardising(train: ExemplarSet) -> bool:
    """Whether the nearest target tells the train bags apart better, by a standard error, if vectors are standardised.

    Standardising helps tables of measurements, where a column in large units would dominate the others. It harms
    embeddings, whose channels say more the more they vary. So vectors with channels of like scales are also compared
    with centred ones, because the start of a verifier can centre by itself.
    """
    if train.label.min() == train.label.max():
        return False
    chosen = np.random.default_rng(0).permutation(len(train))[:_MOST_EXEMPLARS]
    some = train.subset(np.sort(chosen)).compact()  # the pool may be far larger than memory
    values = np.asarray(some.pool.values, np.float32)
    backbone = Features(values.shape[1], standardise=True)
    backbone.fit(values)
    standardised = backbone(backbone.prepare(values)).numpy()
    unit = unit_rows(values, np.arange(len(values)))
    centred = unit - unit.mean(axis=0)
    rivals = [values] if unlike_scales(values) > UNLIKE_SCALES else [values, centred]
    now = cosines(some, standardised).nearest
    return all(_is_clearly_better(some.label, now, cosines(some, rival).nearest) for rival in rivals)


def _is_clearly_better(label: NDArray[np.int8], one: Floats, other: Floats) -> bool:
    return auroc(label, one) - auroc(label, other) > auroc_error(label, one, other)
