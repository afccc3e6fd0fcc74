import numpy as np
import pytest

from miv import ExemplarSet, InstancePool
from miv.data.inspection import Distribution, set_statistics

# Instances 0 and 3 are the same text, and 6 is used by nobody.
POOL = InstancePool("text", np.array(["a", "b", "c", "a", "d", "e", "f"], dtype=object), np.array(list("xxyyzzz")))


def test_statistics_that_can_be_checked_by_eye() -> None:
    exemplars = ExemplarSet.from_lists(
        POOL,
        queries=[0, 0, 1, 3],
        bags=[[1, 2], [4], [2, 4, 5], [2, 1]],  # the last is the first again: 3 is a copy of 0
        labels=[1, 0, 1, 1],
        witnesses=[[True, False], [False], [True, True, True], [False, True]],
        groups=["u", "v", "u", "u"],
    )
    found = set_statistics(exemplars)
    assert (found.kind, found.instances, found.shape, found.classes) == ("text", 7, [], 3)
    assert (found.unused_instances, found.duplicate_instances, found.duplicate_exemplars) == (1, 1, 1)
    assert (found.exemplars, found.positives, found.positive_share, found.bag_entries) == (4, 3, 0.75, 8)
    assert found.bag_size == Distribution(mean=2.0, variance=0.5, minimum=1.0, median=2.0, maximum=3.0)
    assert found.witnesses == 5
    per_positive = found.witnesses_per_positive
    assert per_positive is not None
    assert per_positive.mean == pytest.approx(5 / 3)
    assert (per_positive.median, per_positive.maximum) == (1, 3)
    assert found.witness_rate is not None
    assert found.witness_rate.mean == pytest.approx((0.5 + 1 + 0.5) / 3)
    assert found.groups == {"u": 3, "v": 1}


def test_what_is_not_known_is_not_made_up() -> None:
    pool = InstancePool("text", np.array(["a", "b"], dtype=object))
    found = set_statistics(ExemplarSet.from_lists(pool, [0], [[1]], [0]))
    assert found.witnesses is None
    assert found.witness_rate is None
    assert found.witnesses_per_positive is None
    assert found.groups is None
    assert found.classes is None
    known = set_statistics(ExemplarSet.from_lists(pool, [0], [[1]], [0], [[False]]))
    assert known.witnesses == 0
    assert known.witnesses_per_positive is None  # there is no positive bag


def test_the_order_of_a_bag_does_not_make_another_exemplar_but_its_size_does() -> None:
    bags = [[1, 2], [2, 1], [1, 2, 2], [1, 1, 2]]
    exemplars = ExemplarSet.from_lists(POOL, [0] * 4, bags, [1] * 4)
    assert set_statistics(exemplars).duplicate_exemplars == 1
