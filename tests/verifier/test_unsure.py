"""The decisions of an operating point with two thresholds, wherever they are shown."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from miv import Verifier
from miv.errors import MIVError
from miv.evaluation import Predictions, evaluate
from miv.verifier.decisions import OPERATING_POINT_NAME, OperatingPoint

TWO = OperatingPoint(threshold=0.75, lower_threshold=0.25, goal="two rates")


def test_the_decision_is_yes_at_the_upper_threshold_and_no_below_the_lower() -> None:
    probability = [0.24, 0.25, 0.74, 0.75]
    assert TWO.decide(probability).tolist() == ["no", "unsure", "unsure", "yes"]
    assert TWO.verdict(probability).tolist() == [False, False, False, True]
    one = OperatingPoint(threshold=0.75)
    assert one.decide(probability).tolist() == ["no", "no", "no", "yes"]


def test_the_stated_rule_names_candidates_of_an_unsure_bag() -> None:
    found = TWO.witnesses([0.1, 0.5, 0.9], attention=[0.9, 0.1] * 3, ptr=[0, 2, 4, 6])
    assert found.tolist() == [False, False, True, False, True, False]


def test_two_thresholds_are_kept_and_one_is_written_as_before(tmp_path: Path) -> None:
    TWO.save(tmp_path)
    assert OperatingPoint.load(tmp_path) == TWO
    document = json.loads((tmp_path / OPERATING_POINT_NAME).read_text())
    assert (document["format_version"], document["lower_threshold"]) == (2, 0.25)
    before = OperatingPoint(threshold=0.75).document()
    assert before["format_version"] == 1
    assert "lower_threshold" not in before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lower_threshold": 0.8}, "lower threshold is 0.8. Expected a finite number from 0 to 0.75"),
        ({"lower_threshold": "0.2"}, "lower threshold"),
        ({"format_version": 1}, "keys"),
        ({"format_version": [2]}, "version 1 or 2"),
    ],
)
def test_a_damaged_lower_threshold_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    (tmp_path / OPERATING_POINT_NAME).write_text(json.dumps({**TWO.document(), **changes}))
    with pytest.raises(MIVError, match=message):
        OperatingPoint.load(tmp_path)


def even_verifier(**point: Any) -> Verifier:
    """Gives every instance the same attention, and every bag a probability of 0.5."""
    verifier = Verifier("gabmil", channels=4).eval()
    for weight in verifier.parameters():
        weight.data.zero_()
    verifier.operating_point = OperatingPoint(**point)
    return verifier


@pytest.mark.parametrize(
    ("threshold", "lower", "decision", "line"),
    [
        (0.75, 0.25, "unsure", "Unsure: probability 0.500, between the thresholds 0.250 and 0.750."),
        (0.5, 0.25, "yes", "Yes: probability 0.500, thresholds 0.250 and 0.500."),
        (0.75, 0.6, "no", "No: probability 0.500, thresholds 0.600 and 0.750."),
        (0.75, None, "no", "No: probability 0.500, threshold 0.750."),
    ],
)
def test_a_verdict_says_its_decision(threshold: float, lower: float | None, decision: str, line: str) -> None:
    query, bag = np.ones(4, np.float32), np.eye(4, dtype=np.float32)[:1]
    verdict = even_verifier(threshold=threshold, lower_threshold=lower).verify(query, bag)
    assert verdict.decision == decision
    assert verdict.reason == ("between the thresholds" if decision == "unsure" else None)
    assert bool(verdict) == verdict.verdict == (decision == "yes")
    assert str(verdict).splitlines()[0] == line
    assert f"<b>{line}</b>" in verdict._repr_html_()
    assert (verdict.document()["decision"], verdict.document()["lower_threshold"]) == (decision, lower)
    if decision == "unsure":
        assert "1 candidate by attention, to look at" in str(verdict)


def test_many_verdicts_have_their_decisions() -> None:
    query, bag = np.ones(4, np.float32), np.eye(4, dtype=np.float32)
    verdicts = even_verifier(threshold=0.75, lower_threshold=0.25).verify_many([query] * 2, [bag, bag[:1]])
    assert verdicts.decision.tolist() == ["unsure", "unsure"]
    assert repr(verdicts) == "Verdicts(2 exemplars, 0 yes, 2 unsure, thresholds 0.250 and 0.750)"


def test_evaluation_counts_the_unsure_as_neither_right_nor_wrong() -> None:
    # Probabilities 0.88, 0.62, 0.27, 0.05, 0.82: the second and third are between the thresholds.
    answers = Predictions([2.0, 0.5, -1.0, -3.0, 1.5], label=[1, 1, 0, 0, 0], ptr=np.arange(6))
    found = evaluate(answers, point=TWO)
    at = found.document()["operating_point"]
    assert (at["false_accepts"], at["false_rejects"], at["unsure"], at["unsure_positives"]) == (1, 0, 2, 1)
    assert at["accuracy_of_decided"] == pytest.approx(2 / 3)
    assert "2 of 5 (40.0%)" in found.text()
