from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from miv import ExemplarSet, InstancePool, MIVError

POOL = InstancePool("text", np.array(list("abcdef"), dtype=object), np.array(list("xxyyzz")))


def small_set(**changes: Any) -> ExemplarSet:
    arguments = {
        "pool": POOL,
        "query": np.array([0, 1]),
        "bag_ptr": np.array([0, 2, 5]),
        "bag_index": np.array([1, 2, 3, 4, 5]),
        "label": np.array([1, 0], np.int8),
        "witness": np.array([True, False, False, False, False]),
        "group": np.array(["3", "7"]),
    }
    return ExemplarSet(**{**arguments, **changes})


def list_of(array: NDArray[Any] | None) -> list[Any]:
    return array.tolist()


def test_reads_like_lists() -> None:
    exemplars = small_set()
    assert len(exemplars) == 2
    assert exemplars.bag(0).tolist() == [1, 2]
    assert exemplars.bag(1).tolist() == exemplars.bag(-1).tolist() == [3, 4, 5]
    assert list_of(exemplars.bag_witness(0)) == [True, False]
    assert exemplars.bag_sizes.tolist() == [2, 3]
    assert exemplars.owner.tolist() == [0, 0, 1, 1, 1]
    assert exemplars.used.tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(MIVError, match=r"no exemplar 2. Expected 0 to 1"):
        exemplars.bag(2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pool": None}, "pool is nothing. Expected an InstancePool"),
        ({"query": np.array([0.0, 1.0])}, r"query is float64 \(2,\). Expected int64"),
        ({"query": np.array([0, 6])}, r"query\[1\] is 6. Expected an index from 0 to 5"),
        ({"query": np.array([0, 1, 2])}, "bag_ptr has 3 entries. Expected 4"),
        ({"query": np.array([], np.int64), "bag_ptr": np.array([0])}, "The set is empty"),
        ({"query": np.array([0, 2**63], np.uint64)}, "too large for int64"),
        ({"bag_ptr": np.array([1, 2, 5])}, "bag_ptr runs from 1 to 5. Expected 0 to 5"),
        ({"bag_ptr": np.array([0, 6, 5])}, "bag_ptr decreases at exemplar 1"),
        ({"bag_ptr": np.array([0, 0, 5])}, "Exemplar 0 has an empty bag"),
        ({"bag_index": np.array([1, 2, 3, 4, -1])}, r"bag_index\[4\] is -1. Expected an index from 0 to 5"),
        ({"bag_index": np.array([[1, 2, 3, 4, 5]])}, r"bag_index is int64 \(1, 5\)"),
        ({"label": np.array([1, 2])}, "label of exemplar 1 is 2. Expected 0 or 1"),
        ({"witness": np.array([True])}, "witness has 1 entry. Expected 5"),
        ({"witness": np.array([1, 0, 0, 0, 0])}, "witness is int64"),
        ({"group": np.array([3, 7])}, "Expected an array of strings"),
    ],
)
def test_refuses_what_does_not_fit_together(changes: Any, message: str) -> None:
    with pytest.raises(MIVError, match=message):
        small_set(**changes)


def test_from_lists_is_the_same_set() -> None:
    made = ExemplarSet.from_lists(POOL, [0, 1], [[1, 2], [3, 4, 5]], [1, 0], [[True, False], [False] * 3], ["3", "7"])
    assert made.fingerprint == small_set().fingerprint
    assert made.label.dtype == np.int8
    assert made.query.dtype == made.bag_ptr.dtype == made.bag_index.dtype == np.int64


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0], [[]], [1]), "Exemplar 0 has an empty bag"),
        (([0, 1], [[1]], [1, 0]), "bag_ptr has 2 entries. Expected 3"),
        (([0], [[0.5]], [1]), r"bag 0 is '\[0.5\]'. Expected a list of whole numbers"),
        (([0], [[1]], ["yes"]), r"labels is \"\['yes'\]\". Expected"),
        (([0], [[1]], [1], [[True, True]]), "witnesses of bag 0 has 2 entries. Expected 1"),
        (([0], [[1]], [1], [[1]]), "Expected a list of True and False"),
        (([0], [[1]], [1], []), "witnesses for 0 bags. Expected 1"),
    ],
)
def test_from_lists_names_the_bag_that_is_wrong(arguments: Any, message: str) -> None:
    with pytest.raises(MIVError, match=message):
        ExemplarSet.from_lists(POOL, *arguments)


@st.composite
def sets(draw: Any) -> ExemplarSet:
    size = draw(st.integers(1, 6))
    index = st.integers(0, size - 1)
    bags = draw(st.lists(st.lists(index, min_size=1, max_size=5), min_size=1, max_size=6))
    pool = InstancePool("features", np.arange(size, dtype=np.float32)[:, None], np.arange(size).astype(str))
    return ExemplarSet.from_lists(
        pool,
        draw(st.lists(index, min_size=len(bags), max_size=len(bags))),
        bags,
        draw(st.lists(st.integers(0, 1), min_size=len(bags), max_size=len(bags))),
        [[draw(st.booleans()) for _ in bag] for bag in bags],
        [draw(st.text(max_size=3)) for _ in bags],
    )


@given(sets(), st.data())
def test_a_subset_has_the_chosen_exemplars(exemplars: ExemplarSet, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(exemplars) - 1), min_size=1))
    part = exemplars.subset(chosen)
    assert part.pool is exemplars.pool
    for new, old in enumerate(chosen):
        assert part.query[new] == exemplars.query[old]
        assert part.label[new] == exemplars.label[old]
        assert list_of(part.group)[new] == list_of(exemplars.group)[old]
        assert part.bag(new).tolist() == exemplars.bag(old).tolist()
        assert list_of(part.bag_witness(new)) == list_of(exemplars.bag_witness(old))


@given(sets())
def test_compact_drops_only_what_is_not_used(exemplars: ExemplarSet) -> None:
    part = exemplars.compact()
    used = sorted({*exemplars.query.tolist(), *exemplars.bag_index.tolist()})
    assert part.pool.values[:, 0].tolist() == used
    assert list_of(part.pool.classes) == [str(instance) for instance in used]
    for number in range(len(exemplars)):
        assert part.pool.values[part.query[number], 0] == exemplars.query[number]
        assert part.pool.values[part.bag(number), 0].tolist() == exemplars.bag(number).tolist()
    assert part.compact() is part


def test_subset_takes_a_mask_and_refuses_others() -> None:
    assert small_set().subset(np.array([False, True])).bag(0).tolist() == [3, 4, 5]
    with pytest.raises(MIVError, match=r"mask has 1 entry. Expected 2"):
        small_set().subset(np.array([True]))
    with pytest.raises(MIVError, match=r"exemplars\[0\] is 2. Expected an index from 0 to 1"):
        small_set().subset([2])
    with pytest.raises(MIVError, match="The set is empty"):
        small_set().subset(np.array([False, False]))


@pytest.mark.parametrize(
    "changes",
    [
        {"query": np.array([1, 1])},
        {"bag_ptr": np.array([0, 3, 5])},
        {"bag_index": np.array([2, 1, 3, 4, 5])},
        {"label": np.array([0, 0])},
        {"witness": None},
        {"group": None},
        {"group": np.array(["37", ""])},
        {"pool": InstancePool("text", POOL.values)},
    ],
)
def test_the_fingerprint_sees_every_change(changes: Any) -> None:
    assert small_set(**changes).fingerprint != small_set().fingerprint
    assert small_set().fingerprint == small_set().fingerprint
