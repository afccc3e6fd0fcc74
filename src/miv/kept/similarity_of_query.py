"""A verifier's similarity with its query fixed: one product per row, and one distance if it weighs distances."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv.poolings import Pooling, ScaledProduct

Rows = NDArray[np.float32]


class QuerySimilarity:
    r"""The logit of a bag vector :math:`v^P` for ``R`` queries.

    .. math:: z(v^P) = c \cdot v^P + b - \sum_i d_i \, |v^Q_i - v^P_i|

    Args:
        pooling: the pooling whose similarity is meant.
        query_vector: ``(R, C)``, :math:`v^Q`.
    """

    def __init__(self, pooling: Pooling, query_vector: Tensor) -> None:
        similarity, query = pooling.similarity, query_vector.double()
        weight, offset, distance = similarity.weight.double(), 0.0, None
        if isinstance(similarity, ScaledProduct):
            factor = similarity.scale.double() / similarity.channels
            weight, offset = weight * factor, float(similarity.intercept)
            distance = similarity.distance.double() * factor
        self.offset = offset  # b
        self.factors = as_rows(query * weight)  # (R, C) c
        self.query = as_rows(query)  # (R, C) v^Q
        self.distance = None if distance is None or not bool(distance.any()) else as_rows(distance)  # (C,) d

    @property
    def is_linear(self) -> bool:
        """Whether the logit is a product with the bag vector, plus a constant."""
        return self.distance is None

    def logits(self, vectors: Rows, query: int) -> NDArray[np.float32]:
        """Logits ``(N,)`` of bag vectors ``(N, C)`` for one of the queries."""
        logits = vectors @ self.factors[query] + np.float32(self.offset)
        if self.distance is not None:
            logits -= np.abs(vectors - self.query[query]) @ self.distance
        return np.asarray(logits)


def as_rows(tensor: Tensor) -> Rows:
    """A tensor as a contiguous float32 array."""
    return np.ascontiguousarray(tensor.detach().to("cpu", torch.float32).numpy())
