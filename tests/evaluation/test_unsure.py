"""Two thresholds: what each promises, and what lies between them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from miv.errors import MIVError
from miv.evaluation import Predictions, calibrate
from miv.evaluation.goals import ErrorCurve, parse_goal

QUERIES, BAGS = 40, 10
CLUSTER = np.tile(np.repeat(np.arange(QUERIES), BAGS), 2)
LABEL = np.repeat([0, 1], QUERIES * BAGS).astype(np.int8)


def overlapping(random: np.random.Generator, apart: float, correlation: float = 0.2) -> NDArray[np.float64]:
    """Scores of negatives, then positives; exemplars of one query share a part, also across the two."""
    shared = math.sqrt(correlation) * np.repeat(random.normal(size=QUERIES), BAGS)
    own = math.sqrt(1 - correlation) * random.normal(size=(2, QUERIES * BAGS))
    return np.concatenate([shared + own[0], shared + own[1] + apart])


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.floats(0.5, 6))
def test_each_threshold_is_that_of_its_own_goal_unless_one_keeps_both(seed: int, apart: float) -> None:
    score = overlapping(np.random.default_rng(seed), apart, correlation=0.0)
    curve = ErrorCurve.of(score, LABEL)
    both, far, frr = (parse_goal(text) for text in ("far=0.05,frr=0.1", "far=0.05", "frr=0.1"))
    (lower, upper), first, last = both.cuts(curve), far.cuts(curve)[1], frr.cuts(curve)[1]
    if last < first:
        assert (lower, upper) == (last, first)
    else:
        assert first <= lower == upper <= last
    assert parse_goal(" frr=0.1, far=0.05 ") == both


def answers(apart: float) -> Predictions:
    score = overlapping(np.random.default_rng(1), apart)
    return Predictions(score - apart / 2, LABEL, np.arange(len(LABEL) + 1), query=CLUSTER)


def test_what_is_between_the_thresholds_is_counted_and_said() -> None:
    given_answers = answers(2.0)
    found = calibrate(given_answers, "far=0.05,frr=0.1")
    point, measured = found.point, found.point.measured
    decision = point.decide(point.probability(given_answers.logit))
    assert point.lower_threshold is not None
    assert point.goal == "false-accept rate <= 0.05, false-reject rate <= 0.1"
    assert measured["unsure"]["exemplars"] == (decision == "unsure").sum() > 0
    assert measured["unsure"]["of_positives"] == (decision[LABEL == 1] == "unsure").mean()
    assert measured["unsure"]["low"] < measured["unsure"]["value"] < measured["unsure"]["high"]
    assert measured["false_accept_rate"]["value"] == (decision[LABEL == 0] == "yes").mean()
    assert measured["false_reject_rate"]["value"] == (decision[LABEL == 1] == "no").mean()
    assert measured["false_reject_rate"]["at_most"] <= 0.1
    assert f"unsure     {measured['unsure']['value']:.1%} of the exemplars" in found.text()


def test_without_overlap_one_threshold_keeps_both_rates() -> None:
    found = calibrate(answers(9.0), "far=0.05,frr=0.1")
    assert found.point.lower_threshold is None
    assert "unsure" not in found.point.measured
    assert "it keeps both rates, so no answer is unsure" in found.text()


@pytest.mark.parametrize("text", ["far=0.1,far=0.2", "far=0.1,eer", "far=0.1,frr=0.1,frr=0.2", "far=0.1,", "eer,eer"])
def test_two_goals_are_one_of_each_rate(text: str) -> None:
    with pytest.raises(MIVError, match=r"Expected eer, far=0.01, frr=0.05, or both as far=0.01,frr=0.05"):
        parse_goal(text)
