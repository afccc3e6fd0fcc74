"""Witness sets that hold nearly the whole bag say so: in the calibration, in its file and in every verdict."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from miv import Verifier
from miv.cli.app import app
from miv.data import save_splits
from miv.evaluation import Predictions, calibrate
from miv.evaluation.calibration_fits import shares_of_bags
from miv.verifier.decisions import OperatingPoint
from tests.training.tiny import tiny_sets

BAGS, SIZE = 400, 5


def answers(look: str, witnesses: int = 1) -> Predictions:
    """Verdicts that are mostly right on bags of five, the first of which are witnesses; attention as it is said."""
    random = np.random.default_rng(0)
    label = np.arange(BAGS) % 2
    witness = (np.tile(np.arange(SIZE), BAGS) < witnesses) & np.repeat(label == 1, SIZE)
    attention = np.tile({"even": [0.2] * 5, "right": [0.8, 0.05, 0.05, 0.05, 0.05]}[look], BAGS)
    return Predictions(random.normal(4 * label - 2, 2), label, np.arange(0, BAGS * SIZE + 1, SIZE), attention, witness)


def test_shares_by_eye() -> None:
    # Positive bags of 4, 1 and 2, and a negative one of 2. A bag of one takes no part.
    label, ptr = [1, 1, 1, 0], [0, 4, 5, 7, 9]
    witness = np.array([1, 0, 0, 0, 1, 1, 1, 0, 0], bool)
    decided = np.array([1, 1, 1, 0, 1, 1, 0, 1, 1], bool)
    found = shares_of_bags(Predictions([1.0] * 4, label, ptr, witness=witness), decided)
    assert found == {"marked": (3 / 4 + 1 / 2) / 2, "true": (1 / 4 + 1) / 2}


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


def test_a_file_from_before_has_no_such_figure(tmp_path: Path) -> None:
    point = calibrate(answers("even")).point
    del point.measured["witnesses"]["shares_of_bags"]
    point.save(tmp_path)
    assert OperatingPoint.load(tmp_path).nearly_whole_sets is None
    assert replace(point, measured={"witnesses": [1]}).nearly_whole_sets is None


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


def test_the_command_line_warns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_splits(tiny_sets("features"), tmp_path / "data", builder="test", options={}, seed=0)
    torch.manual_seed(0)
    verifier = Verifier("gabmil", channels=8)  # its attention does not see the query
    verifier.pooling.similarity.weight.data = torch.ones(8)
    verifier.save_pretrained("model")
    asked = ["calibrate", "model", "data", "--epsilon", "0.1"]
    assert "so they are not informative" in CliRunner().invoke(app, asked).stdout
    done = CliRunner().invoke(app, [*asked, "--json", "--overwrite"])
    assert "so they are not informative" in done.stderr
    assert json.loads(done.stdout)["measured"]["witnesses"]["shares_of_bags"]["marked"] > 0.8
    Path("pairs.jsonl").write_text(json.dumps({"query": [1.0] * 8, "bag": [[1.0] * 8, [0.0] * 8]}))
    said = CliRunner().invoke(app, ["verify", "model", "--bags", "pairs.jsonl", "--out", "out.csv"]).stderr
    assert "The witness sets are not informative" in said
