"""Audits look at every reference of a query."""

import numpy as np
import pytest

from miv import ExemplarSet, InstancePool
from miv.data.inspection import audit, same_exemplar, set_statistics

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
    statistics = set_statistics(exemplars)
    rate = statistics.pop("witness_rate")
    per_positive = statistics.pop("witnesses_per_positive")
    assert statistics == {
        **{"kind": "text", "instances": 7, "shape": [], "classes": 3},
        **{"unused_instances": 1, "duplicate_instances": 1, "duplicate_exemplars": 1},
        **{"exemplars": 4, "positives": 3, "positive_share": 0.75, "bag_entries": 8, "witnesses": 5},
        "bag_size": {"mean": 2.0, "variance": 0.5, "minimum": 1.0, "median": 2.0, "maximum": 3.0},
        "groups": {"u": 3, "v": 1},
    }
    assert per_positive["mean"] == pytest.approx(5 / 3)
    assert (per_positive["median"], per_positive["maximum"]) == (1, 3)
    assert rate["mean"] == pytest.approx((0.5 + 1 + 0.5) / 3)


AUDITED_POOL = InstancePool("text", np.array(["a", "b", "c", "a"], dtype=object), np.array(list("xyzx")))


def findings(**sets: ExemplarSet) -> dict[tuple[str, str], tuple[int, list[str]]]:
    return {(finding.check, finding.where): (finding.count, finding.examples) for finding in audit(sets)}


def test_finds_the_query_in_its_bag_by_place_and_by_content() -> None:
    exemplars = ExemplarSet.from_lists(AUDITED_POOL, [0, 1, 0], [[1, 0], [2], [2, 3]], [1, 0, 1])
    assert findings(train=exemplars) == {
        ("query_in_bag", "train"): (1, ["exemplar 0: instance 0"]),
        ("query_copy_in_bag", "train"): (1, ["exemplar 2: query 0 and member 3"]),
    }


def test_finds_labels_that_contradict_the_witnesses() -> None:
    exemplars = ExemplarSet.from_lists(
        AUDITED_POOL, [0, 0, 0], [[1, 2], [1], [2]], [1, 0, 1], [[False, False], [True], [True]]
    )
    assert findings(train=exemplars) == {
        ("positive_without_witness", "train"): (1, ["exemplar 0"]),
        ("negative_with_witness", "train"): (1, ["exemplar 1"]),
    }
    unknown = ExemplarSet.from_lists(AUDITED_POOL, [0, 0, 0], [[1, 2], [1], [2]], [1, 0, 1])
    assert findings(train=unknown) == {}


def test_finds_one_exemplar_with_two_labels() -> None:
    exemplars = ExemplarSet.from_lists(AUDITED_POOL, [0, 1, 3], [[1, 2], [2], [2, 1]], [1, 0, 0])
    assert findings(train=exemplars) == {("one_exemplar_two_labels", "train"): (1, ["exemplars 0 and 2"])}


def test_finds_classes_and_instances_that_two_splits_share() -> None:
    train = ExemplarSet.from_lists(AUDITED_POOL, [0], [[1]], [1])  # a, b of the classes x, y
    other = InstancePool("text", np.array(["new", "b", "a"], dtype=object), np.array(["n", "m", "x"]))
    test = ExemplarSet.from_lists(other, [0], [[1]], [1])  # new, b; its instance "a" is not used
    assert findings(train=train, test=test) == {("instance_in_two_sets", "train, test"): (1, ["instances 1 and 1"])}
    wider = ExemplarSet.from_lists(other, [0], [[1, 2]], [1])
    assert findings(train=train, test=wider) == {
        ("class_in_two_sets", "train, test"): (1, ["class 'x'"]),
        ("instance_in_two_sets", "train, test"): (2, ["instances 0 and 2", "instances 1 and 1"]),
    }


# Audits look at every reference of a query.


def referenced(references: list[list[int]]) -> ExemplarSet:
    images = np.arange(6 * 4, dtype=np.uint8).reshape(6, 2, 2)
    names = np.array([f"{number}.png" for number in range(6)], dtype=object)
    pool = InstancePool("image", images, names=names)
    return ExemplarSet.from_lists(pool, None, [[3, 4], [4, 5]], [1, 0], references=references)


def test_a_further_reference_in_the_bag_is_found() -> None:
    assert audit({"train": referenced([[0, 1], [2]])}) == []
    leaks = audit({"train": referenced([[0], [2, 1, 5]])})
    assert [leak.check for leak in leaks] == ["query_in_bag"]
    assert leaks[0].examples == ["exemplar 1: instance 5"]


def test_exemplars_with_other_references_are_others() -> None:
    images = np.arange(4 * 4, dtype=np.uint8).reshape(4, 2, 2)
    exemplars = ExemplarSet.from_lists(
        InstancePool("image", images), None, [[3]] * 3, [1, 0, 1], references=[[0, 1], [0, 2], [1, 0]]
    )
    assert same_exemplar(exemplars).tolist() == [0, 1, 0]
