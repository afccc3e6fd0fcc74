import json
import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from miv.cli.app import app, main
from miv.data import save_splits
from miv.errors import MIVError
from miv.training.config import TrainingConfig
from tests.cli.running import run_command as run
from tests.training.tiny import tiny_sets


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MIV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    save_splits(tiny_sets("features"), tmp_path / "data", builder="test", options={}, seed=0)
    return tmp_path


def test_train_evaluate_list_and_compare(folder: Path) -> None:
    Path("short.toml").write_text("max_epochs = 2\npatience = 2\nbatch_size = 50\nheads = 4\n")
    trained = json.loads(run("train", "data", "--out", "runs/a", "--config", "short.toml", "--threads", "1", "--json"))
    config = json.loads(Path("runs/a/config.json").read_text())
    assert (config["max_epochs"], config["heads"], config["schedule"]) == (2, 4, "one_cycle")
    table = run("train", "data", "--out", "runs/b", "--config", "runs/a/config.json", "--pooling", "baseline")
    assert "test: 400 exemplars" in table
    drawn = {f"{name}.{kind}" for name in ("learning_curves", "roc", "precision_recall") for kind in ("png", "svg")}
    assert {path.name for path in Path("runs/a/curves").iterdir()} == drawn
    again = ["train", "data", "--out", "runs/a", "--config", "short.toml", "--threads", "1", "--json"]
    with pytest.raises(MIVError, match="--resume"):
        run(*again)
    with pytest.raises(MIVError, match="already contains a run"):
        run("train", "not-even-read", "--out", "runs/a")
    assert json.loads(run(*again, "--resume")) == trained
    evaluated = json.loads(run("evaluate", "runs/a", "data", "--json", "--curves", "pictures"))
    assert {path.name for path in Path("pictures").iterdir()} == {n for n in drawn if not n.startswith("learning")}
    assert evaluated["rankings"].pop("contribution")["exemplars"] > 0  # training does not need it
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


def test_the_seconds_of_a_run_count_a_trial_that_keeps_the_start(folder: Path) -> None:
    sets = {**tiny_sets("features"), "validation": tiny_sets("features", 20)["validation"]}
    save_splits(sets, folder / "few", builder="test", options={}, seed=0)
    rates = ["--align-epochs", "0", "--learning-rates", "1e-9", "--max-epochs", "2"]  # no epoch beats the start
    run("train", "few", "--out", "runs/few", *rates, "--threads", "1", "--no-baselines")
    about = json.loads(Path("runs/few/run.json").read_text())
    assert about["best"]["epoch"] == 0
    assert list(about["stage_seconds"]) == ["pilot", "frozen"]
    assert about["stage_seconds"]["pilot"] > 0
    (listed,) = json.loads(run("runs", "list", "--json"))
    assert listed["seconds"] == pytest.approx(sum(about["stage_seconds"].values()), abs=0.11)


def test_one_command_from_a_task_to_metrics(folder: Path) -> None:
    flags = "--task-option writers=6 --task-option held_out_writers=6 --task-option copies=2 --max-epochs 1 --threads 1"
    assert "test: " in run("train", "digits-twin", "--out", "runs/twin", *flags.split())
    built = list((folder / "cache" / "sets").glob("[!.]*"))  # without the lock
    assert [path.name.startswith("digits-twin-") for path in built] == [True]


def test_help_spells_what_is_to_be_typed_as_it_must_be() -> None:
    options = {option.name: option.help for option in get_command(app).commands["train"].params}  # type: ignore[attr-defined]
    beginnings = {name: (options[name] or "").split()[0] for name in ("backbone", "optimiser", "schedule", "bucket")}
    assert beginnings == {"backbone": "compact_cnn,", "optimiser": "rmsprop", "schedule": "steps", "bucket": "Pad"}


def test_every_setting_can_be_given_as_a_flag_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = TrainingConfig(
        pooling="msa",
        pooling_options={"layers": 1, "scale": [1, 2]},
        start="similar",
        heads=3,
        backbone="hf:some/name",
        backbone_options={"image_size": [32, 64], "pooling": "cls"},
        batch_size=5,
        grouping=6,
        optimiser="adamw",
        weight_decay=0.25,
        pull=2.5,
        learning_rates=((0, 1e-3), (7, 5e-4)),
        frozen_learning_rates=((0, 2e-3),),
        backbone_learning_rate=2e-5,
        trainable_layers=17,
        schedule="one_cycle",
        warmup=0.75,
        max_epochs=8,
        select_by="auroc",
        patience=9,
        frozen_patience=11,
        frozen_max_epochs=12,
        full_stage=False,
        contrast_epochs=13,
        contrast_batch_size=14,
        contrast_learning_rates=((0, 3e-3), (2, 1e-3)),
        contrast_temperature=0.5,
        align_epochs=18,
        align_learning_rate=0.125,
        augmentation="affine",
        precision="bfloat16",
        bucket=15,
        seed=16,
    )
    flags = []
    for one in fields(TrainingConfig):
        if one.name == "frozen_stage":  # one of the two stages there must be
            continue
        given = getattr(changed, one.name)
        assert given != getattr(TrainingConfig(), one.name), f"{one.name} has its default here, so nothing is tested"
        flag = one.name.replace("_", "-")
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


