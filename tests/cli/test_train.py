import json
import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from miv.cli.app import main
from miv.data import save_splits
from miv.errors import MIVError
from miv.training.config import TrainingConfig
from tests.cli.running import run_command as run
from tests.training.tiny import tiny_sets


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MIV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    save_splits(tiny_sets("features", 100), tmp_path / "data", builder="test", options={}, seed=0)
    return tmp_path


def test_train_evaluate_list_and_compare(folder: Path) -> None:
    Path("short.toml").write_text("max_epochs = 2\npatience = 2\nbatch_size = 50\nheads = 4\n")
    trained = json.loads(run("train", "data", "--out", "runs/a", "--config", "short.toml", "--threads", "1", "--json"))
    config = json.loads(Path("runs/a/config.json").read_text())
    assert (config["max_epochs"], config["heads"], config["schedule"]) == (2, 4, "one_cycle")
    table = run("train", "data", "--out", "runs/b", "--config", "runs/a/config.json", "--pooling", "baseline")
    assert "test: 100 exemplars" in table
    again = ["train", "data", "--out", "runs/a", "--config", "short.toml", "--threads", "1", "--json"]
    with pytest.raises(MIVError, match="--resume"):
        run(*again)
    with pytest.raises(MIVError, match="already contains a run"):
        run("train", "not-even-read", "--out", "runs/a")
    assert json.loads(run(*again, "--resume")) == trained
    evaluated = json.loads(run("evaluate", "runs/a", "data", "--json"))
    assert evaluated == trained["test"]
    assert "AUROC" in run("evaluate", "runs/a/verifier", "data/validation")
    listed = json.loads(run("runs", "list", "--json"))
    assert [(row["run"], row["pooling"], row["state"]) for row in listed] == [
        ("runs/a", "cap_dba_l2", "done"),
        ("runs/b", "baseline", "done"),
    ]
    compared = json.loads(run("runs", "compare", "runs/a", "runs/b", "--json"))
    assert compared[0]["auroc"] == trained["test"]["classification"]["auroc"]
    assert "batch_size" not in compared[0]
    assert "baseline" in run("runs", "compare", "runs/a", "runs/b")


def test_settings_can_be_given_as_flags_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of each type."""
    rates: dict[str, Any] = {"learning_rates": ((0, 1e-3), (7, 5e-4)), "backbone_learning_rate": 2e-5}
    options: dict[str, Any] = {"pooling_options": {"scale": [1, 2]}, "backbone_options": {"size": [3, 4], "by": "cls"}}
    changed = TrainingConfig("msa", start="similar", trainable_layers=17, full_stage=False, **rates, **options)
    flags = []
    for name, given in changed.changes().items():
        flag = name.replace("_", "-")
        flags += [f"--no-{flag}"] if given is False else [f"--{flag}", as_typed(given)]
    seen: dict[str, object] = {}

    def remember(data: str, **given: object) -> None:
        known = {one.name for one in fields(TrainingConfig)}
        seen.update({name: value for name, value in given.items() if name in known})
        raise InterruptedError

    monkeypatch.setattr("miv.training.train.train", remember)
    with pytest.raises(InterruptedError):
        run("train", "data", "--out", "r", *flags)
    assert TrainingConfig().changed(seen) == changed


def as_typed(value: object) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}={one if isinstance(one, str) else json.dumps(one)}" for key, one in value.items())
    if isinstance(value, tuple):
        return ",".join(f"{epoch}:{rate}" for epoch, rate in value)
    return str(value)


def test_the_command_that_is_advised_for_an_unfinished_run_goes_on_with_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = "digits-twin --task-option writers=6 --task-option held_out_writers=6 --task-option copies=2"
    command = f"train {data} --out 'my runs/a' --max-epochs 1 --batch-size 16 --pooling baseline --threads 1"
    monkeypatch.setattr("miv.training.fitting.run_stage", interrupt)
    with pytest.raises(InterruptedError):
        run(*shlex.split(command))
    with pytest.raises(MIVError, match=r"my runs/a is not finished\. Resume it: ") as caught:
        run("evaluate", "my runs/a", "data")
    advised = shlex.split(str(caught.value).split("Resume it: ")[1])
    assert advised[:2] == ["miv", "train"]
    with pytest.raises(InterruptedError):  # by its first stage, and not because of other settings
        run(*advised[1:])


def interrupt(*_: object, **__: object) -> None:
    raise InterruptedError


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "digits-twn", "--out", "r"], "Did you mean 'digits-twin'"),
        (["evaluate", "miv/digits", "daat"], "There is no folder 'daat'. Did you mean 'data'"),
        (["evaluate", "miv/digits", "data/tset"], "no folder 'data/tset'. Did you mean 'data/test'"),
        (["audit", "miv/digits", "daat"], "There is no folder 'daat'. Did you mean 'data'"),
        (["report", "runs/nope", "--out", "r.html"], "runs/nope is not a run of `miv train`: there is no such folder"),
        (["train", "data", "--out", "r", "--preset", "fast"], "no preset 'fast'.*Known: auto, best"),
        (["train", "data", "--out", "r", "--optimiser", "sgd"], "adamw"),
        (["train", "data", "--out", "r", "--raw", "x"], "takes no option"),
        (["train", "data", "--out", "r", "--config", "wrong.toml"], r"setting in wrong.toml 'pateince'.*'patience'"),
        (["evaluate", "data", "data"], "config.json"),
        (["evaluate", "data/nope", "data"], "no folder 'data/nope'.*data holds: test, train, validation"),
        (["runs", "list", "nowhere"], "no folder nowhere"),
        (["runs", "compare", "data"], "data is not a run of .*: it has no run.json.*runs list"),
    ],
)
def test_mistakes_are_named(folder: Path, arguments: list[str], message: str) -> None:
    Path("wrong.toml").write_text("pateince = 3\n")
    with pytest.raises(MIVError, match=message):
        run(*arguments)
    assert not Path("r").exists()


def test_ctrl_c_in_another_command_says_that_it_stopped(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("miv.evaluation.workflows.open_one", lambda *_, **__: os.kill(os.getpid(), signal.SIGINT))
    monkeypatch.setattr(sys, "argv", ["miv", "evaluate", "miv/digits", "data"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr().err) == (130, "Stopped.\n")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_saves_and_says_how_to_go_on(folder: Path, number: int, code: int) -> None:
    command = [sys.executable, "-m", "miv", "train", "data", "--out", "run", "--batch-size", "2", "--threads", "1"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ})
    while not Path("run/checkpoints/frozen/last.ckpt").exists():
        time.sleep(0.2)
    process.send_signal(number)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == code
    assert "everything is saved" in messages
    assert "--resume" in messages
    assert "Traceback" not in messages
