"""Kept forms that serve several poolings: the features themselves, or the vector of each bag."""

from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv.bags import Bags
from miv.poolings.kept_form import Borders, KeptForm, Per, PreparedQueries, Rows, as_rows
from miv.poolings.pooling_base import Pooling
from miv.poolings.similar import ScaledProduct

P = TypeVar("P", bound=Pooling)


def form_of(pooling: Pooling) -> KeptForm:
    """The kept form of a pooling. One without its own keeps features; a subclass does too, as it may pool otherwise."""
    form = pooling.kept_form() if "kept_form" in vars(type(pooling)) else None
    return FeatureForm(pooling) if form is None else form


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


class PoolingForm(KeptForm, Generic[P]):
    """A kept form with the layers of its pooling.

    Args:
        pooling: the pooling, in evaluation mode.
    """

    def __init__(self, pooling: P) -> None:
        self.pooling = pooling

    @property
    def width(self) -> int:
        return self.pooling.channels

    def tensor(self, features: Rows) -> Tensor:
        """Features in the dtype of the pooling's weights and on their device."""
        weight = next(self.pooling.parameters())
        writable = np.require(features, np.float32, requirements=["C", "W"])
        return torch.from_numpy(writable).to(weight.device, weight.dtype)

    def normed(self, features: Rows) -> Tensor:
        """Features after the pooling's first norm."""
        return self.pooling.norm(self.tensor(features))

    def bags(self, features: Rows, ptr: Borders) -> Bags:
        """Features as bags."""
        values = self.tensor(features)
        return Bags(values, torch.from_numpy(ptr).to(values.device))


class BagVectorForm(PoolingForm[P]):
    """Poolings that do not look at the query: their bag vector is kept."""

    per: ClassVar[Per] = "bag"

    def keep(self, features: Rows, ptr: Borders) -> Rows:
        bags = self.bags(features, ptr)
        return as_rows(self.pooling(bags.values[bags.ptr[:-1]], bags).bag_vector)  # any query gives the same

    def prepare(self, queries: Rows) -> PreparedQueries:
        return _BagVectors(self._similarity(queries))

    def _similarity(self, queries: Rows) -> QuerySimilarity:
        query = self.tensor(queries)
        bags = Bags.from_list([row[None] for row in query])  # any bag gives the same query vector
        return QuerySimilarity(self.pooling, self.pooling(query, bags).query_vector)


class _BagVectors(PreparedQueries):
    def __init__(self, similarity: QuerySimilarity) -> None:
        self.similarity = similarity

    def logits(self, rows: Rows, ptr: Borders) -> NDArray[np.float32]:
        return np.stack([self.similarity.logits(rows, query) for query in range(len(self.similarity.query))])


class FeatureForm(PoolingForm[P]):
    """Any other pooling: the features themselves are kept, and pooled for every query."""

    is_kept_apart = False

    def keep(self, features: Rows, ptr: Borders) -> Rows:
        return features

    def prepare(self, queries: Rows) -> PreparedQueries:
        return _Features(self, queries)


class _Features(PreparedQueries):
    def __init__(self, form: FeatureForm[Any], queries: Rows) -> None:
        self.form, self.queries = form, form.tensor(queries)

    def logits(self, rows: Rows, ptr: Borders) -> NDArray[np.float32]:
        bags, pooling, logits = self.form.bags(rows, ptr), self.form.pooling, []
        for query in self.queries:
            pooled = pooling(query.expand(len(bags), -1), bags)
            logits.append(as_rows(pooling.similarity(pooled.query_vector, pooled.bag_vector)))
        return np.stack(logits)
