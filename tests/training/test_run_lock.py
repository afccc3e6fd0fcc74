"""One training at a time in the folder of a run, and nothing in it that is not its own."""

import json
import threading
import time
from pathlib import Path

import pytest

from miv.errors import MIVError
from miv.training.checkpoint import locked
from miv.training.run import Machine, train
from tests.training.tiny import FEATURES, KILLED, run_tiny, start_tiny, tiny_sets

SHORT = {"max_epochs": 1, "patience": 1}


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
            train(tiny_sets("features"), config, run, Machine(tmp_path / "cache"), resume=resume)
        assert (run / "run.json").read_bytes() == about
        assert process.is_alive()
    finally:
        process.kill()
        process.join()
    with locked(run):  # a kill releases it
        pass


def test_two_trainings_that_begin_at_the_same_time_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both find an empty folder; the second begins while the first has the lock but has written nothing yet."""
    run = tmp_path / "run"
    with locked(run):
        raised: list[BaseException] = []

        def second() -> None:
            try:
                run_tiny("features", run, **SHORT)
            except MIVError as error:
                raised.append(error)

        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert [str(error) for error in raised] == [
        f"Another process is training in {run}. Wait until it has ended, or choose another folder for --out."
    ]
    assert [path.name for path in run.iterdir()] == [".lock"]
    run_tiny("features", run, **SHORT)
    assert json.loads((run / "run.json").read_text())["done"] is True


def test_a_thread_may_enter_its_own_lock_again(tmp_path: Path) -> None:
    with locked(tmp_path), locked(tmp_path / "."):
        pass
    with locked(tmp_path):
        pass


@pytest.mark.parametrize("name", ["metrics.csv", "verifier", ".notes.part", "config.json"])
def test_resume_refuses_a_folder_that_is_not_a_run(tmp_path: Path, name: str) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / name).write_text('{"mine": 1}')
    with pytest.raises(MIVError, match=f"not empty and is not a run: it contains '{name}'"):
        run_tiny("features", run, **SHORT)
    assert [(path.name, path.read_text()) for path in run.iterdir()] == [(name, '{"mine": 1}')]
    (tmp_path / "file").write_text("mine")
    with pytest.raises(MIVError, match="is a file"):
        run_tiny("features", tmp_path / "file", **SHORT)


def test_a_run_killed_before_it_began_is_resumed(tmp_path: Path) -> None:
    process = start_tiny("features", tmp_path / "run", "begin", **SHORT)
    process.join()
    assert process.exitcode == KILLED
    assert (tmp_path / "run" / "config.json").exists()
    assert not (tmp_path / "run" / "run.json").exists()
    run_tiny("features", tmp_path / "run", **SHORT)
    assert [path.name for path in (tmp_path / "run").rglob(".*")] == [".lock"]


def test_resume_removes_only_names_that_it_made(tmp_path: Path) -> None:
    process = start_tiny("features", tmp_path / "run", "after checkpoint 1", max_epochs=2, patience=2)
    process.join()
    theirs = [tmp_path / "run" / name for name in (".film.part", ".report.old", "checkpoints/.saving-money")]
    for path in theirs:
        path.write_text("mine")
    run_tiny("features", tmp_path / "run", max_epochs=2, patience=2)
    assert [path.read_text() for path in theirs] == ["mine"] * 3
