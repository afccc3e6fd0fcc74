"""Exemplars of vectors in a form for scikit-learn: a sequence of pairs ``(query, bag)``."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from miv.data import ExemplarSet, InstancePool, csr
from miv.errors import MIVError
from miv.verifier.reading import ErrorLocations, as_vectors, check_bags, check_finite, single_instances


def queries_and_bags(first: Any, bags: Any) -> tuple[Any, Any]:
    """Queries and bags, from pairs or from two arguments."""
    if bags is not None:
        return first, bags
    for number, pair in enumerate(first):
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            shape = f" {pair.shape}" if isinstance(pair, np.ndarray) else ""
            wanted = "pairs (query, bag), query (C,) and bag (N, C); or queries and bags as two arguments"
            raise MIVError(f"Exemplar {number} is a {type(pair).__name__}{shape}. Expected X as a list of {wanted}.")
    return [query for query, _ in first], [bag for _, bag in first]


class Vectors(NamedTuple):
    """The vectors of exemplars: references of all queries ``(R, C)``, then each bag ``(N, C)``."""

    parts: list[NDArray[np.float32]]
    reference_ptr: NDArray[np.int64]  # (E + 1,) borders between the references
    has_references: bool  # some query is an array (R, C)


def all_vectors(pairs: Any) -> tuple[NDArray[Any], Vectors, NDArray[np.int64]]:
    """All vectors of the pairs, references first, in their own dtype; how they belong; and the borders of bags."""
    queries, bags = queries_and_bags(pairs, None)
    known = _checked(queries, bags)
    references, _, _ = single_instances(queries, "features", ErrorLocations())
    vectors = np.concatenate([np.asarray(references), *map(np.asarray, bags)])
    return vectors, known, len(references) + csr.borders([len(bag) for bag in bags])


def _checked(queries: Any, bags: Any) -> Vectors:
    check_bags(queries, bags, "features")
    references, ptr, _ = single_instances(queries, "features", ErrorLocations())
    first = np.shape(references[0])
    if len(first) != 1 or not first[0]:
        raise MIVError(f"Query 0 has the shape {first}. Expected a vector (C,), or references (R, C).")
    parts = [as_vectors(references, first[0], "The queries")]
    parts += [as_vectors(bag, first[0], f"Bag {number}") for number, bag in enumerate(bags)]
    return Vectors(parts, np.arange(len(references) + 1) if ptr is None else ptr, ptr is not None)


def exemplar_set(queries: Any, bags: Any, label: NDArray[np.int64]) -> ExemplarSet:
    """Merge equal vectors into one instance, to keep exemplars of one query together and to count instances."""
    parts, reference_ptr, _ = _checked(queries, bags)
    check_finite(parts[0], "The queries")
    vectors = np.concatenate(parts)
    check_finite(vectors, "The queries and bags")
    places: dict[bytes, int] = {}
    instance = np.array([places.setdefault(row.tobytes(), len(places)) for row in vectors + 0.0])  # -0.0 is 0.0
    _, first = np.unique(instance, return_index=True)
    references, members = np.split(instance, [len(parts[0])])
    return ExemplarSet(
        InstancePool("features", vectors[first]),
        references[reference_ptr[:-1]],
        csr.borders([len(bag) for bag in parts[1:]]),
        members,
        label.astype(np.int8),
        reference_ptr=reference_ptr,
        reference_index=references,
    )


def with_weights(exemplars: ExemplarSet, sample_weight: Any) -> ExemplarSet:
    """The exemplars with their weights, without those of weight 0; equal weights count as none."""
    if sample_weight is None:
        return exemplars
    try:
        weight = np.asarray(sample_weight, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise MIVError("sample_weight has values that are not numbers. Expected one per exemplar.") from error
    if weight.shape != (len(exemplars),):
        raise MIVError(f"sample_weight has the shape {weight.shape}. Expected ({len(exemplars)},), one per exemplar.")
    if not (np.isfinite(weight) & (weight >= 0)).all():
        raise MIVError("sample_weight contains a negative number, NaN or infinity. Expected 0 or more.")
    if len(np.unique(exemplars.label[weight > 0])) < 2:
        raise MIVError("Exemplars with a weight above 0 have only one class. Expected both, no and yes.")
    weighted = exemplars.subset(weight > 0).compact()
    positive = weight[weight > 0]
    return weighted if positive.min() == positive.max() else replace(weighted, weight=positive)
