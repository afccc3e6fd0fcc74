"""Kept forms of the poolings that choose one target, that do not look at the query, and of all others."""

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from miv.bags import Bags
from miv.data import csr
from miv.kept.kept_form import Borders, KeptForm, Per, PreparedQueries, block_rows
from miv.kept.similarity_of_query import QuerySimilarity, Rows, as_rows

if TYPE_CHECKING:
    from miv.models.verifier import Verifier


class BestTargetForm(KeptForm):
    """``baseline`` and ``nearest``: the target with the greatest similarity, or cosine, gives the logit.

    The features after the first norm are kept.
    """

    def __init__(self, verifier: "Verifier", by_cosine: bool) -> None:
        super().__init__(verifier)
        self.by_cosine = by_cosine

    def keep(self, features: Rows, ptr: Borders) -> Rows:
        return as_rows(self.normed(features))

    def prepare(self, queries: Rows) -> PreparedQueries:
        query = self.normed(queries)
        return _BestTarget(QuerySimilarity(self.pooling, query), self.by_cosine)


class _BestTarget(PreparedQueries):
    rows_together: ClassVar[int] = 1 << 16

    def __init__(self, similarity: QuerySimilarity, by_cosine: bool) -> None:
        self.similarity, self.by_cosine = similarity, by_cosine

    def logits(self, rows: Rows, ptr: Borders) -> NDArray[np.float32]:
        similarity = self.similarity
        queries = len(similarity.query)
        value = np.empty((queries, len(rows)), np.float32)
        cosine = np.empty_like(value) if self.by_cosine else value
        step = block_rows(rows.shape[1])
        for start in range(0, len(rows), step):
            block, place = rows[start : start + step], slice(start, start + step)
            for query in range(queries):
                value[query, place] = similarity.logits(block, query)
                if self.by_cosine:
                    cosine[query, place] = block @ similarity.query[query]
        if not self.by_cosine:
            return np.asarray(np.maximum.reduceat(value, ptr[:-1], axis=1))
        greatest = csr.to_rows(np.maximum.reduceat(cosine, ptr[:-1], axis=1).T, ptr).T
        chosen = np.where(cosine == greatest, value, -np.inf)  # equally near targets are equal but for rounding
        return np.asarray(np.maximum.reduceat(chosen, ptr[:-1], axis=1))


class BagVectorForm(KeptForm):
    """Poolings that do not look at the query: their bag vector is kept."""

    per: ClassVar[Per] = "bag"

    def keep(self, features: Rows, ptr: Borders) -> Rows:
        bags = self.bags(features, ptr)
        return as_rows(self.pooling(bags.values[bags.ptr[:-1]], bags).bag_vector)  # any query gives the same

    def prepare(self, queries: Rows) -> PreparedQueries:
        return _BagVectors(self._similarity(queries))

    def _similarity(self, queries: Rows) -> QuerySimilarity:
        query = self.tensor(queries)
        bags = Bags.from_list([one[None] for one in query])  # any bag gives the same query vector
        return QuerySimilarity(self.pooling, self.pooling(query, bags).query_vector)


class _BagVectors(PreparedQueries):
    def __init__(self, similarity: QuerySimilarity) -> None:
        self.similarity = similarity

    def logits(self, rows: Rows, ptr: Borders) -> NDArray[np.float32]:
        return np.stack([self.similarity.logits(rows, query) for query in range(len(self.similarity.query))])


class FeatureForm(KeptForm):
    """Any other pooling: the features themselves are kept, and the verifier pools them for every query."""

    is_kept_apart = False

    def keep(self, features: Rows, ptr: Borders) -> Rows:
        return features

    def prepare(self, queries: Rows) -> PreparedQueries:
        return _Features(self, queries)


class _Features(PreparedQueries):
    def __init__(self, form: FeatureForm, queries: Rows) -> None:
        self.form, self.queries = form, form.tensor(queries)

    def logits(self, rows: Rows, ptr: Borders) -> NDArray[np.float32]:
        bags = self.form.bags(rows, ptr)
        verify = self.form.verifier.verify_features
        return np.stack([as_rows(verify(query.expand(len(bags), -1), bags).logit) for query in self.queries])
