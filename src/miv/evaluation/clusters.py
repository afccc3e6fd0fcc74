"""Clusters of exemplars whose errors may depend on each other, and what their errors say of new clusters."""

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from miv.data import csr
from miv.errors import MIVError, unknown_name
from miv.evaluation.predicting import Predictions
from miv.files.arrays import Floats, Integers, Labels, Mask

# Clusters, such as exemplars with a query of the same class.

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
    known = [name for name, (column, _) in _COLUMNS.items() if getattr(predictions, column) is not None]
    if by is None:
        columns = {name: getattr(predictions, _COLUMNS[name][0]) for name in _BY_DEFAULT if name in known}
        several = (name for name, column in columns.items() if len(set(column.tolist())) > 1)
        return next(several, "query" if "query" in known else None)
    if by not in get_args(ClusterBy):
        raise unknown_name("kind of clusters", by, get_args(ClusterBy))
    if by not in known:
        others = f"Expected one of {', '.join(known)}." if known else "They have no clusters at all."
        raise MIVError(f"Cannot cluster by {by}: the data do not have the {_COLUMNS[by][1]} of the queries. {others}")
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


# Folds that keep the exemplars of one cluster together, because their answers are correlated.


def folds_of(label: Labels, cluster: Integers, most: int, words: str = "queries") -> Integers:
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
    splitter = kind(min(most, *having), shuffle=True, random_state=0)
    for number, (_, outside) in enumerate(splitter.split(label, label, cluster if together else None)):
        fold[outside] = number
    return fold


# Confidence in an error rate when errors on exemplars of one cluster are correlated.

CONFIDENCE = 0.95

# Few errors show no correlation, because hardly two share a cluster; estimate it from at least this share of errors.
_LEAST_SHARE = 0.1
_LEAST_SURE = 0.6  # the correction for few clusters, which is undefined at 0.5


@dataclass(frozen=True, eq=False)
class ErrorEvidence:
    r"""Evidence of ``n`` exemplars of one class, in ``G`` clusters, for their error rate.

    Clustered errors are weaker evidence than independent ones. With :math:`m_g` exemplars in cluster :math:`g`,
    :math:`c_g` of them wrong, and :math:`p = \sum_g c_g / n`, the variance of the rate is the design effect

    .. math:: d = \frac{\sum_g (c_g - p\,m_g)^2}{n\,p\,(1 - p)} \cdot \frac{G}{G - 1} \cdot \frac{n - 1}{n}

    times that of independent exemplars. So ``n`` count as :math:`n_\text{eff} = n / d`, reduced by a correction for
    few clusters, the square of :math:`t_{n-1} / t_{G-1}` (Korn and Graubard 1998). The effect at one threshold may be
    low by chance, so we take the highest over thresholds with up to twice as many errors, or up to a tenth of all.
    """

    exemplars: int  # n
    clusters: int  # G
    effect: Floats  # (n + 1,) by number of errors; at least 1, and at most that of fully correlated clusters
    rates: Floats  # (n + 1,) the sum of the error rates of the clusters, by number of errors
    model: "ClusterModel | None" = None  # if there are clusters
    words: str = "queries"  # the clusters in words
    confidence: float = CONFIDENCE
    growth: float = 1.0  # as if there were so many times as many clusters like these

    @classmethod
    def of(cls, score: Floats, cluster: Integers, words: str = "queries") -> "ErrorEvidence":
        """Go through all thresholds; exemplars with the highest ``score`` ``(n,)`` are wrong first."""
        n = len(score)
        _, place, sizes = np.unique(cluster, return_inverse=True, return_counts=True)
        order = np.argsort(-score, kind="stable")
        of_errors = place[order]
        # The r-th error of a cluster raises the square of its number by 2r - 1.
        grouped = np.argsort(of_errors, kind="stable")
        rank = np.empty(n)
        rank[grouped] = csr.places(csr.borders(sizes)) + 1
        squares = np.append(0.0, np.cumsum(2 * rank - 1))  # (n + 1,) Σ c²
        mixed = np.append(0.0, np.cumsum(sizes[of_errors]))  # Σ c m
        share, groups, most = np.arange(n + 1) / n, len(sizes), float((sizes**2).sum() / n)
        scatter = squares - 2 * share * mixed + share**2 * most * n
        with np.errstate(divide="ignore", invalid="ignore"):
            effect = scatter / (n * share * (1 - share)) * (groups / max(groups - 1, 1)) * ((n - 1) / n)
        effect[[0, -1]] = 1.0  # no errors, or only errors
        rates = np.append(0.0, np.cumsum(1 / sizes[of_errors]))
        return cls(n, groups, np.clip(effect, 1.0, most), rates, ClusterModel.of(score, place, sizes), words)

    def at(self, confidence: float, growth: float) -> "ErrorEvidence":
        """The same evidence for another confidence, or of so many times as many clusters."""
        return replace(self, confidence=confidence, growth=growth)

    def effective(self, errors: Integers) -> Floats:
        """Return the effective number of independent exemplars after this many errors."""
        from scipy.special import stdtrit  # the quantile of scipy.stats.t, which takes a second to import

        n = self.exemplars
        reach = np.clip(2 * errors, int(np.ceil(_LEAST_SHARE * n)), n)
        sure = max(self.confidence, _LEAST_SURE)
        few = stdtrit(max(n - 1, 1), sure) / stdtrit(max(self.growth * self.clusters - 1, 1), sure)
        return np.asarray(self.growth * n / np.maximum.accumulate(self.effect)[reach] * few**2)

    def upper_bound(self, errors: Integers) -> Floats:
        """Return an upper bound of the true rate after this many errors; it never falls with more errors."""
        effective = self.effective(errors)
        return upper_bound(errors * (effective / self.exemplars), effective, self.confidence)

    def limit(self, rate: float) -> float:
        """Return the score that, by the model, at most this share of the exemplars of new clusters exceeds."""
        return -np.inf if self.model is None else self.model.limit(rate, self.confidence, self.growth)


