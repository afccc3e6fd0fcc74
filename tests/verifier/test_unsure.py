"""The decisions of an operating point with two thresholds, wherever they are shown."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from miv import Verifier
from miv.errors import MIVError
from miv.evaluation import Predictions, evaluate
from miv.evaluation.out_of_distribution import fit_out_of_distribution
from miv.runtime import SilentProgress
from miv.verifier.decisions import OPERATING_POINT_NAME, OperatingPoint
from miv.verifier.table_writing import score_table

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


# Queries and instances that are out of distribution.


FAR = [90.0, -90.0]


@pytest.fixture(scope="module")
def verifier() -> Verifier:
    """Answers by cosine; its train features are near (1, 0) and (0, 1)."""
    random = np.random.default_rng(0)
    known = np.eye(2)[random.integers(2, size=400)] + random.normal(0, 0.1, (400, 2))
    found = Verifier("nearest", channels=2)
    found.unlike = fit_out_of_distribution(known[:200].astype(np.float32), known[200:].astype(np.float32))
    return found


def test_a_query_out_of_distribution_gives_unsure(verifier: Verifier) -> None:
    bag = [[1.0, 0.0], [0.0, 1.0]]
    usual = verifier.verify([1.0, 0.1], bag)
    assert (usual.decision, usual.reason, usual.document()["unlike"]) == ("yes", None, {"query": False, "places": []})
    odd = verifier.verify(FAR, [FAR, *bag])
    assert (odd.decision, odd.verdict, bool(odd)) == ("unsure", False, False)
    assert odd.reason == "the query is out of distribution"
    assert str(odd).startswith("Unsure: the query is out of distribution (probability ")
    assert "1 instance is out of distribution: place 0." in str(odd)
    document = json.loads(json.dumps(odd.document()))
    assert (document["decision"], document["unlike"]) == ("unsure", {"query": True, "places": [0]})
    assert document["reason"] == "the query is out of distribution"
    assert "Unsure: the query is out of distribution" in odd._repr_html_()


def test_instances_of_the_bag_are_named_and_a_bag_of_them_alone_gives_unsure(verifier: Verifier) -> None:
    query, ordinary = [1.0, 0.0], [1.0, 0.1]
    some = verifier.verify(query, [FAR, ordinary, FAR])
    assert some.decision == "yes"
    assert "2 instances are out of distribution: places 0, 2." in str(some)
    assert "2 instances are out of distribution: places 0, 2." in some._repr_html_()
    assert " out of distribution</small>" in some._repr_html_()
    alone = verifier.verify(query, [FAR, FAR])
    assert alone.decision == "unsure"
    assert alone.reason == "every instance of the bag is out of distribution"
    assert "out of distribution" in str(verifier.verify(query, [FAR, ordinary], witnesses="none"))


def test_many_verdicts_frames_and_tables_say_it_too(verifier: Verifier, tmp_path: Path) -> None:
    given = [[1.0, 0.0], FAR, [0.0, 1.0], [0.0, 1.0]]
    bags = [[[1.0, 0.0]], [[1.0, 0.0]], [FAR], [FAR, [1.0, -0.1]]]
    verdicts = verifier.verify_many(given, bags)
    assert verdicts.decision.tolist() == [one.decision for one in verdicts] == ["yes", "unsure", "unsure", "no"]
    assert "1 yes, 2 unsure" in repr(verdicts)
    assert verdicts.unlike is not None
    assert verdicts.unlike.query.tolist() == [False, True, False, False]
    table = tmp_path / "pairs.jsonl"
    table.write_text(
        "".join(json.dumps({"query": query, "bag": bag}) + "\n" for query, bag in zip(given, bags, strict=True))
    )
    scored = score_table(verifier, table, tmp_path / "out.csv", progress=SilentProgress())
    assert (scored.yes, scored.unsure) == (1, 2)
    header, *rows = (tmp_path / "out.csv").read_text().splitlines()
    assert header.endswith("reason,unlike_query,unlike")
    assert "the query is out of distribution" in rows[1]
    score_table(verifier, table, tmp_path / "by.csv", by_instance=True, progress=SilentProgress())
    marks = [line.rsplit(",", 1)[1] for line in (tmp_path / "by.csv").read_text().splitlines()]
    assert marks[0] == "unlike"
    assert [mark.lower() for mark in marks[1:]] == ["false", "false", "true", "true", "false"]


def test_references_are_out_of_distribution_only_if_all_are(verifier: Verifier) -> None:
    bag = [[1.0, 0.0], [0.0, 1.0]]
    assert verifier.verify([FAR, [1.0, 0.0]], bag).reason is None
    verdicts = verifier.verify_many([[FAR, FAR], [[1.0, 0.0], FAR, FAR], [FAR]], [bag, bag, bag])
    assert verdicts.unlike is not None
    assert verdicts.unlike.query.tolist() == [True, False, True]


def test_is_saved_with_the_verifier_and_replaced_with_it(verifier: Verifier, tmp_path: Path) -> None:
    verifier.save_pretrained(tmp_path / "v")
    again = Verifier.from_pretrained(tmp_path / "v")
    assert again.unlike is not None
    assert again.verify(FAR, [[1.0, 0.0]]).decision == "unsure"
    Verifier("nearest", channels=2).save_pretrained(tmp_path / "v")
    without = Verifier.from_pretrained(tmp_path / "v")
    assert without.unlike is None
    assert without.verify(FAR, [[1.0, 0.0]]).unlike is None
