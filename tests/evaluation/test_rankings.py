"""Witnesses ranked by attention, by a score of each instance, and by the first choice alone."""

import numpy as np
import pytest

from miv import MIVError
from miv.evaluation import Predictions, evaluate, rank_instances, witness_rankings
from miv.evaluation.witnesses import influence
from tests.evaluation.examples import example_predictions

# Bags of four and two. The choice of the first is no witness, that of the second is.
PTR, WITNESS = [0, 4, 6], [False, True, False, False, False, True]
ONE_HOT = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0]
SIMILARITY = [0.9, 0.8, -0.2, 0.1, 0.3, 0.7]


def of_the_baseline(score: list[float] | None) -> Predictions:
    return Predictions([1.0, 1.0], [1, 1], PTR, ONE_HOT, WITNESS, score=score)


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


def test_even_attention_is_no_choice_of_one() -> None:
    even = Predictions([1.0], [1], [0, 2], [0.5, 0.5], [True, False])
    assert rank_instances(even, "score") is not None


def test_contributions_rank_too_and_stay_with_their_exemplars() -> None:
    answers = example_predictions().with_contribution(np.arange(example_predictions().ptr[-1], dtype=float))
    assert list(witness_rankings(answers) or {}) == ["attention", "score", "contribution", "one_hot"]
    taken = answers.take([3, 1])
    assert taken.contribution is not None
    assert taken.contribution.tolist() == [
        *range(answers.ptr[3], answers.ptr[4]),
        *range(answers.ptr[1], answers.ptr[2]),
    ]


def test_an_evaluation_has_all_rankings_and_the_papers_first() -> None:
    found = evaluate(of_the_baseline(SIMILARITY))
    assert found.witnesses == (found.rankings or {})["attention"]
    assert found.document()["rankings"]["score"]["i_ap"] == pytest.approx(0.75)
    assert "attention, as in the paper" in found.text()
    assert evaluate(Predictions([1.0], [1], [0, 2])).document()["rankings"] is None
