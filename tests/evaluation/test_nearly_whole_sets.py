"""Witness sets that hold nearly the whole bag say so: in the calibration, in its file and in every verdict."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from miv import Verifier
from miv.evaluation import Predictions, calibrate
from miv.verifier.decisions import OperatingPoint

BAGS, SIZE = 400, 5


def answers(look: str, witnesses: int = 1) -> Predictions:
    """Verdicts that are mostly right on bags of five, the first of which are witnesses; attention as it is said."""
    random = np.random.default_rng(0)
    label = np.arange(BAGS) % 2
    witness = (np.tile(np.arange(SIZE), BAGS) < witnesses) & np.repeat(label == 1, SIZE)
    attention = np.tile({"even": [0.2] * 5, "right": [0.8, 0.05, 0.05, 0.05, 0.05]}[look], BAGS)
    return Predictions(random.normal(4 * label - 2, 2), label, np.arange(0, BAGS * SIZE + 1, SIZE), attention, witness)


def test_attention_that_finds_nothing_pays_with_whole_bags_and_that_is_said() -> None:
    found = calibrate(answers("even"))
    shares = found.point.measured["witnesses"]["shares_of_bags"]
    assert shares["true"] == pytest.approx(0.2)
    assert found.point.nearly_whole_sets == shares["marked"] > 0.85
    assert "Warning: witness sets contain" in found.text()
    assert "although only 20% are witnesses" in found.text()


@pytest.mark.parametrize(("look", "witnesses"), [("right", 1), ("even", 5)])
def test_small_sets_and_bags_that_are_all_witnesses_are_no_cause(look: str, witnesses: int) -> None:
    found = calibrate(answers(look, witnesses))
    assert found.point.nearly_whole_sets is None
    assert "say little" not in found.text()


def test_every_verdict_with_such_a_set_says_so(tmp_path: Path) -> None:
    calibrate(answers("even")).point.save(tmp_path)
    verifier = Verifier("cap_dba_l2", channels=2, start="paper").eval()
    verifier.operating_point = OperatingPoint.load(tmp_path)
    says = f"These sets hold {verifier.operating_point.nearly_whole_sets:.0%} of a bag on average, so they say little."
    verdict = verifier.verify([1.0, 0.0], [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    assert verdict.witnesses
    assert says in str(verdict).splitlines()[1]
    assert says in verdict._repr_html_()
    assert verdict.document()["nearly_whole_sets"] == verifier.operating_point.nearly_whole_sets
    nothing = replace(verdict, witnesses=())
    assert "says little" not in str(nothing)
    assert verifier.verify([1.0, 0.0], [[1.0, 0.0]], witnesses="none").nearly_whole_sets is None
