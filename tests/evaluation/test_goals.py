import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import beta

from miv.errors import MIVError
from miv.evaluation import Predictions, calibrate
from miv.evaluation.error_curve import ErrorCurve, upper_bound
from miv.evaluation.goals import parse_goal


def naive_rates(probability: NDArray[Any], label: NDArray[Any], threshold: float) -> tuple[float, float]:
    accepted = probability >= threshold
    return float(accepted[label == 0].mean()), float((~accepted)[label == 1].mean())


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([2, 7, 2**30]),
    st.sampled_from(["eer", "far=0.2", "far=0.05", "frr=0.2", "frr=0.05", "cost=10:1", "cost=1:3:0.2"]),
)
def test_the_threshold_attains_its_goal(seed: int, levels: int, goal_text: str) -> None:
    random = np.random.default_rng(seed)
    label = np.repeat([0, 1], [80, 90]).astype(np.int8)
    probability = random.integers(0, levels, 170, endpoint=True) / levels * 0.8 + 0.2 * label
    curve, goal = ErrorCurve.of(probability, label), parse_goal(goal_text)
    threshold = float(curve.cuts[int(goal.pick(curve))])
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
    elif name == "eer":
        assert abs(accepts - rejects) == pytest.approx(min(abs(a - r) for a, r in others))
    else:
        costs = [float(number) for number in rest.split(":")]
        prior = costs[2] if len(costs) == 3 else 90 / 170
        price = [costs[0] * (1 - prior) * a + costs[1] * prior * r for a, r in [(accepts, rejects), *others]]
        assert price[0] == pytest.approx(min(price))


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
        parse_goal("far=0.0001").pick(curve)
    with pytest.raises(MIVError, match=r"200 positives.*at least 299 positives"):
        parse_goal("frr=0.01").pick(curve)


def test_the_number_asked_for_is_just_enough() -> None:
    for negatives, refused in ((298, True), (299, False)):
        label = np.repeat([0, 1], [negatives, 5]).astype(np.int8)
        curve = ErrorCurve.of(np.linspace(0, 1, len(label)), label)
        if refused:
            with pytest.raises(MIVError, match="299"):
                parse_goal("far=0.01").pick(curve)
        else:
            assert curve.false_accepts[int(parse_goal("far=0.01").pick(curve))] == 0


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
        ("cost=1:3", UPSIDE_DOWN, "would answer yes to all 200 exemplars"),
        ("cost=3:1", UPSIDE_DOWN, "would answer no to all 200 exemplars"),
    ],
)
def test_a_verifier_that_cannot_reach_the_goal_is_refused(goal: str, probability: NDArray[Any], message: str) -> None:
    """Of a hundred positives and then a hundred negatives; each probability of a coin is that of one of both."""
    label = np.repeat([1, 0], 100).astype(np.int8)
    with pytest.raises(MIVError, match=message):
        parse_goal(goal).check(ErrorCurve.of(probability, label))


def test_costs_that_so_few_negatives_cannot_bear_out_are_refused() -> None:
    """No negative of 200 is accepted, but up to 0.0149 may be, which costs 1000 · 1/2 · 0.0149; always no costs 1/2."""
    label = np.repeat([0, 1], [200, 200]).astype(np.int8)
    probability = np.concatenate([np.linspace(0, 0.5, 200), np.linspace(0.4, 1, 200)])
    curve = ErrorCurve.of(probability, label)
    parse_goal("cost=10:1").check(curve)
    assert curve.false_accepts[int(parse_goal("cost=1000:1").pick(curve))] == 0
    with pytest.raises(MIVError, match=r"Too few.*accepts 0 of 200 .*up to 0\.015 .*no to everything costs 0\.5"):
        parse_goal("cost=1000:1").check(curve)


@pytest.mark.parametrize(
    "text",
    ["", "eer=1", "far", "far=", "far=x", "far=0", "far=1", "far=nan", "cost=1", "cost=0:1", "cost=1:1:1", "fat=0.1"],
)
def test_a_goal_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(MIVError, match="Expected"):
        parse_goal(text)


def test_resampled_curves_scatter_around_the_truth() -> None:
    random = np.random.default_rng(0)
    label = np.repeat([0, 1], [300, 200]).astype(np.int8)
    score = random.normal(label, 1)
    curve = ErrorCurve.of(score, label)
    batches = list(curve.resampled(score, label, np.arange(500), 250, seed=0))
    assert [len(batch.false_accepts) for batch in batches] == [100, 100, 50]
    assert all((batch.negatives + batch.positives == 500).all() for batch in batches)
    assert all((batch.false_accepts[:, 0] == batch.negatives).all() for batch in batches)
    middle = len(curve.cuts) // 2
    rates = np.concatenate([batch.false_accept_rate[:, middle] for batch in batches])
    truth = curve.false_accept_rate[middle]
    assert rates.mean() == pytest.approx(truth, abs=0.01)
    assert rates.std() == pytest.approx(math.sqrt(truth * (1 - truth) / 300), rel=0.2)


def test_the_rate_that_a_refusal_names_can_be_asked_for() -> None:
    random = np.random.default_rng(0)
    label = np.arange(602) % 2  # 301 negatives: the bound, 0.0099033, rounded down would be refused again
    answers = Predictions(random.normal(8.0 * label - 4.0), label, ptr=np.arange(603))
    with pytest.raises(MIVError, match=r"or a rate of 0\.01 or more") as refused:
        calibrate(answers, "far=0.0001", rounds=10)
    rate = str(refused.value).split("a rate of ")[1].split(" ")[0]
    assert calibrate(answers, f"far={rate}", rounds=10).point.goal == f"false-accept rate <= {rate}"


def test_shares_are_not_taken_for_attention_unasked() -> None:
    predictions = Predictions([1.0, -1.0], [1, 0], [0, 1, 2])
    with pytest.raises(MIVError, match="without witnesses_by"):
        calibrate(predictions, shares=[1.0, 1.0])
