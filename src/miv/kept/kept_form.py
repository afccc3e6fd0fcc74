"""What is kept of instances, so that a query over all bags costs one pass over it."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv.bags import Bags
from miv.kept.similarity_of_query import Rows

if TYPE_CHECKING:
    from miv.models.verifier import Verifier

Borders = NDArray[np.int64]
Per = Literal["instance", "member", "bag"]
_BLOCK_BYTES = 400 << 10  # rows worked on together, twice this with a temporary: half of a usual second-level cache


class PreparedQueries(ABC):
    """``R`` queries in the form that the pass over the kept rows needs."""

    rows_together: ClassVar[int] = 1 << 14
    """Rows per call of ``logits``; one call costs tens of microseconds besides arithmetic."""

    @abstractmethod
    def logits(self, rows: Rows, ptr: Borders) -> NDArray[np.float32]:
        """Logits ``(R, B)`` of bags with the kept rows ``(T, K)``, or ``(B, K)`` if a row is kept per bag."""


class KeptForm(ABC):
    """What is kept per instance, per member of a bag, or per bag, and how queries read it.

    Args:
        verifier: the verifier of the gallery, in evaluation mode.
    """

    per: ClassVar[Per] = "instance"
    is_kept_apart: ClassVar[bool] = True
    """Whether kept rows are stored beside the features; otherwise the features themselves are read."""

    def __init__(self, verifier: "Verifier") -> None:
        self.verifier, self.pooling = verifier, verifier.pooling

    @property
    def width(self) -> int:
        """``K``, the length of a kept row."""
        return self.pooling.channels

    @abstractmethod
    def keep(self, features: Rows, ptr: Borders) -> Rows:
        """Kept rows of bags of features ``(T, C)``; for ``per = "instance"`` the borders do not matter."""

    @abstractmethod
    def prepare(self, queries: Rows) -> PreparedQueries:
        """Prepare the features ``(R, C)`` of ``R`` queries."""

    def normed(self, features: Rows) -> Tensor:
        """Features after the pooling's first norm, on the verifier's device."""
        return self.pooling.norm(self.tensor(features))

    def tensor(self, features: Rows) -> Tensor:
        """Features in the verifier's dtype and on its device."""
        return as_tensor(self.verifier, features)

    def bags(self, features: Rows, ptr: Borders) -> Bags:
        """Features as bags, on the verifier's device."""
        return Bags(self.tensor(features), torch.from_numpy(ptr).to(self.verifier.device))


def as_tensor(verifier: "Verifier", features: Rows) -> Tensor:
    """Features in the verifier's dtype and on its device."""
    writable = np.require(features, np.float32, requirements=["C", "W"])
    return torch.from_numpy(writable).to(verifier.device, verifier.dtype)


def block_rows(width: int) -> int:
    """Number of float32 rows that are worked on together."""
    return max(32, _BLOCK_BYTES // (4 * width))


def softmax_in_place(scores: NDArray[np.float32], ptr: Borders) -> None:
    """Softmax over each bag of scores ``(..., T)``; no bag is empty."""
    sizes = np.diff(ptr)
    scores -= np.repeat(np.maximum.reduceat(scores, ptr[:-1], axis=-1), sizes, axis=-1)
    np.exp(scores, out=scores)
    scores /= np.repeat(np.add.reduceat(scores, ptr[:-1], axis=-1), sizes, axis=-1)


def weighted_sum(weights: Rows, keys: Rows, ptr: Borders) -> Rows:
    """Sum of the keys ``(T, C)`` of each bag by weights ``(T, h)``, ``(B, C)``, in one pass over the keys."""
    from scipy.sparse import csc_array  # not at the top: the import takes a tenth of a second

    rows, heads = weights.shape
    bags = len(ptr) - 1
    # Column t h + j has one number, in the row of the bag of instance t and of head j.
    owner = (np.repeat(np.arange(bags) * heads, np.diff(ptr))[:, None] + np.arange(heads)).ravel()
    sparse = csc_array((weights.ravel(), owner, np.arange(rows * heads + 1)), shape=(bags * heads, rows * heads))
    return np.asarray(sparse @ keys.reshape(rows * heads, -1)).reshape(bags, -1)
