"""A limit for the scores of new clusters, if there are too few clusters to count errors."""

from dataclasses import dataclass

import numpy as np

from miv.calibration.error_evidence import CONFIDENCE
from miv.io.checked_values import Floats, Integers

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

    Args:
        clusters: ``G``.
        exemplars: ``n``.
        mean: mean of the cluster means.
        between: ``B``.
        within: ``W``.
        share: the mean of ``1 / m_g``.
    """

    clusters: int
    exemplars: int
    mean: float
    between: float
    within: float
    share: float

    @classmethod
    def of(cls, score: Floats, cluster: Integers) -> "ClusterModel | None":
        """Fit the model to scores ``(n,)``; ``None`` if exemplars are their own clusters, or all are in one."""
        _, place, sizes = np.unique(cluster, return_inverse=True, return_counts=True)
        if not 1 < len(sizes) < len(score):
            return None
        means = np.bincount(place, score) / sizes
        within = float(((score - means[place]) ** 2).sum())
        between = float(((means - means.mean()) ** 2).sum())
        return cls(len(sizes), len(score), float(means.mean()), between, within, float((1 / sizes).mean()))

    def limit(self, rate: float) -> float:
        """Return a score that, with 95 % confidence, at most this share of new exemplars exceeds."""
        from scipy.special import ndtri

        random = np.random.default_rng(0)  # the same data give the same limit
        of_clusters = self.between / random.chisquare(self.clusters - 1, _DRAWS)
        of_exemplars = self.within / random.chisquare(self.exemplars - self.clusters, _DRAWS)
        variance = np.maximum(of_clusters + (1 - self.share) * of_exemplars, _LEAST_VARIANCE)
        middle = self.mean + random.normal(size=_DRAWS) * np.sqrt(of_clusters / self.clusters)
        return float(np.quantile(middle + ndtri(1 - rate) * np.sqrt(variance), CONFIDENCE))
