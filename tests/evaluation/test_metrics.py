"""Metrics of bags and by group, against naive counts."""

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from miv import MIVError
from miv.evaluation import (
    Predictions,
    auroc,
    classification_metrics,
    group_table,
)
from miv.verifier.decisions import OperatingPoint
from tests.evaluation.examples import scores


def naive_auroc(label: Any, score: Any) -> float:
    """Every pair of a positive and a negative: 1 where the positive is above, a half where they tie."""
    positives = [s for s, y in zip(score, label, strict=True) if y == 1]
    negatives = [s for s, y in zip(score, label, strict=True) if y == 0]
    won = sum((p > n) + (p == n) / 2 for p in positives for n in negatives)
    return won / (len(positives) * len(negatives))


def naive_macro(label: Any, answer: Any) -> dict[str, float]:
    """Precision, recall and F1 of each class that occurs or was answered, by counting; 0 where there is nothing."""
    pairs = list(zip(label, answer, strict=True))
    rows = []
    for kind in sorted({*label, *answer}):
        right = sum(y == a == kind for y, a in pairs)
        answered, occurring = sum(a == kind for _, a in pairs), sum(y == kind for y, _ in pairs)
        precision, recall = right / answered if answered else 0.0, right / occurring if occurring else 0.0
        rows.append((precision, recall, 2 * right / (answered + occurring)))
    return dict(zip(("precision", "recall", "f1"), np.mean(rows, axis=0).tolist(), strict=True))


@given(st.integers(2, 40), st.data())
def test_agrees_with_a_count(size: int, data: st.DataObject) -> None:
    score = data.draw(scores(size))
    label = np.array(data.draw(st.lists(st.integers(0, 1), min_size=size, max_size=size)))
    found = classification_metrics(label, score)
    answer = (score >= 0.5).astype(int)
    for name, value in naive_macro(label.tolist(), answer.tolist()).items():
        assert found[name] == pytest.approx(value, abs=1e-9)
    assert found["accuracy"] == pytest.approx((label == answer).mean(), abs=1e-9)
    if 0 < label.sum() < size:
        assert found["auroc"] == pytest.approx(naive_auroc(label, score), abs=1e-9)


def test_at_the_threshold_the_answer_is_yes_as_that_of_an_operating_point() -> None:
    assert OperatingPoint.default().verdict([0.5, 0.4]).tolist() == [True, False]
    assert classification_metrics([1, 0], [0.5, 0.4])["accuracy"] == 1.0
    assert classification_metrics([1, 0], [0.0, -0.1], threshold=0.0)["accuracy"] == 1.0
    assert Predictions([0.0, -0.1], [1, 0], [0, 1, 2]).yes.tolist() == [True, False]


def test_one_label_only() -> None:
    assert np.isnan(auroc([1, 1], [0.2, 0.9]))


def test_a_class_that_was_never_answered_has_precision_0() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert classification_metrics([1, 0], [0.9, 0.9])["precision"] == pytest.approx(0.25)


def test_a_class_that_neither_occurs_nor_is_answered_is_left_out() -> None:
    assert classification_metrics([1, 1], [0.9, 0.8])["recall"] == 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: classification_metrics([1, 2], [0.1, 0.2]), "label of exemplar 1 is 2"),
        (lambda: classification_metrics([1, 0], [0.1, float("nan")]), r"probability\[1\] is nan"),
        (lambda: classification_metrics([1], [0.1, 0.2]), "label has 1 entry. Expected 2"),
        (lambda: classification_metrics([], []), "no exemplar"),
        (lambda: classification_metrics([1, 0], ["a", "b"]), "Expected numbers"),
    ],
)
def test_wrong_input_is_refused(call: Any, message: str) -> None:
    with pytest.raises(MIVError, match=message):
        call()


def test_groups_by_eye() -> None:
    rows = group_table([1, 1, 0, 0, 1], [0.9, 0.1, 0.8, 0.3, 0.7], ["4", "4", "4", "4", "9"])
    counts = [[row[name] for name in ("group", "tp", "tn", "fp", "fn", "exemplars")] for row in rows]
    assert counts == [["4", 1, 1, 1, 1, 4], ["9", 1, 0, 0, 0, 1]]
    assert [row["accuracy"] for row in rows] == [0.5, 1.0]


def test_numbers_come_by_value_and_before_words() -> None:
    rows = group_table([1] * 4, [0.9] * 4, ["10", "zwei", "9", "acht"])
    assert [row["group"] for row in rows] == ["9", "10", "acht", "zwei"]


@given(st.lists(st.tuples(st.integers(0, 1), st.sampled_from([0.2, 0.5, 0.8]), st.sampled_from("abc")), min_size=1))
def test_groups_agree_with_a_count(answers: list[tuple[int, float, str]]) -> None:
    label, probability, group = map(list, zip(*answers, strict=True))
    rows = group_table(np.array(label), np.array(probability), np.array(group))
    assert sum(row["exemplars"] for row in rows) == len(answers)
    for row in rows:
        inside = [(y, p >= 0.5) for y, p, g in answers if g == row["group"]]
        assert (row["tp"], row["tn"]) == (inside.count((1, True)), inside.count((0, False)))
        assert (row["fp"], row["fn"]) == (inside.count((0, True)), inside.count((1, False)))
