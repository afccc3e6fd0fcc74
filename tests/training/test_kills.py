"""Runs that are killed or stopped at any moment, and resumed."""

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from miv.errors import MIVError
from miv.evaluation.runs import locked
from miv.training.run import Machine, StoppedByUser, run_training
from miv.training.stages import StageTraining
from tests.training.tiny import FEATURES, KILLED, assert_same_run, run_tiny, start_tiny, tiny_sets

SHORT = {"max_epochs": 3, "patience": 3}


@pytest.fixture(scope="module")
def features_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("reference") / "features"
    run_tiny("features", run, **SHORT)
    return run


@pytest.fixture(scope="module")
def killed_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("killed") / "run"
    process = start_tiny("features", run, "after checkpoint 2", **SHORT)
    process.join()
    assert process.exitcode == KILLED
    return run


@pytest.fixture
def killed_run(killed_once: Path, tmp_path: Path) -> Path:
    """A copy, for a test to damage, of a run that was killed after two of its three epochs."""
    return shutil.copytree(killed_once, tmp_path / "run")


def press_ctrl_c(patched: pytest.MonkeyPatch, step: int, *signals: int) -> None:
    steps = 0
    before = StageTraining.before_step

    def press(self: StageTraining, folder: Path) -> None:
        nonlocal steps
        steps += 1
        for number in (signals or [signal.SIGINT]) if steps == step else []:
            os.kill(os.getpid(), number)
        before(self, folder)

    patched.setattr(StageTraining, "before_step", press)


@pytest.mark.parametrize(
    ("signals", "code"),
    [
        ([signal.SIGINT], 130),
        ([signal.SIGTERM], 143),
        # As `timeout` sends it, and to a worker of `miv reproduce`, by a scheduler and by its parent.
        pytest.param([signal.SIGTERM, signal.SIGTERM], 143, marks=pytest.mark.slow),
        pytest.param([signal.SIGTERM, signal.SIGINT], 143, marks=pytest.mark.slow),
    ],
)
def test_a_stop_within_an_epoch_is_saved_and_gone_on_from(
    images_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signals: list[int], code: int
) -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with monkeypatch.context() as patched:
        press_ctrl_c(patched, 7, *signals)  # of four steps an epoch
        with pytest.raises(StoppedByUser, match=r"everything is saved.*--resume") as stopped:
            run_tiny("image", tmp_path / "run")
    assert stopped.value.exit_code == code
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    state = torch.load(tmp_path / "run" / "checkpoints" / "frozen" / "last.ckpt", weights_only=True)["stage"]
    assert (len(state["history"]), state["step"]) == (1, 2)
    assert state["loss_sum"] > 0
    run_tiny("image", tmp_path / "run")
    assert_same_run(images_run, tmp_path / "run")


