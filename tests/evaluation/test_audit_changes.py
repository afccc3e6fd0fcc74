"""Changed exemplars, small enough to be checked by eye."""

import numpy as np
import pytest

from miv.data import ExemplarSet, InstancePool
from miv.evaluation.verifier_audit import (
    keep_members,
    swap_queries,
)


@pytest.fixture
def three() -> ExemplarSet:
    """Instances 0 and 1 are of class a, 2 and 3 of b, 4 and 5 of c; the third exemplar is negative."""
    pool = InstancePool("features", np.eye(6, dtype=np.float32), np.array(list("aabbcc"), object))
    witnesses = [[True, False], [False, True, False], [False, False]]
    return ExemplarSet.from_lists(pool, [0, 2, 4], [[1, 2], [0, 3, 5], [0, 3]], [1, 1, 0], witnesses, ["x", "x", "x"])


def bags_of(exemplars: ExemplarSet) -> list[list[int]]:
    return [exemplars.bag(number).tolist() for number in range(len(exemplars))]


def test_a_swapped_query_is_of_a_class_that_is_not_in_the_bag(three: ExemplarSet) -> None:
    swapped = swap_queries(three, np.array([0, 1]), np.random.default_rng(0))
    assert swapped is not None
    assert swapped.query.tolist() == [4]  # the bag of the second holds all three classes, so it is left out
    assert bags_of(swapped) == [[1, 2]]
    assert swapped.label.tolist() == [0]
    assert swap_queries(three, np.array([1]), np.random.default_rng(0)) is None


def test_references_are_kept_and_swapped_as_a_whole() -> None:
    pool = InstancePool("features", np.eye(9, dtype=np.float32), np.array(list("aaabbbccc"), object))
    given = ExemplarSet.from_lists(
        pool, None, [[2, 5], [5, 2]], [1, 0], references=[[0, 1], [6, 7, 8]], groups=["x", "x"], query_ids=["a", "c"]
    )
    kept = keep_members(given, np.array([True, False, True, True]))
    assert [kept.references(number).tolist() for number in range(2)] == [[0, 1], [6, 7, 8]]
    assert kept.query_id is not None
    swapped = swap_queries(given, np.array([0]), np.random.default_rng(0))
    assert swapped is not None
    assert swapped.references(0).tolist() == [6, 7, 8]
    assert swapped.bag(0).tolist() == [2, 5]
    assert swapped.query_id is not None
    assert swapped.query_id.tolist() == ["c"]
    nobody = swap_queries(given, np.array([1]), np.random.default_rng(0))  # the bag holds class a
    assert nobody is None
