from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from miv.errors import MivError
from miv.exemplars import ExemplarSet, InstancePool
from miv.tasks.writers import Loan, draw_exemplars


def pool_of(writers: list[str]) -> InstancePool:
    return InstancePool("image", np.zeros((len(writers), 1, 1), np.uint8), np.array(writers, dtype=object))


def draw(writers: list[str], digits: list[int], queries: int, seed: int, loan: Loan = "geometric") -> ExemplarSet:
    return draw_exemplars(pool_of(writers), np.array(digits), queries, np.random.default_rng(seed), loan)


def test_two_writers_by_hand() -> None:
    # a: 3 sevens, b: 1 seven. One query each: a's gives a positive; b lends nothing, so nobody else is there
    # to fill a's negative; b's query has only a's images to be compared with.
    exemplars = draw(["a", "a", "a", "b"], [7, 7, 7, 7], queries=1, seed=0)
    classes = exemplars.pool.classes
    assert classes is not None
    assert exemplars.label.tolist() == [1, 0]
    assert classes[exemplars.query].tolist() == ["a", "b"]
    assert set(classes[exemplars.bag_index]) == {"a"}
    assert exemplars.witness is not None
    assert exemplars.witness.tolist() == [True] * len(exemplars.bag(0)) + [False] * len(exemplars.bag(1))


@given(
    st.lists(st.tuples(st.sampled_from("abcdefg"), st.integers(0, 1)), min_size=12, max_size=60),
    st.integers(1, 2),
    st.integers(0, 99),
    st.sampled_from(["geometric", "uniform"]),
)
def test_the_rules_of_the_task(images: list[tuple[str, int]], queries: int, seed: int, loan: Loan) -> None:
    writers, digits = [w for w, _ in images], [d for _, d in images]
    assume(max(Counter(images).values()) > queries)  # else nothing is left for a bag
    exemplars = draw(writers, digits, queries, seed, loan)
    assert exemplars.group is not None
    for e in range(len(exemplars)):
        query, bag = int(exemplars.query[e]), exemplars.bag(e)
        witness = exemplars.bag_witness(e)
        assert witness is not None
        assert len(set(bag.tolist())) == len(bag)
        assert {digits[i] for i in bag} == {digits[query]} == {int(exemplars.group[e])}
        assert witness.tolist() == [writers[i] == writers[query] for i in bag]
        assert bool(witness.any()) == bool(exemplars.label[e])
        others = {writers[i] for i in bag} - {writers[query]}
        assert len(others) <= 5 - int(exemplars.label[e])
        for writer in others:
            assert sum(writers[i] == writer for i in bag) <= 5
    assert not set(exemplars.query.tolist()) & set(exemplars.bag_index.tolist())


def test_bags_have_the_size_of_the_paper() -> None:
    writers = [f"w{i}" for i in range(60) for _ in range(12)]
    exemplars = draw(writers, [3] * len(writers), queries=10, seed=0)
    # Two images are left to lend: four writers a bag, each lends the second with a chance of 1 - 0.565.
    assert abs(exemplars.bag_sizes.mean() - 4 * 1.435) < 0.2
    exemplars = draw(writers, [3] * len(writers), queries=2, seed=0)
    sizes = np.concatenate([draw(writers, [3] * len(writers), 2, seed).bag_sizes for seed in range(5)])
    assert abs(sizes.mean() - 6.95) < 0.25
    assert abs(sizes.var() - 6.4) < 0.8
    assert sizes.min() >= 3
    assert sizes.max() <= 25
    assert exemplars.label.mean() == 0.5


def test_images_that_allow_no_comparison_are_refused() -> None:
    with pytest.raises(MivError, match="No exemplar can be made of 2 images by 2 writers"):
        draw(["a", "b"], [1, 2], queries=1, seed=0)
