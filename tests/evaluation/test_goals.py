from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from numpy.typing import NDArray
from scipy.stats import beta

from miv.errors import MIVError
from miv.evaluation import Predictions, calibrate
from miv.evaluation.calibration import trade_text
from miv.evaluation.clusters import upper_bound
from miv.evaluation.goals import ErrorCurve, parse_goal


def naive_rates(probability: NDArray[Any], label: NDArray[Any], threshold: float) -> tuple[float, float]:
    accepted = probability >= threshold
    return float(accepted[label == 0].mean()), float((~accepted)[label == 1].mean())


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([2, 7, 2**30]),
    st.sampled_from(["eer", "far=0.2", "far=0.05", "frr=0.2", "frr=0.05"]),
)
def test_the_threshold_attains_its_goal(seed: int, levels: int, goal_text: str) -> None:
    random = np.random.default_rng(seed)
    label = np.repeat([0, 1], [80, 90]).astype(np.int8)
    probability = random.integers(0, levels, 170, endpoint=True) / levels * 0.8 + 0.2 * label
    curve, goal = ErrorCurve.of(probability, label), parse_goal(goal_text)
    threshold = float(curve.cuts[goal.cuts(curve)[1]])
    accepts, rejects = naive_rates(probability, label, threshold)
    others = [naive_rates(probability, label, cut) for cut in [*np.unique(probability), 1.1]]
    name, _, rest = goal_text.partition("=")
    if name in ("far", "frr"):
        mine, n, other = (accepts, 80, rejects) if name == "far" else (rejects, 90, accepts)
        errors = round(mine * n)
        assert beta.ppf(0.95, errors + 1, n - errors) <= float(rest)
        # Nothing else is as safe and makes fewer errors of the other kind.
        allowed = max(k for k in range(n) if beta.ppf(0.95, k + 1, n - k) <= float(rest))
        rivals = [pair if name == "far" else pair[::-1] for pair in others]
        assert other <= min(theirs for ours, theirs in rivals if round(ours * n) <= allowed)
    else:
        assert abs(accepts - rejects) == pytest.approx(min(abs(a - r) for a, r in others))


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 30))
def test_the_curve_counts_as_a_loop_does(seed: int, negatives: int, positives: int) -> None:
    random = np.random.default_rng(seed)
    label = np.repeat([0, 1], [negatives, positives]).astype(np.int8)
    probability = random.integers(0, 5, len(label), endpoint=True) / 5
    curve = ErrorCurve.of(probability, label)
    for place, cut in enumerate(curve.cuts):
        assert curve.false_accepts[place] == ((probability >= cut) & (label == 0)).sum()
        assert curve.false_rejects[place] == ((probability < cut) & (label == 1)).sum()
    assert (curve.false_accepts[0], curve.false_rejects[-1]) == (negatives, positives)


def test_neighbouring_numbers_are_told_apart() -> None:
    low = 0.5
    high = np.nextafter(low, 1)
    curve = ErrorCurve.of(np.array([low, high, 1.0]), np.array([0, 1, 0], np.int8))
    assert curve.false_accepts.tolist() == [2, 1, 1, 0]
    for place, cut in enumerate(curve.cuts):
        assert (np.array([low, 1.0]) >= cut).sum() == curve.false_accepts[place]


@given(st.integers(1, 400), st.integers(0, 400))
def test_the_bound_is_that_of_clopper_and_pearson(exemplars: int, errors: int) -> None:
    assume(errors <= exemplars)
    expected = 1.0 if errors == exemplars else float(beta.ppf(0.95, errors + 1, exemplars - errors))
    assert float(upper_bound(np.asarray(errors), exemplars)) == pytest.approx(expected, rel=1e-9)


def test_what_the_data_cannot_support_is_refused_with_the_numbers() -> None:
    label = np.repeat([0, 1], [200, 200]).astype(np.int8)
    curve = ErrorCurve.of(np.linspace(0, 1, 400), label)
    with pytest.raises(MIVError, match=r"200 negatives.*up to 0\.015 .*at least 29,956 negatives"):
        parse_goal("far=0.0001").cuts(curve)
    with pytest.raises(MIVError, match=r"200 positives.*at least 299 positives"):
        parse_goal("frr=0.01").cuts(curve)


