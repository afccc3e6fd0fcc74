"""What is stored of bags, and how queries read it: in galleries, and in bags larger than memory.

A pooling that overrides ``Pooling.stored_form`` is searched in galleries by one pass over what was stored when a bag
was added. If the form has a ``partial_bag``, it also reads one bag in chunks, in parts that merge.
"""

from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv.bags import Bags
from miv.poolings.partial import Floats, PartialBag
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


class StoredForm:
    """What is stored per instance, per member of a bag, or per bag: here the features, pooled anew for every query."""

    per: Per = "instance"
    needs_variance = False
    """Whether ``partial_bag`` needs the variance of the whole bag, which takes a pass of its own."""
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

    def rows_of_part(self, features: Rows) -> Rows:
        """What a ``partial_bag`` reads, ``(N, K)``, of features ``(N, C)``."""
        return self.rows(features, np.array([0, len(features)]))

    def prepare(self, queries: Rows) -> "StoredQueries":
        """Prepare the features ``(R, C)`` of ``R`` queries."""
        return StoredQueries(self, queries)

    def partial_bag(
        self, queries: Rows, top: int, variance: Floats | None = None, log_sums: Floats | None = None
    ) -> PartialBag | None:
        """An empty part of a bag that names ``top`` targets per query; ``None`` if the pooling needs the whole.

        With the ``log_sums`` ``(h, R)`` of the whole bag, it is a second pass that only names targets.
        """
        return None

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


class StoredQueries:
    """``R`` queries with the features ``(R, C)``, in the form that the pass over stored rows needs."""

    rows_together: ClassVar[int] = 1 << 14
    """Rows per call of ``logits``; one call costs tens of microseconds besides arithmetic."""
    heads = 1

    def __init__(self, form: StoredForm, queries: Rows) -> None:
        self.form, self.pooling, self.count = form, form.pooling, len(queries)
        self.query = form.tensor(queries)

    def logits(self, rows: Rows, ptr: Borders) -> Rows:
        """Logits ``(R, B)`` of bags with the stored rows ``(T, K)``, or ``(B, K)`` if a row is stored per bag."""
        bags, logits = self.form.bags(rows, ptr), []
        for query in self.query:
            pooled = self.pooling(query.expand(len(bags), -1), bags)
            logits.append(as_rows(self.pooling.similarity(pooled.query_vector, pooled.bag_vector)))
        return np.stack(logits)


class BagVectorForm(StoredForm):
    """Poolings that do not look at the query: their bag vector is stored."""

    per = "bag"
    is_stored_apart = True

    def rows(self, features: Rows, ptr: Borders) -> Rows:
        bags = self.bags(features, ptr)
        return as_rows(self.pooling(bags.values[bags.ptr[:-1]], bags).bag_vector)  # any query gives the same

    def prepare(self, queries: Rows) -> "BagVectorQueries":
        return BagVectorQueries(self, queries)


class BagVectorQueries(StoredQueries):
    """Queries of a ``BagVectorForm``."""

    def __init__(self, form: StoredForm, queries: Rows) -> None:
        super().__init__(form, queries)
        bags = Bags.from_list([row[None] for row in self.query])  # any bag gives the same query vector
        self.similarity = QuerySimilarity(self.pooling, self.pooling(self.query, bags).query_vector)

    def logits(self, rows: Rows, ptr: Borders) -> Rows:
        return np.stack([self.similarity.logits(rows, query) for query in range(self.count)])


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
