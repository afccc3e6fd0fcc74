import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miv.errors import MIVError
from miv.evaluation import Predictions
from miv.evaluation.calibration_fits import fit_witness_rule, held_out_witnesses, measure_witness_sets
from miv.verifier.decisions import witness_score


def drawn(random: np.random.Generator, exemplars: int, largest: int = 20) -> Predictions:
    """Bags of 1 to ``largest``, half of them positive with one to three witnesses that get more attention."""
    label = np.arange(exemplars) % 2
    sizes = random.integers(1, largest, exemplars, endpoint=True)
    ptr = np.cumsum([0, *sizes])
    owner = np.repeat(np.arange(exemplars), sizes)
    place = np.arange(ptr[-1]) - ptr[owner]
    witness = (place < random.integers(1, 3, exemplars, endpoint=True)[owner]) & (label[owner] == 1)
    weight = np.exp(random.normal(size=ptr[-1]) + 2 * witness)
    attention = weight / np.add.reduceat(weight, ptr[:-1])[owner]
    return Predictions(random.normal(4 * label - 2, 2), label, ptr, attention, witness)


def coverage(answers: Predictions, threshold: float) -> tuple[int, int]:
    """Witnesses inside and all witnesses, by a loop."""
    inside = total = 0
    assert answers.attention is not None
    assert answers.witness is not None
    for number in range(len(answers)):
        bag = slice(answers.ptr[number], answers.ptr[number + 1])
        attention, witness = answers.attention[bag], answers.witness[bag]
        for share, true in zip(attention, witness, strict=True):
            total += int(true)
            inside += int(true and answers.probability[number] * len(attention) * share >= threshold)
    return inside, total


@pytest.mark.parametrize("epsilon", [0.05, 0.1, 0.3])
def test_new_witnesses_are_inside_as_often_as_promised(epsilon: float) -> None:
    random = np.random.default_rng(0)
    inside = total = 0
    for _ in range(150):
        seen, new = drawn(random, 120), drawn(random, 120)
        assert new.attention is not None
        assert new.witness is not None
        rule = fit_witness_rule(seen, seen.probability, epsilon)
        found = rule.witnesses(new.probability, new.probability >= 0.5, new.attention, new.ptr)
        inside += int((found & new.witness).sum())
        total += int(new.witness.sum())
    # 18,000 witnesses; neither fewer than promised, nor many more, which would make the sets needlessly large.
    assert 1 - epsilon - 0.01 < inside / total < 1 - epsilon + 0.03


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 0.25, 0.5]))
def test_on_its_own_data_a_rule_covers_at_least_what_it_promises(seed: int, epsilon: float) -> None:
    answers = drawn(np.random.default_rng(seed), 60)
    assert answers.attention is not None
    rule = fit_witness_rule(answers, answers.probability, epsilon)
    inside, total = coverage(answers, rule.threshold)
    assert inside / total >= 1 - epsilon
    measured = measure_witness_sets(
        answers, witness_score(answers.probability, answers.attention, answers.ptr) >= rule.threshold
    )
    assert measured["coverage"] == pytest.approx(inside / total)
    assert sum(row["exemplars"] for row in measured["by_bag_size"]) == 60


def test_with_one_witness_a_bag_it_is_split_conformal_prediction() -> None:
    """Nine bags of two, whose witness has 0.1, 0.2 … 0.9 of the other's attention; one tenth may be missed."""
    ratio = np.arange(1, 10) / 10
    attention = np.stack([ratio / (1 + ratio), 1 / (1 + ratio)], 1).ravel()
    answers = Predictions(np.full(9, 50.0), np.ones(9), np.arange(0, 19, 2), attention, np.tile([True, False], 9))
    # floor(0.1 · (9 + 1)) = 1: the threshold is the lowest score. floor(0.2 · 10) = 2: the second lowest.
    assert fit_witness_rule(answers, answers.probability, 0.1).threshold == pytest.approx(2 / 11)
    assert fit_witness_rule(answers, answers.probability, 0.2).threshold == pytest.approx(1 / 3)
    with pytest.raises(MIVError, match=r"with 9 known witnesses.*at least 19"):
        fit_witness_rule(answers, answers.probability, 0.05)


def test_a_set_may_be_empty_and_mostly_is_for_negatives() -> None:
    answers = drawn(np.random.default_rng(3), 400)
    decided = held_out_witnesses(answers, answers.probability, 0.2)
    assert decided is not None
    measured = measure_witness_sets(answers, decided)
    assert measured["empty_negative"] > 0.5 > measured["empty_positive"]
    assert measured["coverage"] == pytest.approx(0.8, abs=0.07)


def test_halves_too_small_to_fit_to_are_not_measured() -> None:
    answers = drawn(np.random.default_rng(0), 20)
    assert held_out_witnesses(answers, answers.probability, 0.05) is None


def test_measured_by_eye() -> None:
    answers = Predictions(
        [2.0, -2.0, -1.0],
        label=[1, 1, 0],
        ptr=[0, 3, 5, 7],
        attention=[0.6, 0.3, 0.1, 0.5, 0.5, 0.5, 0.5],
        witness=[True, True, False, True, False, False, False],
    )
    decided = np.array([True, False, True, False, False, True, False])
    measured = measure_witness_sets(answers, decided)
    assert measured["coverage"] == pytest.approx(1 / 3)
    assert measured["precision"] == pytest.approx(1 / 3)
    assert (measured["mean_size_positive"], measured["mean_size_negative"]) == (1.0, 1.0)
    assert (measured["empty_positive"], measured["empty_negative"]) == (0.5, 0.0)