UPSIDE_DOWN, COIN, FLAT = np.linspace(0, 1, 200), np.tile(np.linspace(0.1, 0.9, 100), 2), np.full(200, 0.3)


@pytest.mark.parametrize(
    ("goal", "probability", "message"),
    [
        ("far=0.05", UPSIDE_DOWN, "accepts any of the 100 positives"),
        ("frr=0.05", UPSIDE_DOWN, "rejects any of the 100 negatives"),
        ("far=0.2", COIN, "no better than chance"),
        ("frr=0.2", COIN, "no better than chance"),
        ("eer", UPSIDE_DOWN, r"equal error rate is 1, no better than a coin toss"),
        ("eer", FLAT, r"equal error rate is 0\.5"),
    ],
)
def test_a_verifier_that_cannot_reach_the_goal_is_refused(goal: str, probability: NDArray[Any], message: str) -> None:
    """Of a hundred positives and then a hundred negatives; each probability of a coin is that of one of both."""
    label = np.repeat([1, 0], 100).astype(np.int8)
    with pytest.raises(MIVError, match=message):
        parse_goal(goal).check(ErrorCurve.of(probability, label))


@pytest.mark.parametrize(
    "text",
    ["", "eer=1", "far", "far=", "far=x", "far=0", "far=1", "far=nan", "cost=10:1", "fat=0.1"],
)
def test_a_goal_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(MIVError, match="Expected"):
        parse_goal(text)


def test_the_rate_that_a_refusal_names_can_be_asked_for() -> None:
    random = np.random.default_rng(0)
    label = np.arange(602) % 2  # 301 negatives: the bound, 0.0099033, rounded down would be refused again
    answers = Predictions(random.normal(8.0 * label - 4.0), label, ptr=np.arange(603))
    with pytest.raises(MIVError, match=r"or a rate of 0\.01 or more") as refused:
        calibrate(answers, "far=0.0001")
    rate = str(refused.value).split("a rate of ")[1].split(" ")[0]
    assert calibrate(answers, f"far={rate}").point.goal == f"false-accept rate <= {rate}"


def test_shares_are_not_taken_for_attention_unasked() -> None:
    predictions = Predictions([1.0, -1.0], [1, 0], [0, 1, 2])
    with pytest.raises(MIVError, match="without witnesses_by"):
        calibrate(predictions, shares=[1.0, 1.0])


def signers(count: int) -> Predictions:
    """Answers for 36 exemplars of each signer, who differ."""
    random = np.random.default_rng(0)
    signer, label = np.repeat(np.arange(count), 36), random.integers(0, 2, 36 * count)
    logit = random.normal(2.5 * label - 1.2 + 0.6 * random.normal(size=count)[signer])
    return Predictions(logit, label, np.arange(len(label) + 1), query_class=signer.astype(str).astype(object))


def test_the_trade_shows_what_a_promise_costs_at_other_confidences() -> None:
    measured = calibrate(signers(19), "far=0.05").point.measured
    rows = [row for row in measured["trade"] if row["promised"] == 0.05]
    assert [row["confidence"] for row in rows] == [0.5, 0.8, 0.95]
    assert rows[0]["found"] > rows[1]["found"] > rows[2]["found"]
    assert all(row["expected"] <= 0.05 for row in rows)
    assert rows[2]["expected"] == measured["false_accept_rate"]["value"]  # what is saved
    assert "more classes like these would halve that" in measured["more_clusters"]
    assert "too few data" in trade_text(calibrate(signers(19)).point.measured)  # a rate of 0.01


def test_a_lower_confidence_promises_less_for_more_matches() -> None:
    points = [calibrate(signers(19), "far=0.05", confidence=confidence).point for confidence in (0.95, 0.5)]
    assert points[1].threshold < points[0].threshold
    assert [point.measured["confidence"] for point in points] == [0.95, 0.5]
    with pytest.raises(MIVError, match="confidence is 1"):
        calibrate(signers(19), "far=0.05", confidence=1.0)