def test_a_second_ctrl_c_stops_at_once(images_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        press_ctrl_c(patched, 7, signal.SIGINT, signal.SIGINT)
        with pytest.raises(StoppedByUser, match=r"since the last save will be repeated.*--resume") as stopped:
            run_tiny("image", tmp_path / "run")
    assert stopped.value.exit_code == 130
    run_tiny("image", tmp_path / "run")
    assert_same_run(images_run, tmp_path / "run")


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_stop_at_the_end_of_a_stage_leaves_the_next_alone(
    images_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    before = StageTraining.end_epoch

    def press(self: StageTraining, folder: Path, exemplars: int) -> None:
        before(self, folder, exemplars)
        if self.state.is_over(self.config.max_epochs, self.stage.patience):
            os.kill(os.getpid(), number)

    with monkeypatch.context() as patched:
        patched.setattr(StageTraining, "end_epoch", press)
        for stage in ("frozen", "all"):
            with pytest.raises(StoppedByUser, match=f"stage '{stage}'.*--resume"):
                run_tiny("image", tmp_path / "run")
            assert (tmp_path / "run" / "checkpoints" / stage).is_dir()
            assert (tmp_path / "run" / "checkpoints" / "all").is_dir() is (stage == "all")
    run_tiny("image", tmp_path / "run")
    assert_same_run(images_run, tmp_path / "run")


def test_a_damaged_checkpoint_is_named(killed_run: Path) -> None:
    last = killed_run / "checkpoints" / "frozen" / "last.ckpt"
    whole = last.read_bytes()
    for content in (b"", b"no checkpoint", whole[:-200]):
        last.write_bytes(content)
        with pytest.raises(MIVError, match=r"last\.ckpt is damaged.*another --out"):
            run_tiny("features", killed_run, **SHORT)
    documents: list[Any] = [3, {}, {"stage": 3}, {"stage": {"history": [{"a": "b"}]}}, {"stage": {}}]
    for document in documents:
        torch.save(document, last)
        with pytest.raises(MIVError, match=r"last\.ckpt is damaged.*another --out"):
            run_tiny("features", killed_run, **SHORT)


ODD: dict[str, Callable[[Any], Any]] = {
    "history": lambda saved: saved["stage"].update(history=7),
    "columns": lambda saved: saved["stage"]["history"].append({**saved["stage"]["history"][0], "another": 1.0}),
    "column": lambda saved: [row.pop("train_loss") for row in saved["stage"]["history"]],
    "criterion": lambda saved: saved["stage"]["history"].__setitem__(0, {"validation_accuracy": "high"}),
    "step": lambda saved: saved["stage"].update(step=None),
    "optimiser": lambda saved: saved["optimiser"]["state"].update({0: {"odd": 1}}),
    "shape": lambda saved: saved["optimiser"]["state"][0].update(mean_square=torch.zeros(1, 1, 1)),
    "entry": lambda saved: saved["optimiser"]["state"].update({0: []}),
    "group": lambda saved: saved["optimiser"].update(param_groups=[]),
    "setting": lambda saved: saved["optimiser"]["param_groups"][0].pop("epsilon"),
    "weights": lambda saved: saved["verifier"].update(surplus=torch.zeros(1)),
}


@pytest.mark.parametrize("odd", ODD)
def test_odd_values_in_a_checkpoint_are_an_error(killed_run: Path, odd: str) -> None:
    last = killed_run / "checkpoints" / "frozen" / "last.ckpt"
    document = torch.load(last, weights_only=True)
    ODD[odd](document)
    torch.save(document, last)
    with pytest.raises(MIVError, match=r"last.ckpt is damaged \(.*another --out"):
        run_tiny("features", killed_run, **SHORT)


# One training at a time in the folder of a run, and nothing in it that is not its own.

ONE_EPOCH = {"max_epochs": 1, "patience": 1}


@pytest.mark.parametrize("resume", [False, True])
def test_a_second_training_in_a_folder_is_refused(tmp_path: Path, resume: bool) -> None:
    run = tmp_path / "run"
    process = start_tiny("features", run, max_epochs=100_000, patience=100_000)
    try:
        while not (run / "metrics.csv").exists():
            assert process.is_alive()
            time.sleep(0.05)
        about = (run / "run.json").read_bytes()
        config = FEATURES.changed({"seed": 0 if resume else 1, "max_epochs": 100_000, "patience": 100_000})
        with pytest.raises(MIVError, match="Another process is training in"):
            run_training(tiny_sets("features"), config, run, Machine(tmp_path / "cache"), resume=resume)
        assert (run / "run.json").read_bytes() == about
        assert process.is_alive()
    finally:
        process.kill()
        process.join()
    with locked(run):  # a kill releases it
        pass


@pytest.mark.parametrize("name", ["metrics.csv", "verifier", ".notes.part", "config.json"])
def test_resume_refuses_a_folder_that_is_not_a_run(tmp_path: Path, name: str) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / name).write_text('{"mine": 1}')
    with pytest.raises(MIVError, match=f"not empty and is not a run: it contains '{name}'"):
        run_tiny("features", run, **ONE_EPOCH)
    assert [(path.name, path.read_text()) for path in run.iterdir()] == [(name, '{"mine": 1}')]
    (tmp_path / "file").write_text("mine")
    with pytest.raises(MIVError, match="is a file"):
        run_tiny("features", tmp_path / "file", **ONE_EPOCH)


def test_resume_removes_only_names_that_it_made(tmp_path: Path) -> None:
    process = start_tiny("features", tmp_path / "run", "after checkpoint 1", max_epochs=2, patience=2)
    process.join()
    theirs = [tmp_path / "run" / name for name in (".film.part", ".report.old", "checkpoints/.saving-money")]
    for path in theirs:
        path.write_text("mine")
    run_tiny("features", tmp_path / "run", max_epochs=2, patience=2)
    assert [path.read_text() for path in theirs] == ["mine"] * 3
