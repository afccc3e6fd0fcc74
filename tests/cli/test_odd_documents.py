"""Files of a run with contents of any shape: an error that names the file and the field, never a traceback."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import miv
from miv.cli.app import app
from miv.data import save_splits
from miv.errors import MIVError, MIVWarning
from miv.evaluation.model_card import END
from tests.training.tiny import tiny_sets

ODD: list[Any] = [None, 3, "x", [1], {"a": 1}]
TRAINING: dict[str, Any] = {"max_epochs": 1, "threads": 1}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    save_splits(tiny_sets("features", 60), folder / "data", builder="test", options={}, seed=0)
    miv.train(folder / "data", out=folder / "runs" / "a", cache=folder / "cache", verbose=False, **TRAINING)
    return folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answer(*arguments: str) -> str:
    """The output of a command; anything but a ``MIVError`` is raised."""
    done = CliRunner().invoke(app, list(arguments))
    if done.exception is not None and not isinstance(done.exception, SystemExit | MIVError):
        raise done.exception
    return done.output


def test_one_damaged_run_does_not_hide_the_others(folder: Path) -> None:
    shutil.copytree("runs/a", "runs/b")
    Path("runs/a/run.json").write_text('{"format": "miv-run", "data": 3, "seed": 0, "done": true}')
    with pytest.warns(MIVWarning, match=r"runs/a/run.json: 'data' is '3'. Expected an object"):
        rows = json.loads(answer("runs", "list", "--json"))
    assert [(row["run"], row["state"]) for row in rows] == [("runs/a", "damaged"), ("runs/b", "done")]


def test_a_model_card_that_cannot_be_rewritten_stops_before_training(folder: Path) -> None:
    about = json.loads(Path("runs/a/run.json").read_text())
    Path("runs/a/run.json").write_text(json.dumps({**about, "done": False}))
    card = Path("runs/a/verifier/README.md")
    card.write_text(card.read_text().replace(END, "My notes."))
    before = card.read_text()
    weights = card.with_name("model.safetensors").stat().st_mtime_ns
    with pytest.raises(MIVError, match="without <!-- end of figures -->"):
        miv.train("data", out="runs/a", resume=True, verbose=False, **TRAINING)
    assert card.read_text() == before
    assert card.with_name("model.safetensors").stat().st_mtime_ns == weights
