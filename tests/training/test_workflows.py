"""``miv.train`` and ``miv.evaluate`` from Python, and that the commands do the same."""

import gc
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn
from typer.testing import CliRunner

import miv
from miv import ExemplarSet, MIVError, Verifier
from miv.cli.app import app
from miv.data import save_splits
from miv.evaluation import evaluate as measure
from miv.training.config import TrainingConfig
from tests.training.tiny import tiny_sets

FEW: dict[str, Any] = {"max_epochs": 1, "verbose": False, "threads": 1}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def test_the_command_and_the_function_do_the_same() -> None:
    save_splits(tiny_sets("features"), "data", builder="test", options={}, seed=0)
    flags = "--max-epochs 2 --heads 4 --threads 1 --json"
    done = CliRunner().invoke(app, ["train", "data", "--out", "by-command", *flags.split()])
    assert done.exit_code == 0, done.output
    run = miv.train("data", out="by-function", max_epochs=2, heads=4, threads=1, verbose=False)
    for name in ("config.json", "metrics.csv", "evaluation.json", "reference.json", "verifier/model.safetensors"):
        assert Path("by-command", name).read_bytes() == Path("by-function", name).read_bytes(), name
    documents = json.loads(done.stdout), json.loads(json.dumps(run.document()))
    for row in [row for document in documents for row in document["recipes"]["rows"]]:
        row["seconds"] = 0.0
    assert {**documents[0], "run": "by-function"} == documents[1]
    assert run.config.heads == 4
    assert run.reason.startswith("Chosen for 400 train exemplars")
    assert "nearest" in Path("by-function/verifier/README.md").read_text()
    assert "test: 400 exemplars" in run.text()
    evaluated = CliRunner().invoke(app, ["evaluate", "by-command", "data", "--split", "validation", "--json"])
    ours = miv.evaluate(run, "data", split="validation")
    document = json.loads(evaluated.stdout)
    assert document == ours.document()
    assert document == run.evaluations["validation"].document()


def test_without_out_the_folder_lives_as_long_as_the_run() -> None:
    run = miv.train(tiny_sets("features"), **FEW)
    folder = run.folder
    assert (folder / "run.json").is_file()
    assert repr(run).startswith(f"TrainingRun('{folder}', pooling cap_dba_l2, validation AUROC ")
    assert str(run) == run.text()
    assert str(run.evaluations["test"]) == run.evaluations["test"].text()
    assert isinstance(run.verifier, Verifier)
    assert measure(run.predictions("test")).document() == run.evaluations["test"].document()
    verifier = run.verifier
    del run
    gc.collect()
    assert not folder.exists()
    assert miv.evaluate(verifier, tiny_sets("features")).exemplars == 400


def test_a_failed_training_leaves_no_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    with pytest.raises(MIVError, match="train"):
        miv.train({"validation": tiny_sets("features")["validation"], "train": one_label()}, **FEW)
    assert list((tmp_path / "temporary").iterdir()) == []


def one_label() -> ExemplarSet:
    train = tiny_sets("features")["train"]
    return train.subset(train.label == 1)


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> list[TrainingConfig]:
    """The settings of every training, which stops before it starts."""
    found: list[TrainingConfig] = []

    def remember(sets: Any, config: TrainingConfig, *_: Any, **__: Any) -> None:
        found.append(config)
        raise InterruptedError

    monkeypatch.setattr("miv.training.run.run_training", remember)
    return found


def _begin(**given: Any) -> None:
    with pytest.raises(InterruptedError):
        miv.train(tiny_sets("features"), **given)


def test_settings_come_from_a_preset_a_file_and_names(settled: list[TrainingConfig]) -> None:
    Path("short.toml").write_text("batch_size = 50\nheads = 4\n")
    own = TrainingConfig(max_epochs=1, batch_size=99)
    for given in ({"config": "short.toml"}, {"config": {"batch_size": 50}}, {"config": own}, {"preset": "best"}):
        _begin(heads=2, verbose=False, **given)
    by_file, by_dict, by_object, by_preset = settled
    assert (by_file.batch_size, by_file.heads, by_file.schedule) == (50, 2, "one_cycle")
    assert by_dict == by_file
    assert by_object == own
    assert (by_preset.contrast_epochs, by_preset.heads) == (24, 2)


def test_a_whole_configuration_leaves_nothing_to_choose(
    settled: list[TrainingConfig], capsys: pytest.CaptureFixture[str]
) -> None:
    own = TrainingConfig(max_epochs=1, full_stage=False)
    Path("config.json").write_text(json.dumps(own.document()))
    for given, where in ((own, r"config \(a TrainingConfig\)"), ("config.json", "config.json")):
        _begin(config=given)
        told = capsys.readouterr().err
        assert re.fullmatch(f"All settings come from {where}. Nothing is chosen for the data.\n", told)
    assert settled == [own, own]
    with pytest.raises(MIVError, match=r"preset is 'best', and config, a TrainingConfig.* Pass only one of them"):
        miv.train(tiny_sets("features"), config=own, preset="best")


def test_training_goes_on_from_a_verifier_in_memory(settled: list[TrainingConfig]) -> None:
    _begin(start_from=Verifier("cap_vema", channels=8), verbose=False)
    assert settled[0].pooling == "cap_vema"
    with pytest.raises(MIVError, match=r"start_from is a int\. Expected a Verifier, a run"):
        miv.train(tiny_sets("features"), start_from=3)  # type: ignore[arg-type]
    with pytest.raises(MIVError, match=r"backbone is a module.*register_backbone.*start_from=Verifier"):
        miv.train(tiny_sets("features"), backbone=nn.Linear(8, 8))


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ([1, 2], {}, "The exemplars are a list. Expected an ExemplarSet"),
        ({"dev": None}, {}, "no split 'dev'"),
        ({"train": 3}, {}, "The split 'train' is a int. Expected an ExemplarSet"),
        ("digits-twn", {}, "Did you mean 'digits-twin'"),
        ("digits-twin", {"pateince": 3}, "Did you mean 'patience'"),
        ("digits-twin", {"config": {"pateince": 3}}, "setting in config 'pateince'"),
        ("digits-twin", {"resume": True}, "resume is true, and out is missing"),
        ("digits-twin", {"preset": "fast"}, "no preset 'fast'"),
    ],
)
def test_mistakes_are_named(given: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(MIVError, match=message):
        miv.train(given, **options)


def test_damaged_or_incomplete_exemplars_are_not_trained_on() -> None:
    save_splits(tiny_sets("features"), "data", builder="test", options={}, seed=0)
    Path("data/test").rename("aside")
    with pytest.raises(MIVError, match="test is missing"):
        miv.train("data", out="run", verbose=False)
    Path("aside").rename("data/test")
    np.save("data/train/pool.npy", 0 * np.load("data/train/pool.npy"))
    with pytest.raises(MIVError, match=r"pool\.npy does not match its hash"):
        miv.train("data", out="run", verbose=False)
    assert not Path("run").exists()
