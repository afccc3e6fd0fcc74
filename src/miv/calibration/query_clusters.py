"""Folds and resamples that keep the exemplars of one cluster together, because their answers are correlated."""

from collections.abc import Iterator

import numpy as np

from miv.errors import MIVError
from miv.evaluation.clusters import clusters_of
from miv.io.checked_values import Integers, Labels

__all__ = ["clusters_of", "draws_of", "folds_of"]

_DRAWN_TOGETHER = 100  # rounds per batch: fast, with little memory


def folds_of(label: Labels, cluster: Integers, most: int, seed: int, words: str = "queries") -> Integers:
    """Return the fold ``(E,)`` of each exemplar: a cluster is in one fold, and folds are stratified by label.

    There are ``most`` folds, or fewer if a label has fewer clusters. ``words`` names the clusters in errors.
    """
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    having = [len(np.unique(cluster[label == value])) for value in (0, 1)]
    if min(having) < 2:
        of = "" if len(np.unique(cluster)) == len(label) else f" and come from {having[1]} {words}"
        raise MIVError(
            f"Of {len(label)} exemplars {int(label.sum())} are positive{of}. Expected at least two positives and two "
            f"negatives{f', each of two {words},' if of else ''} to calibrate on. Use validation data with more "
            f"{'positives' if having[1] < 2 else 'negatives'}."
        )
    fold = np.zeros(len(label), np.int64)
    together = len(np.unique(cluster)) < len(label)
    kind = (
        StratifiedGroupKFold if together else StratifiedKFold
    )  # equivalent for clusters of one, where the second is faster
    splitter = kind(min(most, *having), shuffle=True, random_state=seed)
    for number, (_, outside) in enumerate(splitter.split(label, label, cluster if together else None)):
        fold[outside] = number
    return fold


def draws_of(label: Labels, cluster: Integers, rounds: int, seed: int) -> Iterator[Integers]:
    """Resample clusters with replacement: yield batches ``(R, G)`` of how often each was drawn.

    A round without positives or without negatives has no error rates, and is drawn again.
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
