"""Exemplars of vectors as scikit-learn's tools have them: a sequence of pairs ``(query, bag)``."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.data import ExemplarSet, InstancePool, csr
from miv.errors import MIVError
from miv.inference.given_instances import as_vectors, check_bags, check_finite


def queries_and_bags(first: Any, bags: Any) -> tuple[Any, Any]:
    """Queries and bags, from pairs or, where the bags stand beside the queries, as they are."""
    if bags is not None:
        return first, bags
    for number, pair in enumerate(first):
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            raise MIVError(
                f"Exemplar {number} is {_describe(pair)}. Expected X as a list of pairs (query, bag), a query (C,) and "
                "a bag (N, C); or queries and bags as two arguments."
            )
    return [query for query, _ in first], [bag for _, bag in first]


def all_vectors(pairs: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """All vectors of the pairs, queries first, in their own kind of number; and the borders ``(E + 1,)`` of bags."""
    queries, bags = queries_and_bags(pairs, None)
    _checked(queries, bags)
    vectors = np.concatenate([np.asarray(queries), *map(np.asarray, bags)])
    return vectors, len(queries) + csr.borders([len(bag) for bag in bags])


def _checked(queries: Any, bags: Any) -> list[NDArray[np.float32]]:
    """The queries ``(E, C)``, and then each bag ``(N, C)``."""
    check_bags(queries, bags, "features")
    first = np.shape(queries[0])
    if len(first) != 1 or not first[0]:
        raise MIVError(f"Query 0 has the shape {first}. Expected a vector (C,).")
    parts = [as_vectors(queries, first[0], "The queries")]
    return parts + [as_vectors(bag, first[0], f"Bag {number}") for number, bag in enumerate(bags)]


def exemplar_set(queries: Any, bags: Any, label: NDArray[np.int64]) -> ExemplarSet:
    """Equal vectors become one instance: exemplars of one query are kept together, and a training counts instances."""
    parts = _checked(queries, bags)
    check_finite(parts[0], "The queries")
    vectors = np.concatenate(parts)
    check_finite(vectors, "The queries and bags")
    places: dict[bytes, int] = {}
    instance = np.array([places.setdefault(row.tobytes(), len(places)) for row in vectors + 0.0])  # -0.0 is 0.0
    _, first = np.unique(instance, return_index=True)
    query, members = np.split(instance, [len(parts[0])])
    ptr = csr.borders([len(bag) for bag in parts[1:]])
    return ExemplarSet(InstancePool("features", vectors[first]), query, ptr, members, label.astype(np.int8))


def choose_held_out(exemplars: ExemplarSet, fraction: float, random: np.random.Generator) -> NDArray[np.bool_] | None:
    """``(E,)`` which exemplars to hold out: whole queries, both labels on both sides, in about the same shares.

    Exemplars of one query are divided only where whole queries cannot give both labels to both sides. ``None`` where
    one label has a single exemplar, which cannot be on both sides.
    """
    if np.bincount(exemplars.label, minlength=2).min() < 2:
        return None
    wanted = max(2, round(fraction * len(exemplars)))
    _, by_query = np.unique(exemplars.query, return_inverse=True)
    for unit in (by_query, np.arange(len(exemplars))):
        drawn = [_drawn(unit, wanted, random) for _ in range(_DRAWS)]
        fitting = [held_out for held_out in drawn if _has_both(exemplars.label, held_out)]
        if fitting:
            share = wanted / len(exemplars)
            return min(fitting, key=lambda held_out: _unevenness(exemplars.label, held_out, share))
    return None


_DRAWS = 100


def _drawn(unit: NDArray[np.int64], wanted: int, random: np.random.Generator) -> NDArray[np.bool_]:
    """Whole units of exemplars, at random, until there are about as many exemplars as wanted."""
    sizes = np.bincount(unit)
    order = random.permutation(len(sizes))
    before = np.cumsum(sizes[order]) - sizes[order] / 2
    chosen = np.zeros(len(sizes), bool)
    chosen[order[before <= wanted]] = True
    return chosen[unit]


def _has_both(label: NDArray[np.int8], held_out: NDArray[np.bool_]) -> bool:
    return all(len(np.unique(label[side])) == 2 for side in (held_out, ~held_out))


def _unevenness(label: NDArray[np.int8], held_out: NDArray[np.bool_], share: float) -> float:
    """How far the shares of each label that are held out are from the wanted share."""
    return sum(abs(float(held_out[label == one].mean()) - share) for one in (0, 1))


def _describe(thing: Any) -> str:
    shape = np.shape(thing) if isinstance(thing, np.ndarray) else ""
    return f"a {type(thing).__name__} {shape}".strip()
