import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from miv import MIVError
from miv.evaluation import attention_entropy, entropy_metrics
from tests.evaluation.examples import ragged


def test_examples_by_eye() -> None:
    found = attention_entropy([0, 1, 5, 8], [1.0, 0.25, 0.25, 0.25, 0.25, 0.0, 1.0, 0.0])
    assert found.tolist() == pytest.approx([0.0, math.log(4), 0.0])


@given(ragged())
def test_agrees_with_a_sum_and_lies_between_0_and_log_n(bags: Any) -> None:
    ptr, _, attention, _ = bags
    weight = attention + 0.01  # no bag of nothing but zeros
    found = attention_entropy(ptr, weight)
    for bag, (first, last) in enumerate(pairwise(ptr)):
        total = math.fsum(weight[first:last])
        shares = [float(w) / total for w in weight[first:last]]
        assert found[bag] == pytest.approx(-math.fsum(s * math.log(s) for s in shares), abs=1e-9)
        assert 0 <= found[bag] <= math.log(last - first) + 1e-9


def test_means_by_label_leave_out_bags_of_one() -> None:
    found = entropy_metrics([0, 2, 4, 5], [1.0, 0.0, 0.5, 0.5, 1.0], label=[1, 0, 0])
    assert found["positive"] == {"entropy": 0.0, "log_n": pytest.approx(math.log(2)), "evenness": 0.0, "exemplars": 1}
    assert found["negative"]["evenness"] == pytest.approx(1.0)
    assert found["all"]["evenness"] == pytest.approx(0.5)
    assert found["all"]["exemplars"] == 2


def test_no_exemplar_is_left() -> None:
    found = entropy_metrics([0, 1], [1.0], label=[1])
    assert np.isnan(found["all"]["entropy"])
    assert found["all"]["exemplars"] == 0


@pytest.mark.parametrize(
    ("attention", "message"), [([-0.5, 1.5], r"attention\[0\] is -0.5"), ([0.0, 0.0], "0 everywhere")]
)
def test_what_is_no_attention_is_refused(attention: list[float], message: str) -> None:
    with pytest.raises(MIVError, match=message):
        attention_entropy([0, 2], attention)
