"""The variance of a bag in one pass, which cap_vema needs before its second."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from miv.io.checked_values import Floats
from miv.kept.kept_form import as_tensor
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
        with torch.inference_mode(), evaluating(self.verifier):
            normed = self.verifier.pooling.norm(as_tensor(self.verifier, features)).double()
            mean = normed.mean(dim=0)
            deviations = (normed - mean).square().sum(dim=0)
        self._join(len(features), mean.cpu().numpy(), deviations.cpu().numpy())

    def merge(self, other: "BagVariance") -> None:
        """Add another part of the bag."""
        self._join(other.count, other.mean, other._deviations)

    def __getstate__(self) -> dict[str, Any]:
        """A part that is sent to be merged needs no verifier."""
        return {**self.__dict__, "verifier": None}

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
