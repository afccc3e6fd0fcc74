"""Exemplars of one query are answered alike: folds and draws that keep them together."""

from collections.abc import Iterator

import numpy as np

from miv.errors import MIVError
from miv.evaluation import Predictions
from miv.io.checked_values import Integers, Labels

_DRAWN_TOGETHER = 100  # rounds in one go: quick, and small in memory


def clusters_of(predictions: Predictions) -> Integers:
    """Return ``(E,)`` numbers from 0 to ``G - 1``, one for each distinct query.

    Answers that do not say what was asked about are taken as independent: each exemplar is a cluster of its own.
    """
    if predictions.query is None:
        return np.arange(len(predictions))
    return np.unique(predictions.query, return_inverse=True)[1]


def folds_of(label: Labels, cluster: Integers, most: int, seed: int) -> Integers:
    """Return ``(E,)`` the fold of each exemplar: no cluster is in two, and each has its share of positives.

    There are ``most`` folds, or fewer where a class has fewer clusters.
    """
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    having = [len(np.unique(cluster[label == value])) for value in (0, 1)]
    if min(having) < 2:
        of = "" if len(np.unique(cluster)) == len(label) else f" and come from {having[1]} queries"
        raise MIVError(
            f"Of {len(label)} exemplars {int(label.sum())} are positive{of}. Expected at least two positives and two "
            f"negatives{', each of two queries,' if of else ''} to calibrate on; give a larger validation set."
        )
    fold = np.zeros(len(label), np.int64)
    together = len(np.unique(cluster)) < len(label)
    kind = StratifiedGroupKFold if together else StratifiedKFold  # alike for clusters of one, where the second is quick
    splitter = kind(min(most, *having), shuffle=True, random_state=seed)
    for number, (_, outside) in enumerate(splitter.split(label, label, cluster if together else None)):
        fold[outside] = number
    return fold


def draws_of(label: Labels, cluster: Integers, rounds: int, seed: int) -> Iterator[Integers]:
    """Draw clusters anew with replacement: in batches ``(R, G)``, how often each was drawn.

    A round without any positive or without any negative has no error rates, and is drawn again.
    """
    random = np.random.default_rng(seed)
    clusters = int(cluster.max()) + 1
    of_class = np.stack([np.bincount(cluster[label == value], minlength=clusters) for value in (0, 1)], 1)  # (G, 2)
    for start in range(0, rounds, _DRAWN_TOGETHER):
        drawn = np.zeros((min(_DRAWN_TOGETHER, rounds - start), clusters), np.int64)
        lacking = np.ones(len(drawn), bool)
        while lacking.any():
            drawn[lacking] = random.multinomial(clusters, np.full(clusters, 1 / clusters), int(lacking.sum()))
            lacking = (drawn @ of_class == 0).any(1)
        yield drawn