def upper_bound(errors: Floats | Integers, exemplars: Floats | int, confidence: float = CONFIDENCE) -> Floats:
    """Return the one-sided Clopper–Pearson bounds, also for fractional errors and exemplars."""
    from scipy.special import betaincinv  # the quantile of scipy.stats.beta, which takes a second to import

    right = np.maximum(exemplars - np.asarray(errors, np.float64), 0.0)
    return np.where(right > 0, betaincinv(errors + 1.0, np.where(right > 0, right, 1.0), confidence), 1.0)


def rate_interval(wrong: Mask, cluster: Integers, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the two-sided interval of an error rate from errors ``(n,)`` in clusters, with the design effect.

    >>> [round(end, 3) for end in rate_interval(np.arange(20) < 2, np.arange(20))]  # Clopper and Pearson
    [0.012, 0.317]
    """
    from scipy.special import betaincinv, stdtrit

    n, errors = len(wrong), int(wrong.sum())
    sizes = np.unique(cluster, return_counts=True)[1]
    groups, rate, tail = len(sizes), errors / n, (1 - confidence) / 2
    effect = float((sizes**2).sum() / n)  # without errors, or with nothing else, it cannot be measured
    if 0 < errors < n and groups > 1:
        effect = float(ErrorEvidence.of(wrong.astype(np.float64), cluster).effect[errors])
    few = stdtrit(max(n - 1, 1), 1 - tail) / stdtrit(max(groups - 1, 1), 1 - tail)
    effective = n / effect * few**2
    right = effective * (1 - rate)
    low = 0.0 if errors == 0 else float(betaincinv(effective * rate, right + 1, tail))
    high = 1.0 if errors == n else float(betaincinv(effective * rate + 1, right, 1 - tail))
    return (low, high) if math.isfinite(low + high) else (0.0, 1.0)


# A limit for the scores of new clusters, if there are too few clusters to count errors.

_DRAWS = 4000
_LEAST_VARIANCE = 1e-12  # equal scores have no variance


@dataclass(frozen=True)
class ClusterModel:
    r"""Scores as a normal effect of the cluster plus a normal effect of the exemplar.

    With :math:`G` clusters of :math:`m_g` exemplars, mean scores :math:`\bar y_g` and their mean :math:`\bar y`, the
    generalised confidence limit of Krishnamoorthy and Mathew (2009) for the quantile :math:`1 - p` of a new exemplar of
    a new cluster is the quantile 0.95 of

    .. math:: \bar y + Z \sqrt{\tfrac{B}{G U}} + z_{1-p} \sqrt{\tfrac{B}{U} + (1 - \overline{1/m}) \tfrac{W}{V}}

    over draws of :math:`Z \sim N(0, 1)`, :math:`U \sim \chi^2_{G-1}` and :math:`V \sim \chi^2_{n-G}`, where
    :math:`B = \sum_g (\bar y_g - \bar y)^2` and :math:`W` is the sum of squares within clusters.
    """

    clusters: int  # G
    exemplars: int  # n
    mean: float  # of the means of the clusters
    between: float  # B
    within: float  # W
    inverse: float  # the mean of 1 / m

    @classmethod
    def of(cls, score: Floats, place: Integers, sizes: Integers) -> "ClusterModel | None":
        """Fit the model to scores ``(n,)`` of clusters of these sizes; ``None`` if all are in one, or each in its own.

        ``place`` ``(n,)`` is the number of the cluster.
        """
        if not 1 < len(sizes) < len(score):
            return None
        means = np.bincount(place, score) / sizes
        between, within = float(((means - means.mean()) ** 2).sum()), float(((score - means[place]) ** 2).sum())
        return cls(len(sizes), len(score), float(means.mean()), between, within, float((1 / sizes).mean()))

    def limit(self, rate: float, confidence: float = CONFIDENCE, growth: float = 1.0) -> float:
        """Return the score that, with this confidence, at most this share of new exemplars exceeds.

        ``growth`` is as if there were so many times as many clusters like these.
        """
        from scipy.special import ndtri

        random = np.random.default_rng(0)  # the same data give the same limit
        clusters, exemplars = round(growth * self.clusters), round(growth * self.exemplars)
        of_clusters = growth * self.between / random.chisquare(clusters - 1, _DRAWS)
        of_exemplars = growth * self.within / random.chisquare(exemplars - clusters, _DRAWS)
        variance = np.maximum(of_clusters + (1 - self.inverse) * of_exemplars, _LEAST_VARIANCE)
        middle = self.mean + random.normal(size=_DRAWS) * np.sqrt(of_clusters / clusters)
        return float(np.quantile(middle + ndtri(1 - rate) * np.sqrt(variance), confidence))
