"""The variance of a bag in one pass, which cap_vema needs before its second."""

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from miv.io.checked_values import Floats
from miv.kept.similarity_of_query import Rows
from miv.poolings import VarianceExcitedPooling
from miv.runtime.evaluation_mode import evaluating

if TYPE_CHECKING:
    from miv.models.verifier import Verifier


def needs_variance(verifier: "Verifier") -> bool:
    """Whether a bag must be read twice: for its variance, then for everything else."""
    return isinstance(verifier.pooling, VarianceExcitedPooling)


class BagVariance:
    r"""Count, mean and squared deviations of the normed features of a part of a bag.

    Parts are joined by the formula of Chan, Golub and LeVeque (1979), which loses no digits to a large mean:

    .. math:: M = M_a + M_b + \delta^2 \, \frac{n_a n_b}{n_a + n_b}, \qquad \delta = \mu_b - \mu_a

    Args:
        verifier: the verifier whose pooling is VEMA.
    """

    def __init__(self, verifier: "Verifier") -> None:
        self.verifier = verifier
        self.count = 0
        self.mean: Floats = np.zeros(verifier.pooling.channels)
        self._deviations: Floats = np.zeros(verifier.pooling.channels)

    def update(self, features: Rows) -> None:
        """Add the features ``(N, C)`` of targets."""
        if not len(features):
            return
        rows = torch.from_numpy(np.require(features, np.float32, requirements=["C", "W"]))
        with torch.inference_mode(), evaluating(self.verifier):
            normed = self.verifier.pooling.norm(rows.to(self.verifier.device, self.verifier.dtype)).double()
            mean = normed.mean(dim=0)
            deviations = (normed - mean).square().sum(dim=0)
        self._join(len(features), mean.cpu().numpy(), deviations.cpu().numpy())

    def merge(self, other: "BagVariance") -> None:
        """Add another part of the bag."""
        self._join(other.count, other.mean, other._deviations)

    def finish(self) -> Floats:
        """The population variance ``(C,)``."""
        return np.asarray(self._deviations / max(self.count, 1))

    def _join(self, count: int, mean: NDArray[np.float64], deviations: NDArray[np.float64]) -> None:
        total = self.count + count
        if not total:
            return
        gap = mean - self.mean
        self._deviations = self._deviations + deviations + gap**2 * (self.count * count / total)
        self.mean = self.mean + gap * (count / total)
        self.count = total
