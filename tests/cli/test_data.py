"""``miv data``: building sets from tasks and from your own files, and inspecting them."""

import json
import os
import signal
from pathlib import Path

import pytest

from miv.data import load_splits, save_splits
from miv.tasks import TASKS, register_task
from tests.data.example_sets import example_set
from tests.fence.interface import run_miv
from tests.tasks.test_base import Coins


def run(*words: object) -> tuple[int, str, str]:
    """The exit code, standard output and standard error of a command."""
    return run_miv(*map(str, words))


@pytest.fixture(autouse=True)
def _coins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TASKS, "_entries", dict(TASKS._entries))
    register_task("coins")(Coins)


def test_build_makes_what_inspect_reads(tmp_path: Path) -> None:
    code, out, err = run("data", "build", "coins", "--out", tmp_path / "c", "--tosses", 4, "--seed", 3)
    assert code == 0
    assert out == "train               1 exemplars          1 positive          2 instances  mean bag 4.0\n"
    assert err.endswith(f"Wrote {tmp_path / 'c'}. To look at it: miv data inspect {tmp_path / 'c'}\n")
    assert load_splits(tmp_path / "c")["train"].bag_sizes.tolist() == [4]
    code, out, _ = run("data", "inspect", tmp_path / "c", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["sets"]["train"]["builder"] == "coins"
    assert document["sets"]["train"]["options"] == {"tosses": 4, "draw": "fair", "seed": 3, "round": 0}
    assert document["sets"]["train"]["bag_size"]["mean"] == 4


def test_build_refuses_in_one_line(tmp_path: Path) -> None:
    code, out, err = run("data", "build", "coin", "--out", tmp_path / "c")
    assert (code, out) == (1, "")
    assert err.startswith("Error: There is no task 'coin'. Did you mean 'coins'? Known: ")
    assert err.count("\n") == 1
    assert run("data", "build", "coins", "--out", tmp_path / "c", "--draw", "loded")[0] == 1
    assert run("data", "build", "coins")[0] == 2
    assert not (tmp_path / "c").exists()
    assert run("data", "build", "coins", "--out", tmp_path / "c")[0] == 0
    code, _, err = run("data", "build", "coins", "--out", tmp_path / "c")
    assert code == 1
    assert "already contains a set" in err
    assert "Tossing" not in err  # it is refused before the work
    code, out, _ = run("data", "build", "coins", "--out", tmp_path / "c", "--overwrite", "--json")
    assert code == 0
    assert json.loads(out) == {
        "folder": str(tmp_path / "c"),
        "builder": "coins",
        "options": {"tosses": 5, "draw": "fair", "seed": 0, "round": 0},
        "sets": {"train": {"exemplars": 1, "positive": 1, "instances": 2}},
    }


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError("Unable to allocate 5 TiB"), "Out of memory (Unable to allocate 5 TiB). Use less data."),
        (MemoryError(), "Out of memory. Use less data."),
        (OSError(36, "File name too long", "xxx"), "xxx: File name too long."),
    ],
)
def test_trouble_of_the_machine_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    def build(self: Coins, progress: object) -> None:
        raise error

    monkeypatch.setattr(Coins, "build", build)
    assert run("data", "build", "coins", "--out", tmp_path / "c") == (1, "", f"Error: {message}\n")


def test_inspect_prints_statistics_and_findings(tmp_path: Path) -> None:
    sets = {"train": example_set("grey"), "test": example_set("grey", bare=True)}
    save_splits(sets, tmp_path / "é", builder="test", options={}, seed=None)
    code, out, _ = run("data", "inspect", tmp_path / "é")
    assert code == 0
    lines = [line for line in out.splitlines() if line and not line.startswith(" ")]
    rows = {line.split("  ")[0]: line.split() for line in lines}
    assert rows["exemplars"] == ["exemplars", "3", "3"]
    assert rows["bag entries"][-2:] == ["6", "6"]
    assert rows["witnesses"] == ["witnesses", "3", "-"]
    assert "- instance_in_two_sets (train, test), 6 times" in out
    assert "- class_in_two_sets (train, test), 4 times" in out
    assert run("data", "inspect", tmp_path / "é", "--strict")[0] == 1
    code, out, _ = run("data", "inspect", tmp_path / "é" / "train", "--strict")
    assert code == 0
    assert out.endswith("Leakage audit: nothing found.\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_stops_without_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: int) -> None:
    """A real signal, half-way through writing the pool."""

    def stop(table: object, path: Path, **options: object) -> None:
        path.write_bytes(b"half")
        os.kill(os.getpid(), number)

    monkeypatch.setattr("pyarrow.parquet.write_table", stop)
    ended, _, error = run("data", "build", "coins", "--out", tmp_path / "c")
    assert ended == code
    assert "Traceback" not in error
    assert list(tmp_path.iterdir()) == []
