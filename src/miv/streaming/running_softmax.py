"""A softmax whose sums grow part by part, without overflow."""

import numpy as np
from numpy.typing import NDArray

from miv.io.checked_values import Floats


class RunningSums:
    r"""Sums of :math:`e^{s_n}` and of :math:`e^{s_n} x_n` over the targets so far, relative to the greatest score.

    .. math:: Z = \sum_n e^{s_n - m}, \qquad X = \sum_n e^{s_n - m} x_n, \qquad m = \max_n s_n

    When a greater score comes, all sums are multiplied by :math:`e^{m - m'}`.

    Args:
        shape: of the scores of one target, ``(h, R)``.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.maximum: Floats = np.full(shape, -np.inf)
        self.total: Floats = np.zeros(shape)

    def weights(self, scores: NDArray[np.float32]) -> tuple[NDArray[np.float32], Floats]:
        """Overwrite scores ``(h, R, N)`` with weights; return them and the factor for the earlier sums."""
        maximum = np.maximum(self.maximum, scores.max(axis=-1))
        with np.errstate(invalid="ignore"):
            factor = np.exp(self.maximum - maximum)
        scores -= maximum.astype(scores.dtype)[..., None]
        np.exp(scores, out=scores)
        self.maximum = maximum
        self.total = self.total * factor + scores.sum(axis=-1)
        return scores, factor

    def merge(self, other: "RunningSums") -> tuple[Floats, Floats]:
        """Add the sums of another part; return the factors for what was summed here and there."""
        maximum = np.maximum(self.maximum, other.maximum)
        with np.errstate(invalid="ignore"):
            factors = (np.exp(self.maximum - maximum), np.exp(other.maximum - maximum))
        here, there = (np.where(np.isneginf(maximum), 0.0, factor) for factor in factors)
        self.total = self.total * here + other.total * there
        self.maximum = maximum
        return here, there

    @property
    def log_sums(self) -> Floats:
        """The logarithms ``(h, R)`` of the sums of all exponentials."""
        return np.asarray(self.maximum + np.log(self.total))