@pytest.mark.parametrize("task", [False, True])
def test_the_command_that_is_advised_for_an_unfinished_run_finishes_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, task: bool
) -> None:
    data = (
        "digits-twin --task-option writers=6 --task-option held_out_writers=6 --task-option copies=2"
        if task
        else "data"
    )
    command = f"train {data} --out 'my runs/a' --max-epochs 1 --batch-size 16 --pooling baseline --threads 1"
    with monkeypatch.context() as patched:
        patched.setattr("miv.training.planned_stages.run_stage", interrupt)
        with pytest.raises(InterruptedError):
            run(*shlex.split(command))
    with pytest.raises(MIVError, match=r"my runs/a is not finished\. Resume it: ") as caught:
        run("evaluate", "my runs/a", "data")
    advised = shlex.split(str(caught.value).split("Resume it: ")[1])
    assert advised[:2] == ["miv", "train"]
    assert "test: " in run(*advised[1:])


def test_a_training_from_an_earlier_verifier_is_advised_and_finished_from_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = ["--max-epochs", "1", "--batch-size", "16", "--threads", "1"]
    run("train", "data", "--out", "runs/first", "--pooling", "cap_vema", "--heads", "4", *few)
    command = ["train", "data", "--out", "runs/second", "--from", "runs/first", "--preset", "best", *few]
    with pytest.raises(MIVError, match=r"pooling is 'cap_dba_l2', but training starts from runs/first"):
        run(*command, "--pooling", "cap_dba_l2")  # also where it is what the preset has
    with monkeypatch.context() as patched:
        patched.setattr("miv.training.planned_stages.run_stage", interrupt)
        with pytest.raises(InterruptedError):
            run(*command)
    with pytest.raises(MIVError, match="Resume it: ") as caught:
        run("evaluate", "runs/second", "data")
    advised = shlex.split(str(caught.value).split("Resume it: ")[1])
    assert advised[advised.index("--from") + 1] == "runs/first"
    assert "test: " in run(*advised[1:])
    config = json.loads(Path("runs/second/config.json").read_text())
    assert (config["pooling"], config["heads"], config["backbone"]) == ("cap_vema", 4, "features")


def interrupt(*arguments: object) -> None:
    raise InterruptedError


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "digits-twn", "--out", "r"], "Did you mean 'digits-twin'"),
        (["train", "wrong.toml", "--out", "r"], "wrong.toml is a file. Expected a folder of splits.*from-table"),
        (["evaluate", "miv/digits", "nowhere/nope"], "There is no folder nowhere/nope. Expected"),
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
        (["runs", "compare", "data"], "data is not a run: it has no run.json.*runs list"),
        (["runs", "compare", "runs/nope"], "runs/nope is not a run: there is no such folder.*runs list"),
    ],
)
def test_mistakes_are_named(folder: Path, arguments: list[str], message: str) -> None:
    Path("wrong.toml").write_text("pateince = 3\n")
    with pytest.raises(MIVError, match=message):
        run(*arguments)
    assert not Path("r").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_outside_the_stages_says_how_to_go_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int, code: int
) -> None:
    flags = ["--out", "run", "--max-epochs", "1", "--align-epochs", "0", "--threads", "1"]
    with monkeypatch.context() as patched:
        patched.setattr("miv.training.run.evaluate", lambda *_: os.kill(os.getpid(), number))
        patched.setattr(sys, "argv", ["miv", "train", "data", *flags])
        with pytest.raises(SystemExit) as ended:
            main()
    assert ended.value.code == code
    assert "Stopped. Resume with the same command and --resume." in capsys.readouterr().err
    assert "test: 400 exemplars" in run("train", "data", *flags, "--resume", "--no-baselines")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_before_the_run_began_says_that_the_same_command_starts_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int, code: int
) -> None:
    monkeypatch.setattr("miv.training.train.open_splits", lambda *_, **__: os.kill(os.getpid(), number))
    monkeypatch.setattr(sys, "argv", ["miv", "train", "data", "--out", "run"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    assert capsys.readouterr().err == "Stopped before the run began. Start it with the same command.\n"
    assert not Path("run").exists()


def test_ctrl_c_in_another_command_says_that_it_stopped(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("miv.training.evaluate.open_one", lambda *_, **__: os.kill(os.getpid(), signal.SIGINT))
    monkeypatch.setattr(sys, "argv", ["miv", "evaluate", "miv/digits", "data"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr().err) == (130, "Stopped.\n")


def test_resuming_a_mistyped_folder_says_that_a_new_run_begins(folder: Path) -> None:
    short = ["--align-epochs", "0", "--max-epochs", "1", "--threads", "1", "--no-baselines"]
    done = CliRunner().invoke(app, ["train", "data", "--out", "mistyped", "--resume", *short])
    assert "There is no run in mistyped to resume" in done.stderr


def test_resuming_a_folder_that_is_not_a_run_only_says_so(folder: Path) -> None:
    Path("notes").mkdir()
    Path("notes/todo.txt").touch()
    for out, problem in (("notes", "not a run: it contains 'todo.txt'"), ("notes/todo.txt", "is a file")):
        done = CliRunner().invoke(app, ["train", "not-even-read", "--out", out, "--resume"])
        assert isinstance(done.exception, MIVError)
        assert problem in str(done.exception)
        assert "new one begins" not in done.stderr


def test_resuming_a_finished_run_says_that_it_is_finished(folder: Path) -> None:
    command = ["train", "data", "--out", "run", "--max-epochs", "1", "--align-epochs", "0", "--threads", "1"]
    finished = "The run in run is finished, so nothing is trained."
    told = [CliRunner().invoke(app, [*command, *more, "--no-baselines"]).stderr for more in ([], ["--resume"])]
    assert [finished in one for one in told] == [False, True]


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
