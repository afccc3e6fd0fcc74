"""A limit for the scores of new clusters, if there are too few clusters to count errors."""

from dataclasses import dataclass, replace

import numpy as np

from miv.calibration.error_evidence import CONFIDENCE
from miv.io.checked_values import Floats, Integers

_DRAWS = 4000
_LEAST_VARIANCE = 1e-12  # equal scores have no variance


@dataclass(frozen=True, eq=False)
class ClusterModel:
    r"""Scores as a normal effect of the cluster plus a normal effect of the exemplar.

    With :math:`G` clusters of :math:`m_g` exemplars, mean scores :math:`\bar y_g` and their mean :math:`\bar y`, the
    generalised confidence limit of Krishnamoorthy and Mathew (2009) for the quantile :math:`1 - p` of a new exemplar of
    a new cluster is the quantile 0.95 of

    .. math:: \bar y + Z \sqrt{\tfrac{B}{G U}} + z_{1-p} \sqrt{\tfrac{B}{U} + (1 - \overline{1/m}) \tfrac{W}{V}}

    over draws of :math:`Z \sim N(0, 1)`, :math:`U \sim \chi^2_{G-1}` and :math:`V \sim \chi^2_{n-G}`, where
    :math:`B = \sum_g (\bar y_g - \bar y)^2` and :math:`W` is the sum of squares within clusters.

    Args:
        numbers: ``(G,)`` the numbers of the clusters.
        sizes: ``(G,)``, :math:`m_g`.
        means: ``(G,)``, :math:`\bar y_g`.
        squares: ``(G,)`` sums of squares within each cluster.
        times: ``(..., G)`` how often each cluster counts: once, or as often as it was drawn in each resample.
    """

    numbers: Integers
    sizes: Integers
    means: Floats
    squares: Floats
    times: Integers

    @classmethod
    def of(cls, score: Floats, cluster: Integers) -> "ClusterModel | None":
        """Fit the model to scores ``(n,)``; ``None`` if exemplars are their own clusters, or all are in one."""
        numbers, place, sizes = np.unique(cluster, return_inverse=True, return_counts=True)
        if not 1 < len(sizes) < len(score):
            return None
        means = np.bincount(place, score) / sizes
        squares = np.asarray(np.bincount(place, (score - means[place]) ** 2), np.float64)
        return cls(numbers, sizes, means, squares, np.ones(len(sizes), np.int64))

    def resampled(self, drawn: Integers) -> "ClusterModel":
        """Refit the model to resamples, in which each of all clusters was drawn ``(R, clusters)`` times."""
        return replace(self, times=drawn[:, self.numbers])

    def limit(self, rate: float) -> Floats:
        """Return the scores ``(...)`` that, with 95 % confidence, at most this share of new exemplars exceeds."""
        clusters = self.times.sum(-1)
        mean = self.times @ self.means / clusters
        between = (self.times * (self.means - mean[..., None]) ** 2).sum(-1)
        share = self.times @ (1 / self.sizes) / clusters
        each = np.vectorize(_limit, otypes=[np.float64])
        return np.asarray(
            each(rate, clusters, self.times @ self.sizes, mean, between, self.times @ self.squares, share)
        )


def _limit(
    rate: float, clusters: int, exemplars: int, mean: float, between: float, within: float, share: float
) -> float:
    from scipy.special import ndtri

    random = np.random.default_rng(0)  # the same data give the same limit
    # A resample may hold one cluster only, or one exemplar of each: then the sum of squares is 0 as well.
    of_clusters = between / random.chisquare(max(clusters - 1, 1), _DRAWS)
    of_exemplars = within / random.chisquare(max(exemplars - clusters, 1), _DRAWS)
    variance = np.maximum(of_clusters + (1 - share) * of_exemplars, _LEAST_VARIANCE)
    middle = mean + random.normal(size=_DRAWS) * np.sqrt(of_clusters / clusters)
    return float(np.quantile(middle + ndtri(1 - rate) * np.sqrt(variance), CONFIDENCE))
