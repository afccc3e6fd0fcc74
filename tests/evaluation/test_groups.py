import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from miv.evaluation import GroupRow, group_table


def test_an_example_by_eye() -> None:
    rows = group_table([1, 1, 0, 0, 1], [0.9, 0.1, 0.8, 0.3, 0.7], ["4", "4", "4", "4", "9"])
    assert rows == [GroupRow("4", tp=1, tn=1, fp=1, fn=1), GroupRow("9", tp=1, tn=0, fp=0, fn=0)]
    assert [row.accuracy for row in rows] == [0.5, 1.0]
    assert rows[0].document() == {"group": "4", "exemplars": 4, "tp": 1, "tn": 1, "fp": 1, "fn": 1, "accuracy": 0.5}


def test_numbers_come_by_value_and_before_words() -> None:
    rows = group_table([1] * 4, [0.9] * 4, ["10", "zwei", "9", "acht"])
    assert [row.group for row in rows] == ["9", "10", "acht", "zwei"]


@given(st.lists(st.tuples(st.integers(0, 1), st.sampled_from([0.2, 0.5, 0.8]), st.sampled_from("abc")), min_size=1))
def test_agrees_with_a_count(answers: list[tuple[int, float, str]]) -> None:
    label, probability, group = map(list, zip(*answers, strict=True))
    rows = group_table(np.array(label), np.array(probability), np.array(group))
    assert sum(row.exemplars for row in rows) == len(answers)
    for row in rows:
        inside = [(y, p >= 0.5) for y, p, g in answers if g == row.group]
        assert (row.tp, row.tn) == (inside.count((1, True)), inside.count((0, False)))
        assert (row.fp, row.fn) == (inside.count((0, True)), inside.count((1, False)))
