"""Calibration warns of witness sets that hold nearly the whole bag."""

import numpy as np
import pytest

from miv.evaluation import Predictions, calibrate

BAGS, SIZE = 400, 5


def answers(look: str, witnesses: int = 1) -> Predictions:
    """Verdicts that are mostly right on bags of five, the first of which are witnesses; attention as it is said."""
    random = np.random.default_rng(0)
    label = np.arange(BAGS) % 2
    witness = (np.tile(np.arange(SIZE), BAGS) < witnesses) & np.repeat(label == 1, SIZE)
    attention = np.tile({"even": [0.2] * 5, "right": [0.8, 0.05, 0.05, 0.05, 0.05]}[look], BAGS)
    return Predictions(random.normal(4 * label - 2, 2), label, np.arange(0, BAGS * SIZE + 1, SIZE), attention, witness)


def test_attention_that_finds_nothing_pays_with_whole_bags_and_that_is_said() -> None:
    found = calibrate(answers("even"), epsilon=0.1)
    shares = found.point.measured["witnesses"]["shares_of_bags"]
    assert shares["true"] == pytest.approx(0.2)
    assert shares["marked"] > 0.85
    assert "Warning: witness sets contain" in found.text()
    assert "although only 20% are witnesses" in found.text()


@pytest.mark.parametrize(("look", "witnesses"), [("right", 1), ("even", 5)])
def test_small_sets_and_bags_that_are_all_witnesses_are_no_cause(look: str, witnesses: int) -> None:
    found = calibrate(answers(look, witnesses), epsilon=0.1)
    assert "Warning: witness sets contain" not in found.text()
