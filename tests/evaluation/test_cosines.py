"""Cosines of queries and targets beside naive computations, exemplar by exemplar."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from miv import ExemplarSet, InstancePool
from miv.evaluation.baselines import cosines


def naive_cosine(one: NDArray[Any], other: NDArray[Any]) -> float:
    lengths = math.sqrt(sum(float(x) ** 2 for x in one)) * math.sqrt(sum(float(x) ** 2 for x in other))
    return sum(float(x) * float(y) for x, y in zip(one, other, strict=True)) / lengths if lengths else 0.0


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    seed=st.integers(0, 2**16),
    scale=st.sampled_from([1.0, 1e-25, 1e25]),
)
def test_cosines_are_those_of_a_loop_over_bags(sizes: list[int], seed: int, scale: float) -> None:
    random = np.random.default_rng(seed)
    values = (scale * random.integers(-2, 3, (7, 3))).astype(np.float32)  # some are zeros, and some are equal
    ptr = np.cumsum([0, *sizes])
    index = random.integers(0, 7, ptr[-1])
    exemplars = ExemplarSet(
        InstancePool("features", values), random.integers(0, 7, len(sizes)), ptr, index, np.zeros(len(sizes), np.int8)
    )
    found = cosines(exemplars, values)
    for number in range(len(sizes)):
        query = values[exemplars.query[number]]
        expected = [naive_cosine(query, values[target]) for target in exemplars.bag(number)]
        assert found.each[ptr[number] : ptr[number + 1]] == pytest.approx(expected, abs=1e-6)
        assert found.nearest[number] == pytest.approx(max(expected), abs=1e-6)
        assert found.mean[number] == pytest.approx(sum(expected) / len(expected), abs=1e-6)
        place = int(found.place[number])
        assert ptr[number] <= place < ptr[number + 1]
        assert found.each[place] == found.nearest[number]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**16), centred=st.booleans())
def test_cosines_are_with_the_mean_direction_of_centred_references(seed: int, centred: bool) -> None:
    random = np.random.default_rng(seed)
    values = random.normal(size=(9, 4)).astype(np.float32)
    centre = centred * values.mean(axis=0) / 3
    bags, references = [[0, 1, 2], [3, 4]], [[5, 6], [7]]
    exemplars = ExemplarSet.from_lists(InstancePool("features", values), None, bags, [1, 0], references=references)

    def moved(row: int) -> NDArray[Any]:
        found = values[row] / np.linalg.norm(values[row]) - centre
        return found / np.linalg.norm(found)

    expected = [
        naive_cosine(np.sum([moved(one) for one in several], axis=0), moved(target))
        for several, bag in zip(references, bags, strict=True)
        for target in bag
    ]
    assert cosines(exemplars, values, centre if centred else None).each == pytest.approx(expected, abs=1e-5)
