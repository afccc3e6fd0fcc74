"""Witness metrics, and what ranks the witnesses: attention, a score of each instance, or the first choice alone."""

from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from miv import MIVError
from miv.evaluation import Predictions, rank_instances, witness_metrics, witness_rankings, witness_scores
from miv.evaluation.witnesses import influence
from tests.evaluation.examples import example_predictions, ragged


def first_over_all_orders(truth: Any, score: Any) -> float:
    """Whether a witness is the first of all, in the mean over orders that fit the score."""
    orders = [o for o in permutations(range(len(truth))) if all(score[a] >= score[b] for a, b in pairwise(o))]
    return float(np.mean([truth[order[0]] for order in orders]))


@settings(deadline=None, max_examples=30)
@given(ragged(largest=5))
def test_the_first_witness_agrees_with_all_orders_of_the_tied(bags: Any) -> None:
    ptr, witness, attention, _ = bags
    found = witness_scores(ptr, witness, attention)
    for bag, (first, last) in enumerate(pairwise(ptr)):
        truth, score = witness[first:last], attention[first:last]
        if truth.all() or not truth.any():
            assert np.isnan(found.i_top1[bag])
            continue
        assert found.i_top1[bag] == pytest.approx(first_over_all_orders(truth, score), abs=1e-12)
        untied = [average_precision_score(truth, order) for order in permutations(range(len(truth)))]
        assert found.ap_by_chance[bag] == pytest.approx(np.mean(untied), abs=1e-9)


def test_a_score_that_says_nothing_has_what_chance_gives() -> None:
    witness = np.random.default_rng(0).random(5000) < 0.3
    ptr = np.arange(0, 5001, 5)
    even = witness_metrics(ptr, witness, np.ones(5000), np.ones(1000))
    random = witness_metrics(ptr, witness, np.random.default_rng(1).random(5000), np.ones(1000))
    assert even["i_top1"] == even["i_top1_chance"]
    assert random["i_top1"] == pytest.approx(even["i_top1"], abs=0.03)
    assert random["i_ap"] == pytest.approx(even["i_ap_chance"], abs=0.02)
    assert even["i_ap"] < even["i_ap_chance"] - 0.1  # i-AP counts tied instances together


@given(ragged())
def test_every_bag_agrees_with_sklearn(bags: Any) -> None:
    ptr, witness, attention, label = bags
    found = witness_scores(ptr, witness, attention)
    counted = []
    for bag, (first, last) in enumerate(pairwise(ptr)):
        truth, score = witness[first:last], attention[first:last]
        if truth.all() or not truth.any():
            assert np.isnan([found.i_auroc[bag], found.i_ap[bag], found.witness_share[bag]]).all()
            continue
        expected = roc_auc_score(truth, score), average_precision_score(truth, score)
        assert (found.i_auroc[bag], found.i_ap[bag]) == pytest.approx(expected, abs=1e-9)
        assert found.witness_share[bag] == pytest.approx(average_precision_score(truth, np.ones(len(truth))), abs=1e-9)
        if label[bag]:
            counted.append(expected)
    means = witness_metrics(ptr, witness, attention, label)
    assert means["exemplars"] == len(counted)
    if counted:
        assert (means["i_auroc"], means["i_ap"]) == pytest.approx(tuple(np.mean(counted, axis=0)), abs=1e-9)


@given(ragged(), st.integers(0, 2**32 - 1))
def test_the_order_within_a_bag_does_not_matter(bags: Any, seed: int) -> None:
    ptr, witness, attention, _ = bags
    random = np.random.default_rng(seed)
    order = np.concatenate([random.permutation(np.arange(first, last)) for first, last in pairwise(ptr)])
    before, after = witness_scores(ptr, witness, attention), witness_scores(ptr, witness[order], attention[order])
    np.testing.assert_array_equal(before.i_auroc, after.i_auroc)
    np.testing.assert_array_equal(before.i_ap, after.i_ap)


