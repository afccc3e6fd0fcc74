"""How sure an error rate is, where exemplars of one query are wrong together."""

from dataclasses import dataclass

import numpy as np

from miv.data import csr
from miv.io.checked_values import Floats, Integers

CONFIDENCE = 0.95

# Few errors show no correlation, as hardly two are of one query; it is looked for among as many errors as this share.
_LEAST_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class ErrorEvidence:
    r"""What ``n`` exemplars of one class, of ``G`` clusters, say about the rate of their errors.

    Errors that come in clusters say less than independent ones. With :math:`m_g` exemplars in cluster :math:`g`, of
    which :math:`c_g` are wrong, and :math:`p = \sum_g c_g / n`, the rate varies by the design effect

    .. math:: d = \frac{\sum_g (c_g - p\,m_g)^2}{n\,p\,(1 - p)} \cdot \frac{G}{G - 1} \cdot \frac{n - 1}{n}

    times as much as that of independent exemplars. So ``n`` count as :math:`n_\text{eff} = n / d`, less a correction
    for few clusters, the square of :math:`t_{n-1} / t_{G-1}` (Korn and Graubard 1998). An effect seen at one threshold
    may be low by chance: the highest is taken of those with up to twice as many errors, or up to a tenth of all.

    Args:
        exemplars: ``n``.
        clusters: ``G``.
        effect: ``(n + 1,)``, by the number of errors; not below 1, nor above that of clusters that are all alike.
    """

    exemplars: int
    clusters: int
    effect: Floats

    @classmethod
    def of(cls, score: Floats, cluster: Integers) -> "ErrorEvidence":
        """Look at all thresholds, where the exemplars with the highest ``score`` ``(n,)`` are wrong first."""
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
        effect[[0, -1]] = 1.0  # no error, or nothing else
        return cls(n, groups, np.clip(effect, 1.0, most))

    def effective(self, errors: Integers) -> Floats:
        """Return as how many independent exemplars these count, after so many errors."""
        from scipy.special import stdtrit  # the quantile of scipy.stats.t, which takes a second to import

        n = self.exemplars
        reach = np.clip(2 * errors, int(np.ceil(_LEAST_SHARE * n)), n)
        few = stdtrit(max(n - 1, 1), CONFIDENCE) / stdtrit(max(self.clusters - 1, 1), CONFIDENCE)
        return np.asarray(n / np.maximum.accumulate(self.effect)[reach] * few**2)

    def upper_bound(self, errors: Integers) -> Floats:
        """Return how high the true rate may be after so many errors; it never falls as they grow."""
        effective = self.effective(errors)
        return upper_bound(errors * (effective / self.exemplars), effective)


def upper_bound(errors: Floats | Integers, exemplars: Floats | int) -> Floats:
    """Return the one-sided Clopper–Pearson bounds, also for parts of errors and of exemplars."""
    from scipy.special import betaincinv  # the quantile of scipy.stats.beta, which takes a second to import

    right = np.maximum(exemplars - np.asarray(errors, np.float64), 0.0)
    return np.where(right > 0, betaincinv(errors + 1.0, np.where(right > 0, right, 1.0), CONFIDENCE), 1.0)
