import json
from pathlib import Path

import numpy as np
import pytest
import torch

from miv import Verifier
from miv.data import load_split, save_splits
from miv.errors import MIVError
from miv.evaluation.predicting import predict
from miv.files.json import VERIFIER_NAME
from miv.verifier.decisions import OPERATING_POINT_NAME
from tests.cli.running import run_command
from tests.training.tiny import tiny_sets


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A verifier, not trained, that tells classes apart all the same, as they are directions."""
    monkeypatch.chdir(tmp_path)
    save_splits(tiny_sets("features"), tmp_path / "data", builder="test", options={}, seed=0)
    torch.manual_seed(0)
    Verifier("baseline", channels=8).save_pretrained("model")
    return tmp_path


def run(*arguments: str) -> str:
    return run_command("calibrate", *arguments)


def test_calibrate_writes_what_the_verifier_then_uses(folder: Path) -> None:
    said = json.loads(run("model", "data", "--goal", "frr=0.3", "--scaling", "platt", "--json"))
    assert said.pop("unlike")["rate"] <= 0.2
    assert said == json.loads((folder / "model" / OPERATING_POINT_NAME).read_text())
    assert said["goal"] == "false-reject rate <= 0.3"
    assert said["measured"]["data"]["name"] == "validation"
    verifier = Verifier.from_pretrained("model")
    answers = predict(verifier, load_split("data", "validation"))
    yes = verifier.operating_point.verdict(verifier.operating_point.probability(answers.logit))
    rejected = float((~yes[answers.label == 1]).mean())
    assert rejected == pytest.approx(said["measured"]["false_reject_rate"]["value"])
    assert "threshold" in run("model", "data/validation", "--overwrite")  # again, on one set, and as a table


def test_the_model_card_has_the_operating_point_once(folder: Path) -> None:
    card = folder / "model" / "README.md"
    before = "# My verifier"
    card.write_text(f"{before}\n")
    run("model", "data", "--goal", "frr=0.3")
    run("model", "data", "--far", "0.4", "--overwrite")
    text = card.read_text()
    assert text.startswith(before)
    assert text.count("## Operating point") == 1
    point = Verifier.from_pretrained("model").operating_point
    assert f"| verdict yes from a probability of | {point.threshold:.4f} |" in text
    assert "| goal | false-accept rate <= 0.4 |" in text
    assert "exemplars of 8 classes" in text


def test_two_rates_give_two_thresholds(folder: Path) -> None:
    said = json.loads(run("model", "data", "--far", "0.4", "--frr", "0.3", "--json"))
    by_goal = json.loads(run("model", "data", "--goal", "far=0.4,frr=0.3", "--overwrite", "--json"))
    assert said == by_goal
    assert said["goal"] == "false-accept rate <= 0.4, false-reject rate <= 0.3"
    point = Verifier.from_pretrained("model").operating_point
    assert point.lower_threshold == said.get("lower_threshold")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["model", "data", "--split", "test"], "Cannot calibrate on test"),
        (["model", "data/train"], "Cannot calibrate on train"),
        (["model", "data", "--goal", "far=0.0001"], "200 negatives.*29,956"),
        (["model", "data", "--goal", "far"], "Expected eer, far=0.01"),
        (["model", "data", "--goal", "eer", "--far", "0.1"], "Give either --goal, or --far and --frr"),
        (["model", "data", "--frr", "2"], "rates between 0 and 1"),
        (["model", "data", "--far", "0.02"], "200 negatives of 8 classes.*at least 25 classes"),
        (["model", "data", "--epsilon", "0"], "epsilon is 0"),
        (["model", "data", "--scaling", "plat"], "Did you mean 'platt'"),
        (["nothing", "data"], "no folder nothing"),
    ],
)
def test_what_is_refused_leaves_the_model_as_it_was(folder: Path, arguments: list[str], message: str) -> None:
    with pytest.raises(MIVError, match=message):
        run(*arguments)
    assert not (folder / "model" / OPERATING_POINT_NAME).exists()


def test_the_data_of_a_run_are_known_under_any_name(folder: Path) -> None:
    """A run knows its test set whatever it is called."""
    sets = {split: load_split("data", split) for split in ("validation", "test")}
    Path("run").mkdir()
    Path("model").rename(Path("run") / VERIFIER_NAME)
    prints = {split: one.fingerprint for split, one in sets.items()}
    about = {"format": "miv-run", "seed": 0, "done": True, "data": {"name": "data", "fingerprints": prints}}
    (folder / "run" / "run.json").write_text(json.dumps(about))
    Path("data/test").rename("other")
    with pytest.raises(MIVError, match="This is the test split of run"):
        run("run", "other")
    said = json.loads(run("run", "data", "--json"))
    assert said["measured"]["queries"] == len(np.unique(sets["validation"].query))
    assert (folder / "run" / VERIFIER_NAME / OPERATING_POINT_NAME).is_file()


def test_an_operating_point_is_replaced_only_when_asked(folder: Path) -> None:
    run("model", "data", "--goal", "frr=0.3")
    path = folder / "model" / OPERATING_POINT_NAME
    before = path.read_text()
    with pytest.raises(MIVError, match=rf"{path.name} already exists \(false-reject rate <= 0.3, .*Use --overwrite"):
        run("model", "data")
    assert path.read_text() == before
    run("model", "data", "--overwrite")
    assert Verifier.from_pretrained("model").operating_point.goal == "equal error rate"