# The witness of the first wins; the second has none, the third nothing else; the fourth is negative.
PTR = [0, 2, 4, 6, 8]
WITNESS = [True, False, False, False, True, True, True, False]
ATTENTION = [0.9, 0.1, 0.9, 0.1, 0.9, 0.1, 0.1, 0.9]
LABEL = [1, 1, 1, 0]


def test_undefined_bags_are_left_out() -> None:
    ranks = {"i_auroc": 1.0, "i_ap": 1.0, "i_top1": 1.0}
    chance = {"i_ap_chance": 0.75, "i_top1_chance": 0.5}
    counts = {"exemplars": 1, "undefined": 2}
    assert witness_metrics(PTR, WITNESS, ATTENTION, LABEL) == {**ranks, **chance, **counts}
    negative = witness_metrics([0, 2], [False, False], [0.5, 0.5], [0])  # a negative bag has no witness as a rule
    assert (np.isnan(negative["i_auroc"]), negative["exemplars"], negative["undefined"]) == (True, 0, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 2], [True], [0.5, 0.5], [1]), "witness has 1 entry. Expected 2"),
        (([0, 2], [1, 0], [0.5, 0.5], [1]), "Expected True and False"),
        (([0, 2, 2], [True, False], [0.5, 0.5], [1, 1]), "Exemplar 1 has an empty bag"),
        (([1, 2], [True, False], [0.5, 0.5], [1]), "runs from 1 to 2"),
        (([0, 2], [True, False], [0.5, float("inf")], [1]), r"attention\[1\] is inf"),
    ],
)
def test_wrong_input_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(MIVError, match=message):
        witness_metrics(*arguments)


# Bags of four and two. The choice of the first is no witness, that of the second is.
TWO_BAGS, TRUE_WITNESS = [0, 4, 6], [False, True, False, False, False, True]
ONE_HOT = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0]
SIMILARITY = [0.9, 0.8, -0.2, 0.1, 0.3, 0.7]


def of_the_baseline(score: list[float] | None) -> Predictions:
    return Predictions([1.0, 1.0], [1, 1], TWO_BAGS, ONE_HOT, TRUE_WITNESS, score=score)


def test_ties_of_one_hot_attention_are_counted_against_it() -> None:
    found = witness_rankings(of_the_baseline(SIMILARITY))
    assert found is not None
    assert list(found) == ["attention", "score", "one_hot"]
    # First bag: below the choice, the witness ties with two others, or is above both.
    assert found["attention"]["i_auroc"] == found["one_hot"]["i_auroc"] == pytest.approx((1 / 3 + 1) / 2)
    assert found["score"]["i_auroc"] == pytest.approx((2 / 3 + 1) / 2)
    assert found["attention"]["i_ap"] == pytest.approx((1 / 4 + 1) / 2)
    assert found["score"]["i_ap"] == pytest.approx((1 / 2 + 1) / 2)
    assert {one["i_top1"] for one in found.values()} == {0.5}  # the first choice is the same in all


def test_without_its_score_a_one_hot_attention_has_none() -> None:
    """As in answers from before the score was kept: attention must not pass for it."""
    old = of_the_baseline(None)
    assert rank_instances(old, "score") is None
    assert list(witness_rankings(old) or {}) == ["attention", "one_hot"]
    with pytest.raises(MIVError, match="i_ap_by_score needs score and witnesses"):
        influence(old, "i_ap_by_score")
    even = Predictions([1.0], [1], [0, 2], [0.5, 0.5], [True, False])  # no choice of one instance
    assert rank_instances(even, "score") is not None


def test_soft_attention_is_its_own_score() -> None:
    answers = example_predictions()
    found = witness_rankings(answers)
    assert found is not None
    assert found["score"] == found["attention"]
    assert found["one_hot"]["i_top1"] == found["attention"]["i_top1"]
    assert found["one_hot"]["i_auroc"] != found["attention"]["i_auroc"]
    np.testing.assert_array_equal(influence(answers, "i_ap"), influence(answers, "i_ap_by_score"))
    first = rank_instances(answers, "one_hot")
    assert first is not None
    assert set(first.tolist()) == {0.0, 1.0}
