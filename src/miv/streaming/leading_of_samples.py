"""The targets with the largest shares among those that the heads have read."""

import numpy as np

from miv.io.checked_values import Floats, Integers
from miv.streaming.head_sample import HeadSample

_CANDIDATES = 64  # of each head, and at least four times as many as are asked for


def leading_of_samples(samples: list[HeadSample], top: int) -> tuple[Integers, Floats]:
    """Places and mean shares ``(k,)`` of the leading targets, largest first.

    The targets that lead in one head are compared in all of them.

    Args:
        samples: what each head has read.
        top: number of targets.
    """
    if not top:
        return np.zeros(0, np.int64), np.zeros(0)
    wanted = max(_CANDIDATES, 4 * top)
    found = []
    for sample in samples:
        at = sample.at
        if wanted < len(at):
            at = at[np.argpartition(-sample.weights, wanted - 1)[:wanted]]
        found.append(sample.cells.order[at])
    places = np.unique(np.concatenate(found)).astype(np.int64)
    share = np.zeros(len(places))
    for sample in samples:
        keys = sample.cells.rows(sample.cells.at[places])
        share += np.exp(np.minimum(sample.query.scores(keys) - sample.log_sum, 0))  # the sum is an estimate
    share /= len(samples)
    best = np.lexsort((places, -share))[:top]
    return places[best], share[best]
