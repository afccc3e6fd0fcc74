from typing import Any

import numpy as np
import pytest

from miv.data import ExemplarSet
from miv.errors import MIVError


def test_equal_instances_are_stored_once() -> None:
    exemplars = ExemplarSet.from_arrays(
        queries=np.array([[1.0, 0.0], [1.0, 0.0]]),
        bags=[np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[-0.0, 1.0]])],
        labels=[1, 0],
        groups=["x", "y"],
    )
    assert exemplars.pool.values.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert exemplars.query.tolist() == [0, 0]
    assert exemplars.bag_index.tolist() == [1, 0, 1]
    assert exemplars.group.tolist() == ["x", "y"]
    assert exemplars.witness is None


def test_images_and_texts() -> None:
    images = np.arange(2 * 4 * 4 * 3, dtype=np.uint8).reshape(2, 4, 4, 3)
    exemplars = ExemplarSet.from_arrays(images[:1], [images], [1], [[True, False]])
    assert exemplars.pool.kind == "image"
    assert exemplars.pool.values.shape == (2, 4, 4, 3)
    texts = ExemplarSet.from_arrays(["a"], [["b", "a", "ü"]], [0])
    assert texts.pool.values.tolist() == ["a", "b", "ü"]


@pytest.mark.parametrize(
    ("queries", "bags", "message"),
    [
        ([[1.0]], [], "1 queries and 0 bags"),
        ([], [], "There are no instances"),
        ([[1.0]], [[]], "Exemplar 0 has an empty bag"),
        (["a"], ["b"], "Bag 0 is one text"),
        ([[1.0]], [[[1.0, 2.0]]], "bag 0, instance 0: a vector of 2 numbers, but query 0"),
        ([[1.0]], [[[np.nan]]], "bag 0, instance 0: number 0"),
        ([[1.0]], [["a"]], "expected a vector"),
        ([[1.0]], [[[True]]], "a list of numbers"),
        ([["a", "b"]], [[["a", "b"]]], "query 0: a vector must be a list of numbers"),
        (["a"], [[1]], "expected a text"),
        (["a"], [[" "]], "text is empty"),
        (["a"], [["\ud800"]], "a lone surrogate"),
        ([1.0], [[1.0]], "A query has the shape"),
        (np.zeros((1, 4, 4)), [np.zeros((1, 4, 4))], "uint8"),
        (np.zeros((1, 4, 4, 2), np.uint8), [np.zeros((1, 4, 4, 2), np.uint8)], "shape"),
    ],
)
def test_bad_arrays_are_refused(queries: Any, bags: Any, message: str) -> None:
    with pytest.raises(MIVError, match=message):
        ExemplarSet.from_arrays(queries, bags, [1] * len(queries))
