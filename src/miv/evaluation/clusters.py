"""Clusters: exemplars whose errors may depend on each other, such as those with a query of the same class."""

from collections.abc import Iterator
from typing import Literal, get_args

import numpy as np

from miv.errors import MIVError, unknown_name
from miv.evaluation.predictions import Predictions
from miv.files.arrays import Integers, Labels

ClusterBy = Literal["class", "query_id", "query", "group"]

# The column of the predictions, and the clusters in words.
_COLUMNS: dict[str, tuple[str, str]] = {
    "class": ("query_class", "classes"),
    "query_id": ("query_id", "query ids"),
    "query": ("query", "queries"),
    "group": ("group", "groups"),
}
_BY_DEFAULT = ("class", "query_id", "query")  # the first known one; not groups, which may divide results by anything


def cluster_words(by: str | None) -> str:
    """The clusters in the plural.

    >>> cluster_words("class"), cluster_words(None)
    ('classes', 'exemplars')
    """
    return "exemplars" if by is None else _COLUMNS[by][1]


def chosen_clusters(predictions: Predictions, by: str | None = None) -> str | None:
    """Return the kind of clusters to use: the given one, or the widest that the predictions know.

    That is the class of the query if there are several classes, else its id, else the query; ``None`` if none of them
    is known, so that exemplars count as independent.
    """
    if by is None:
        known = {name: getattr(predictions, _COLUMNS[name][0]) for name in _BY_DEFAULT}
        several = (name for name, column in known.items() if column is not None and len(set(column.tolist())) > 1)
        return next(several, "query" if predictions.query is not None else None)
    if by not in get_args(ClusterBy):
        raise unknown_name("kind of clusters", by, get_args(ClusterBy))
    column, words = _COLUMNS[by]
    if getattr(predictions, column) is None:
        others = [name for name, (other, _) in _COLUMNS.items() if getattr(predictions, other) is not None]
        raise MIVError(
            f"Cannot cluster by {by}: the data do not have the {words} of the queries. "
            + (f"Expected one of {', '.join(others)}." if others else "They have no clusters at all.")
        )
    return by


def clusters_of(predictions: Predictions, by: str | None = None) -> Integers:
    """Return ``(E,)`` numbers from 0 to ``G - 1``, the same for exemplars of one cluster; see ``chosen_clusters``.

    >>> answers = Predictions([2.0, -1.0, 1.0], [1, 0, 1], [0, 1, 2, 3], query_class=["ann", "bo", "ann"])
    >>> clusters_of(answers).tolist()
    [0, 1, 0]
    """
    chosen = chosen_clusters(predictions, by)
    if chosen is None:
        return np.arange(len(predictions))
    column = np.asarray(getattr(predictions, _COLUMNS[chosen][0]))
    return np.unique(column.astype(str) if column.dtype == object else column, return_inverse=True)[1]


# Folds and resamples that keep the exemplars of one cluster together, because their answers are correlated.

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
    kind = StratifiedGroupKFold if together else StratifiedKFold  # the same for clusters of one, and then faster
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
