"""Every threshold that makes a difference, with the errors it makes; and the same for resampled exemplars."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from miv.errors import MivError
from miv.values import Floats

Counts = NDArray[np.int64]
_CURVES_TOGETHER = 100  # resampled in one go: quick, and small in memory


@dataclass(frozen=True, eq=False)
class ErrorCurve:
    """The errors at ``J`` cuts, from accepting everything to accepting nothing.

    Args:
        cuts: ``(J,)`` thresholds, rising; an exemplar is accepted where its probability is at least the cut.
        false_accepts: ``(..., J)`` negatives that are accepted; falls along the cuts.
        false_rejects: ``(..., J)`` positives that are rejected; rises along the cuts.
        negatives: how many there are.
        positives: how many there are.

    >>> curve = ErrorCurve.of(np.array([0.2, 0.4, 0.6, 0.8]), np.array([0, 1, 0, 1]))
    >>> curve.cuts.round(2).tolist()
    [0.2, 0.3, 0.5, 0.7, 0.9]
    >>> curve.false_accepts.tolist(), curve.false_rejects.tolist()
    ([2, 1, 1, 0, 0], [0, 0, 1, 1, 2])
    """

    cuts: Floats
    false_accepts: Counts
    false_rejects: Counts
    negatives: int
    positives: int

    @classmethod
    def of(cls, probability: Floats, label: NDArray[np.int8]) -> "ErrorCurve":
        """Count the errors of every threshold that tells two of the probabilities ``(E,)`` apart."""
        levels, place = np.unique(probability, return_inverse=True)
        negatives = np.bincount(place[label == 0], minlength=len(levels))
        positives = np.bincount(place[label == 1], minlength=len(levels))
        if not negatives.any() or not positives.any():
            raise MivError(f"All {len(label)} labels are the same. A threshold needs positives and negatives.")
        return cls._counted(_cuts(levels), negatives, positives)

    @classmethod
    def _counted(cls, cuts: Floats, negatives: Counts, positives: Counts) -> "ErrorCurve":
        """``negatives`` and ``positives`` are ``(..., J - 1)``, how many have each of the distinct probabilities."""
        none = np.zeros((*negatives.shape[:-1], 1), np.int64)
        below = np.concatenate([none, negatives.cumsum(-1)], -1)  # (..., J) negatives that are rejected
        false_rejects = np.concatenate([none, positives.cumsum(-1)], -1)
        total = int(below.flat[-1])
        return cls(cuts, total - below, false_rejects, total, int(false_rejects.flat[-1]))

    @property
    def false_accept_rate(self) -> Floats:
        """``(..., J)``."""
        return np.asarray(self.false_accepts / self.negatives)

    @property
    def false_reject_rate(self) -> Floats:
        """``(..., J)``."""
        return np.asarray(self.false_rejects / self.positives)

    def resampled(self, rounds: int, seed: int) -> "Iterator[ErrorCurve]":
        """Draw positives and negatives anew with replacement, and give the curves ``(R, J)`` in batches."""
        random = np.random.default_rng(seed)
        negatives, positives = -np.diff(self.false_accepts), np.diff(self.false_rejects)
        for start in range(0, rounds, _CURVES_TOGETHER):
            size = min(_CURVES_TOGETHER, rounds - start)
            yield self._counted(
                self.cuts,
                random.multinomial(self.negatives, negatives / self.negatives, size),
                random.multinomial(self.positives, positives / self.positives, size),
            )


def _cuts(levels: Floats) -> Floats:
    """Half-way between neighbours; the first accepts all, the last nothing."""
    edges = np.append(levels, max(1.0, np.nextafter(levels[-1], 2.0)))  # (J,) the least that each cut accepts
    middle = (levels + edges[1:]) / 2
    middle = np.where(middle > levels, middle, edges[1:])  # between two neighbouring numbers there is none
    return np.concatenate([levels[:1], middle])
