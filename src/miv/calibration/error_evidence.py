"""Confidence in an error rate when errors on exemplars of one cluster are correlated."""

from dataclasses import dataclass

import numpy as np

from miv.data import csr
from miv.io.checked_values import Floats, Integers

CONFIDENCE = 0.95

# Few errors show no correlation, because hardly two share a cluster; estimate it from at least this share of errors.
_LEAST_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class ErrorEvidence:
    r"""Evidence of ``n`` exemplars of one class, in ``G`` clusters, for their error rate.

    Clustered errors are weaker evidence than independent ones. With :math:`m_g` exemplars in cluster :math:`g`,
    :math:`c_g` of them wrong, and :math:`p = \sum_g c_g / n`, the variance of the rate is the design effect

    .. math:: d = \frac{\sum_g (c_g - p\,m_g)^2}{n\,p\,(1 - p)} \cdot \frac{G}{G - 1} \cdot \frac{n - 1}{n}

    times that of independent exemplars. So ``n`` count as :math:`n_\text{eff} = n / d`, reduced by a correction for
    few clusters, the square of :math:`t_{n-1} / t_{G-1}` (Korn and Graubard 1998). The effect at one threshold may be
    low by chance, so we take the highest over thresholds with up to twice as many errors, or up to a tenth of all.

    Args:
        exemplars: ``n``.
        clusters: ``G``.
        effect: ``(n + 1,)``, by number of errors; at least 1, and at most that of fully correlated clusters.
        words: the clusters in words.
    """

    exemplars: int
    clusters: int
    effect: Floats
    words: str = "queries"

    @classmethod
    def of(cls, score: Floats, cluster: Integers, words: str = "queries") -> "ErrorEvidence":
        """Go through all thresholds; exemplars with the highest ``score`` ``(n,)`` are wrong first."""
        n = len(score)
        _, place, sizes = np.unique(cluster, return_inverse=True, return_counts=True)
        order = np.argsort(-score, kind="stable")
        place = place[order]
        # The r-th error of a cluster raises the square of its number by 2r - 1.
        grouped = np.argsort(place, kind="stable")
        rank = np.empty(n)
        rank[grouped] = csr.places(csr.borders(sizes)) + 1
        squares = np.concatenate([[0.0], np.cumsum(2 * rank - 1)])  # (n + 1,) Σ c²
        mixed = np.concatenate([[0.0], np.cumsum(sizes[place])])  # Σ c m
        share = np.arange(n + 1) / n
        most = float((sizes**2).sum() / n)
        scatter = squares - 2 * share * mixed + share**2 * most * n
        of_independent = n * share * (1 - share)
        groups = len(sizes)
        with np.errstate(divide="ignore", invalid="ignore"):
            effect = scatter / of_independent * (groups / max(groups - 1, 1)) * ((n - 1) / n)
        effect[[0, -1]] = 1.0  # no errors, or only errors
        return cls(n, groups, np.clip(effect, 1.0, most), words)

    def effective(self, errors: Integers) -> Floats:
        """Return the effective number of independent exemplars after this many errors."""
        from scipy.special import stdtrit  # the quantile of scipy.stats.t, which takes a second to import

        n = self.exemplars
        reach = np.clip(2 * errors, int(np.ceil(_LEAST_SHARE * n)), n)
        few = stdtrit(max(n - 1, 1), CONFIDENCE) / stdtrit(max(self.clusters - 1, 1), CONFIDENCE)
        return np.asarray(n / np.maximum.accumulate(self.effect)[reach] * few**2)

    def upper_bound(self, errors: Integers) -> Floats:
        """Return an upper bound of the true rate after this many errors; it never falls with more errors."""
        effective = self.effective(errors)
        return upper_bound(errors * (effective / self.exemplars), effective)


def upper_bound(errors: Floats | Integers, exemplars: Floats | int) -> Floats:
    """Return the one-sided Clopper–Pearson bounds, also for fractional errors and exemplars."""
    from scipy.special import betaincinv  # the quantile of scipy.stats.beta, which takes a second to import

    right = np.maximum(exemplars - np.asarray(errors, np.float64), 0.0)
    return np.where(right > 0, betaincinv(errors + 1.0, np.where(right > 0, right, 1.0), CONFIDENCE), 1.0)
