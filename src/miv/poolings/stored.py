"""What galleries store of bags, and how queries read it.

A pooling that overrides ``Pooling.stored_form`` is searched in galleries by one pass over what was stored when a bag
was added.
"""

from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv.bags import Bags
from miv.poolings.similar import ScaledProduct

Rows = NDArray[np.float32]
Borders = NDArray[np.int64]
Per = Literal["instance", "member", "bag"]
_BLOCK_BYTES = 400 << 10  # rows worked on together, twice this with a temporary: half of a usual second-level cache


def as_rows(tensor: Tensor) -> Rows:
    """A tensor as a contiguous float32 array."""
    return np.ascontiguousarray(tensor.detach().to("cpu", torch.float32).numpy())


def block_rows(width: int) -> int:
    """Number of float32 rows that are worked on together."""
    return max(32, _BLOCK_BYTES // (4 * width))


class StoredQueries:
    """``R`` queries with the features ``(R, C)``, in the form that the pass over stored rows needs."""

    rows_together: ClassVar[int] = 1 << 14
    """Rows per call of ``logits``; one call costs tens of microseconds besides arithmetic."""

    def __init__(self, form: Any, queries: Rows) -> None:
        self.form, self.pooling, self.count = form, form.pooling, len(queries)
        self.query = form.tensor(queries)

    def logits(self, rows: Rows, ptr: Borders) -> Rows:
        """Logits ``(R, B)`` of bags with the stored rows ``(T, K)``, or ``(B, K)`` if a row is stored per bag."""
        bags, logits = self.form.bags(rows, ptr), []
        for query in self.query:
            pooled = self.pooling(query.expand(len(bags), -1), bags)
            logits.append(as_rows(self.pooling.similarity(pooled.query_vector, pooled.bag_vector)))
        return np.stack(logits)


class StoredForm:
    """What is stored per instance, per member of a bag, or per bag: here the features, pooled anew for every query."""

    per: Per = "instance"
    queries: ClassVar[type[StoredQueries]] = StoredQueries
    is_stored_apart: ClassVar[bool] = False
    """Whether rows are stored beside the features; otherwise the features themselves are read."""

    def __init__(self, pooling: Any) -> None:
        self.pooling = pooling

    @property
    def width(self) -> int:
        """``K``, the length of a stored row."""
        return int(self.pooling.channels)

    def rows(self, features: Rows, ptr: Borders) -> Rows:
        """Stored rows of bags of features ``(T, C)``; for ``per = "instance"`` the borders do not matter."""
        return features

    def prepare(self, queries: Rows) -> "StoredQueries":
        """Prepare the features ``(R, C)`` of ``R`` queries."""
        return self.queries(self, queries)

    def tensor(self, features: Rows) -> Tensor:
        """Features in the dtype of the pooling's weights and on their device."""
        weight = next(self.pooling.parameters())
        writable = np.require(features, np.float32, requirements=["C", "W"])
        return torch.from_numpy(writable).to(weight.device, weight.dtype)

    def normed(self, features: Rows) -> Tensor:
        """Features after the pooling's first norm."""
        normed: Tensor = self.pooling.norm(self.tensor(features))
        return normed

    def bags(self, features: Rows, ptr: Borders) -> Bags:
        """Features as bags."""
        values = self.tensor(features)
        return Bags(values, torch.from_numpy(ptr).to(values.device))


class BagVectorQueries(StoredQueries):
    """Queries of a ``BagVectorForm``."""

    def __init__(self, form: Any, queries: Rows) -> None:
        super().__init__(form, queries)
        bags = Bags.from_list([row[None] for row in self.query])  # any bag gives the same query vector
        self.similarity = QuerySimilarity(self.pooling, self.pooling(self.query, bags).query_vector)

    def logits(self, rows: Rows, ptr: Borders) -> Rows:
        return np.stack([self.similarity.logits(rows, query) for query in range(self.count)])


class BagVectorForm(StoredForm):
    """Poolings that do not look at the query: their bag vector is stored."""

    per = "bag"
    queries = BagVectorQueries
    is_stored_apart = True

    def rows(self, features: Rows, ptr: Borders) -> Rows:
        bags = self.bags(features, ptr)
        return as_rows(self.pooling(bags.values[bags.ptr[:-1]], bags).bag_vector)  # any query gives the same


class BestTargetQueries(StoredQueries):
    """Queries of a ``BestTargetForm``."""

    rows_together = 1 << 16

    def __init__(self, form: Any, queries: Rows) -> None:
        super().__init__(form, queries)
        self.by_cosine = form.by_cosine
        self.similarity = QuerySimilarity(self.pooling, self.pooling.norm(self.query))

    def logits(self, rows: Rows, ptr: Borders) -> Rows:
        value = np.empty((self.count, len(rows)), np.float32)
        cosine = np.empty_like(value)
        step = block_rows(rows.shape[1])
        for start in range(0, len(rows), step):
            block, place = rows[start : start + step], slice(start, start + step)
            for query in range(self.count):
                value[query, place] = self.similarity.logits(block, query)
                if self.by_cosine:
                    cosine[query, place] = block @ self.similarity.query[query]
        if self.by_cosine:
            greatest = np.repeat(np.maximum.reduceat(cosine, ptr[:-1], axis=1), np.diff(ptr), axis=1)
            value = np.where(cosine == greatest, value, -np.inf)  # equally near targets are equal but for rounding
        return np.asarray(np.maximum.reduceat(value, ptr[:-1], axis=1))


class BestTargetForm(StoredForm):
    """``baseline`` and ``nearest``: the target with the greatest similarity, or cosine, gives the logit.

    The features after the first norm are stored.
    """

    queries = BestTargetQueries
    is_stored_apart = True

    def __init__(self, pooling: Any, *, by_cosine: bool = False) -> None:
        super().__init__(pooling)
        self.by_cosine = by_cosine

    def rows(self, features: Rows, ptr: Borders) -> Rows:
        return as_rows(self.normed(features))


class QuerySimilarity:
    r"""The logit of a bag vector :math:`v^P` for ``R`` queries with the query vectors :math:`v^Q`, ``(R, C)``.

    .. math:: z(v^P) = c \cdot v^P + b(v^Q) - \sum_i d_i \, |v^Q_i - v^P_i|
    """

    def __init__(self, pooling: Any, query_vector: Tensor) -> None:
        similarity, query = pooling.similarity, query_vector.double()
        weight, distance = similarity.weight.double(), None
        self.offset = np.zeros(len(query), np.float32)  # (R,) b
        if isinstance(similarity, ScaledProduct):
            factor = similarity.scale.double() / similarity.channels
            weight = weight * factor
            self.offset = as_rows(similarity.intercept.double() + query @ similarity.prior.double() * factor)
            distance = similarity.distance.double() * factor
        self.factors = as_rows(query * weight)  # (R, C) c
        self.query = as_rows(query)  # (R, C) v^Q
        # (C,) d; without it, a logit is a product with the bag vector, plus a constant
        self.distance = None if distance is None or not bool(distance.any()) else as_rows(distance)

    def logits(self, vectors: Rows, query: int) -> Rows:
        """Logits ``(N,)`` of bag vectors ``(N, C)`` for one of the queries."""
        logits = vectors @ self.factors[query] + self.offset[query]
        if self.distance is not None:
            logits -= np.abs(vectors - self.query[query]) @ self.distance
        return np.asarray(logits)
