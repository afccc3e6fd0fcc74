"""Apply a transformer of vectors to queries and bags."""

from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from miv.integrations.pairs import all_vectors


class OnInstances(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Applies a transformer of vectors, such as ``StandardScaler()``, to every query and every member of a bag.

    It takes and returns sequences of pairs ``(query, bag)``, so it can precede ``MIVClassifier`` in a ``Pipeline``.

    Args:
        transformer: the transformer; a clone is fitted to all queries and bag members together.

    >>> from sklearn.preprocessing import StandardScaler
    >>> pairs = [([0.0, 4.0], [[2.0, 4.0], [4.0, 10.0]]), ([2.0, 6.0], [[2.0, 6.0]])]
    >>> query, bag = OnInstances(StandardScaler()).fit_transform(pairs)[0]
    >>> query.round(1).tolist(), bag.round(1).tolist()
    ([-1.6, -0.9], [[0.0, -0.9], [1.6, 1.8]])
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803
        """Fit the transformer to all vectors."""
        vectors, _, _ = all_vectors(X)
        self.n_features_in_ = vectors.shape[1]
        self.transformer_ = clone(self.transformer).fit(vectors)
        return self

    def transform(self, X: Any) -> list[tuple[NDArray[Any], NDArray[Any]]]:  # noqa: N803
        """Transform all vectors, in one call."""
        check_is_fitted(self)
        given, known, borders = all_vectors(X)
        made = self.transformer_.transform(given)
        vectors = np.asarray(made.toarray() if hasattr(made, "toarray") else made)  # a sparse matrix, or a data frame
        members = [vectors[first:last] for first, last in pairwise(borders)]
        if not known.has_references:
            return list(zip(vectors[: borders[0]], members, strict=True))
        queries = [vectors[first:last] for first, last in pairwise(known.reference_ptr)]
        return list(zip(queries, members, strict=True))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags
