import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import roc_curve

import miv
from miv import Verifier
from miv.errors import MIVError
from miv.evaluation import Predictions, calibrate, expected_calibration_error
from miv.verifier.decisions import ConformalRule, StatedRule
from tests.evaluation.examples import example_predictions
from tests.training.tiny import tiny_sets

ANSWERS = example_predictions(400)


def test_the_threshold_is_where_the_errors_are_equal() -> None:
    point = calibrate(ANSWERS, "eer").point
    accepts, recall, _ = roc_curve(ANSWERS.label, ANSWERS.logit, drop_intermediate=False)
    nearest = int(np.abs(accepts - (1 - recall)).argmin())
    assert point.measured["false_accept_rate"]["value"] == pytest.approx(accepts[nearest])
    assert point.measured["eer"]["value"] == pytest.approx((accepts[nearest] + 1 - recall[nearest]) / 2)
    yes = point.verdict(point.probability(ANSWERS.logit))
    assert yes[ANSWERS.label == 0].mean() == pytest.approx(point.measured["false_accept_rate"]["value"])


def test_intervals_hold_the_value_and_the_bound_is_above_it() -> None:
    measured = calibrate(ANSWERS, "far=0.2").point.measured
    for name in ("false_accept_rate", "false_reject_rate"):
        assert measured[name]["low"] <= measured[name]["value"] <= measured[name]["high"]
    assert measured["false_accept_rate"]["value"] < measured["false_accept_rate"]["at_most"] <= 0.2
    assert json.loads(json.dumps(measured, allow_nan=False)) == measured


def test_known_witnesses_give_a_promise_if_asked_and_otherwise_the_stated_rule_holds() -> None:
    assert isinstance(calibrate(ANSWERS, epsilon=0.1).point.witness_rule, ConformalRule)
    without = Predictions(ANSWERS.logit, ANSWERS.label, ANSWERS.ptr, ANSWERS.attention)
    for found in (calibrate(ANSWERS), calibrate(without, epsilon=0.1)):
        assert found.point.witness_rule == StatedRule()
        assert "A fixed rule without a guarantee" in found.text()


def test_too_few_witnesses_leave_the_threshold_and_say_the_numbers() -> None:
    ptr = ANSWERS.ptr[:61]
    attention, witness = np.asarray(ANSWERS.attention)[: ptr[60]], np.asarray(ANSWERS.witness)[: ptr[60]]
    few = Predictions(ANSWERS.logit[:60], ANSWERS.label[:60], ptr, attention, witness)
    found = calibrate(few, "eer", epsilon=0.02)
    assert found.point.witness_rule == StatedRule()
    assert found.point.threshold == calibrate(few, "eer", epsilon=0.5).point.threshold
    assert "98% coverage cannot be guaranteed with" in found.point.measured["witnesses"]["too_few"]
    assert "A fixed rule without a guarantee: 98% coverage" in found.text()


def test_scaling_lowers_the_calibration_error_of_a_verifier_that_is_too_sure() -> None:
    random = np.random.default_rng(0)
    logit = random.normal(0, 2, 2000)
    label = random.random(2000) < 1 / (1 + np.exp(-logit))
    answers = Predictions(4 * logit, label.astype(int), np.arange(0, 4001, 2))
    ece = calibrate(answers).point.measured["ece"]
    assert ece["before"]["value"] > 0.1
    assert ece["after"]["value"] < 0.04


def test_calibration_error_by_a_loop() -> None:
    random = np.random.default_rng(0)
    probability, label = random.random(200), random.integers(0, 2, 200).astype(np.int8)
    expected = 0.0
    for number in range(15):
        inside = (probability >= number / 15) & (probability < (number + 1) / 15)
        if inside.any():
            expected += inside.mean() * abs(label[inside].mean() - probability[inside].mean())
    assert expected_calibration_error(label, probability) == pytest.approx(expected)


def test_hostile_sets_are_refused_by_name(tmp_path: Path) -> None:
    """One label, no exemplar, one class, and ten exemplars many times over, which are no evidence for new classes."""
    validation = tiny_sets("features", 80)["validation"]
    classes, label = np.asarray(validation.pool.classes)[validation.query], validation.label
    ten = np.concatenate([np.flatnonzero(label == value)[:5] for value in (0, 1)])
    Verifier("baseline", channels=8).save_pretrained(tmp_path / "model")
    for rows, message in (
        (np.flatnonzero(label == 1), "40 are positive.*more negatives"),
        (np.flatnonzero(label == 0), "0 are positive.*more positives"),
        (np.zeros(0, np.int64), "The set is empty"),
        (np.flatnonzero(classes == classes[0]), "cannot be shown with 4 negatives"),
        (np.tile(ten, 40), "200 negatives of 3 classes.*at least 10 classes"),
    ):
        with pytest.raises(MIVError, match=message):
            miv.calibrate(tmp_path / "model", {"validation": validation.subset(rows)}, goal="far=0.05")
    assert [path.name for path in (tmp_path / "model").glob("operating_point*")] == []


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_logits_of_a_file_that_are_no_numbers_are_refused(value: float, tmp_path: Path) -> None:
    ANSWERS.save(tmp_path / "answers.parquet")
    table = pq.read_table(tmp_path / "answers.parquet")
    logit = pa.array([*table["logit"].to_pylist()[:-1], value])
    pq.write_table(table.set_column(table.column_names.index("logit"), "logit", logit), tmp_path / "bad.parquet")
    with pytest.raises(MIVError, match=r"bad\.parquet.*logit\[399\] is"):
        Predictions.load(tmp_path / "bad.parquet")
