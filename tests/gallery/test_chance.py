"""The probability that the best of many bags is a hit by chance."""

from typing import Any

import numpy as np
import pytest

from miv.evaluation import Predictions, calibrate
from miv.gallery import Chance
from miv.verifier.decisions import OperatingPoint
from miv.verifier.scalings import Platt


def predictions(exemplars: int, seed: int) -> Predictions:
    random = np.random.default_rng(seed)
    label = np.arange(exemplars) % 2
    logit = random.normal(size=exemplars) + 2 * label
    return Predictions(logit=logit, label=label.astype(np.int8), ptr=np.arange(exemplars + 1))


def test_the_chance_holds_on_bags_of_the_same_distribution() -> None:
    point = calibrate(predictions(4000, 0), "eer").point
    chance = Chance(point)
    random = np.random.default_rng(5)
    best = point.probability(random.normal(size=(400, 50)).max(axis=1))  # the best of 50 negatives, 400 times
    for asked in (0.1, 0.5):
        said = np.array([chance.of(float(one), 50) for one in best])
        assert (said <= asked).mean() == pytest.approx(asked, abs=0.12)


def test_a_probability_above_all_negatives_is_a_bound_that_grows_with_the_bags() -> None:
    chance = Chance(calibrate(predictions(400, 1), "eer").point)
    few, many = chance.of(0.9999, 10), chance.of(0.9999, 100_000)
    assert few == pytest.approx(10 / 201, rel=0.1)
    assert many == pytest.approx(1.0)
    assert "too few negatives" in chance.words(0.9999, 100_000)
    assert chance.of(0.0, 10) == 1.0


def test_an_older_calibration_knows_the_rate_at_its_threshold_only() -> None:
    point = OperatingPoint(
        Platt(1.0, 0.0), 0.5, "eer", measured={"false_accept_rate": {"value": 0.01, "at_most": 0.02}}
    )
    assert Chance(point).of(0.8, 10) == pytest.approx(1 - 0.98**10)
    assert Chance(point).of(0.4, 10) is None
    assert "Calibrate again" in Chance(point).words(0.4, 10)


@pytest.mark.parametrize("damage", [[], {"count": [1]}, {"effective_negatives": 3, "count": [0], "probability": ["x"]}])
def test_odd_figures_are_not_believed(damage: Any) -> None:
    point = OperatingPoint(Platt(1.0, 0.0), 0.5, "eer", measured={"false_accepts": damage, "false_accept_rate": 3})
    assert Chance(point).of(0.8, 10) is None
