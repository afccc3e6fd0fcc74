import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from miv.errors import MIVError
from miv.verifier.decisions import OPERATING_POINT_NAME, ConformalRule, OperatingPoint, StatedRule, WitnessRule
from miv.verifier.scalings import Identity, Platt, Scaling, Temperature

shares = st.floats(0, 1)
above_zero = st.floats(1e-3, 1e3)


scalings = st.one_of(
    st.just(Identity()), st.builds(Temperature, above_zero), st.builds(Platt, above_zero, st.floats(-50, 50))
)
rules = st.one_of(st.builds(StatedRule, above_zero), st.builds(ConformalRule, shares, shares))


@settings(max_examples=25)  # every save is flushed to the disk
@given(scalings, shares, st.text(max_size=20), rules)
def test_what_is_saved_is_what_is_loaded(
    tmp_path_factory: pytest.TempPathFactory, scaling: Scaling, threshold: float, goal: str, rule: WitnessRule
) -> None:
    folder = tmp_path_factory.mktemp("verifier")
    point = OperatingPoint(scaling, threshold, goal, rule, {"eer": {"value": 0.25}})
    point.save(folder)
    assert OperatingPoint.load(folder) == point
    assert not point.is_default


@given(scalings, st.lists(st.floats(-100, 100), min_size=2, max_size=20))
def test_no_scaling_turns_the_order(scaling: Scaling, logits: list[float]) -> None:
    probability = scaling.probability(np.sort(logits))
    assert (np.diff(probability) >= 0).all()
    assert 0 <= probability.min() <= probability.max() <= 1


def test_a_threshold_may_be_one_that_no_probability_reaches() -> None:
    never = float(np.nextafter(1, 2))
    assert OperatingPoint(threshold=never).verdict([0.5, 1.0]).tolist() == [False, False]
    assert OperatingPoint(threshold=0).threshold == 0.0


def test_the_stated_rule_is_on_attention_times_the_size_of_the_bag() -> None:
    rule = StatedRule(factor=1.5)
    attention = [1.0, 0.75, 0.25, 0.4, 0.3, 0.3, 1.0]
    inside = rule.witnesses([0.9] * 3 + [0.1], [True] * 3 + [False], attention, ptr=[0, 1, 3, 6, 7])
    # A bag of one; one of two at 1.5 times 1/2; an even bag of three, of which none has enough; a rejected bag.
    assert inside.tolist() == [True, True, False, False, False, False, False]


def test_an_accepted_bag_has_its_best_instance_where_a_conformal_threshold_is_out_of_reach() -> None:
    point = OperatingPoint(witness_rule=ConformalRule(threshold=2.1, epsilon=0.1))
    marked = point.witnesses([0.99, 0.2, 0.9], attention=[0.0, 1.0, 0.0, 1.0, 0.8, 0.1, 0.1], ptr=[0, 2, 4, 7])
    assert marked.tolist() == [False, True, False, False, True, False, False]


def test_the_conformal_rule_falls_with_the_probability_of_the_bag() -> None:
    rule = ConformalRule(threshold=0.6, epsilon=0.1)
    attention = [0.6, 0.3, 0.1] * 2
    inside = rule.witnesses([0.9, 0.3], [True, False], attention, ptr=[0, 3, 6])
    assert inside.tolist() == [True, True, False, False, False, False]  # 1.62, 0.81, 0.27; then 0.54 at most


def change(document: dict[str, Any], **changes: Any) -> str:
    return json.dumps({**document, **changes})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda d: change(d)[:-20], "not JSON"),
        (lambda d: "[]", "Expected an object"),
        (lambda d: change(d, format="other"), "format"),
        (lambda d: change(d, surplus=1), "keys"),
        (lambda d: change(d, threshold="0.5"), "threshold"),
        (lambda d: change(d, threshold=float("nan")), "threshold"),
        (lambda d: change(d, threshold=10**400), "threshold is a number with more than 308 digits"),
        (lambda d: change(d, threshold=50), "threshold is 50. Expected a finite number from 0 to 1"),
        (lambda d: change(d, witness_rule={"name": "attention_times_n", "factor": 10**400}), "factor of the witness"),
        (lambda d: change(d, goal=3), "goal"),
        (lambda d: change(d, scaling={"name": "plat"}), "Did you mean 'platt'"),
        (lambda d: change(d, scaling={"name": "platt", "slope": -1.0, "offset": 0.0}), "slope"),
        (lambda d: change(d, scaling={"name": "temperature"}), "Invalid parameters"),
        (lambda d: change(d, witness_rule={"name": "conformal", "threshold": -1.0, "epsilon": 0.1}), "threshold"),
        (lambda d: change(d, witness_rule=None), "witness rule"),
    ],
)
def test_a_damaged_file_is_refused_and_named(tmp_path: Path, damage: Any, message: str) -> None:
    path = tmp_path / OPERATING_POINT_NAME
    path.write_text(damage(OperatingPoint(Temperature(2.0)).document()))
    with pytest.raises(MIVError, match=message) as caught:
        OperatingPoint.load(tmp_path)
    assert str(path) in str(caught.value)
    assert "miv calibrate" in str(caught.value)


def test_a_verifier_keeps_its_operating_point(tmp_path: Path) -> None:
    from miv import Verifier

    verifier = Verifier("baseline", channels=4)
    verifier.operating_point = OperatingPoint(Platt(1.5, -0.5), 0.7, "equal error rate")
    verifier.save_pretrained(tmp_path)
    assert Verifier.from_pretrained(tmp_path).operating_point == verifier.operating_point
    # Another verifier saved over it must not inherit the threshold of the first.
    Verifier("baseline", channels=4).save_pretrained(tmp_path)
    assert Verifier.from_pretrained(tmp_path).operating_point.is_default


def test_a_link_to_nothing_is_not_the_default(tmp_path: Path) -> None:
    (tmp_path / "operating_point.json").symlink_to(tmp_path / "gone")
    with pytest.raises(MIVError, match=r"operating_point.json is missing"):
        OperatingPoint.load(tmp_path)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_statistics_of_a_calibration_that_are_no_numbers_are_damage(number: float, tmp_path: Path) -> None:
    OperatingPoint(threshold=0.7).save(tmp_path)
    path = tmp_path / OPERATING_POINT_NAME
    measured = {"false_reject_rate": {"value": number, "low": 0.1, "high": 0.2}}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"measured": measured}))
    with pytest.raises(MIVError, match="NaN or infinite"):
        OperatingPoint.load(tmp_path)


def test_statistics_that_are_no_rates_or_sizes_are_not_told() -> None:
    measured = {"false_reject_rate": {"value": 7.5, "low": 0.1, "high": 0.2}, "data": {"bag_sizes": [5, -3]}}
    point = OperatingPoint(goal="eer", measured=measured)
    assert (point.chance_of_error("no"), point.warnings(bag=1)) == ("", ())
