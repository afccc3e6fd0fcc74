"""Several commands share a table, and one is killed half-way."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from miv import MIVError, Verifier
from miv.scoring import score
from miv.scoring.run import FOLDER, Claims

EXEMPLARS, ROWS = 600, 10
PATIENCE = 300.0  # seconds
COMMAND = [sys.executable, "-m", "miv", "score", "verifier", "pairs.jsonl", "--out", "out", "--rows", str(ROWS)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A verifier, a table, and its verdicts from one process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    torch.manual_seed(0)
    Verifier("cap_dba_l2", channels=8).save_pretrained("verifier")
    random = np.random.default_rng(0)
    with Path("pairs.jsonl").open("w") as file:
        for _ in range(EXEMPLARS):
            row = {"query": random.normal(size=8).tolist(), "bag": random.normal(size=(60, 8)).tolist()}
            file.write(f"{json.dumps(row)}\n")
    score("verifier", "pairs.jsonl", "here", rows=ROWS)
    return tmp_path


def start() -> "subprocess.Popen[str]":
    return subprocess.Popen([*COMMAND, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished() -> list[Path]:
    return sorted(Path("out").glob("part-*"))


def wait_for_partitions(running: "subprocess.Popen[str]", count: int) -> None:
    until = time.monotonic() + PATIENCE
    while len(finished()) < count:
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < until, "no partition"
        time.sleep(0.005)


def assert_same_bytes() -> None:
    """The files of one process; the key in them has the name of the output folder nowhere."""
    assert [path.name for path in finished()] == sorted(path.name for path in Path("here").glob("part-*"))
    assert [path.name for path in finished() if path.read_bytes() != Path("here", path.name).read_bytes()] == []
    assert sorted(path.name for path in Path("out").glob("[._]*")) == ["_score.json", "_score.lock"]
    summaries = [json.loads(Path(out, "_score.json").read_text())["summary"] for out in ("here", "out")]
    assert summaries[0] == summaries[1]


def test_a_command_killed_half_way_loses_nothing(folder: Path) -> None:
    running = [start(), start()]
    try:
        wait_for_partitions(running[0], 3)
        running[0].kill()
        assert len(finished()) < EXEMPLARS // ROWS  # half-way
        printed, said = running[1].communicate(timeout=PATIENCE)
    finally:
        for command in running:
            command.kill()
    assert running[1].returncode == 0, said
    assert json.loads(printed)["exemplars"] == EXEMPLARS
    assert_same_bytes()


@pytest.mark.slow
def test_ctrl_c_stops_without_a_traceback(folder: Path) -> None:
    running = start()
    wait_for_partitions(running, 3)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=PATIENCE)
    assert running.returncode == 130, said
    assert "Run the same command to resume" in said
    assert "Traceback" not in said
    assert score("verifier", "pairs.jsonl", "out", rows=ROWS).reused >= 3
    assert_same_bytes()


@pytest.mark.slow
def test_two_commands_share_a_table(folder: Path) -> None:
    commands = [start() for _ in range(2)]
    for running in commands:
        _, said = running.communicate(timeout=PATIENCE)
        assert running.returncode == 0, said
    assert_same_bytes()


@pytest.mark.slow
def test_no_other_table_takes_a_folder_in_which_others_score(folder: Path) -> None:
    running = start()
    wait_for_partitions(running, 3)
    for options in ({"rows": ROWS + 1}, {"rows": ROWS, "witnesses": "none", "overwrite": True}):
        with pytest.raises(MIVError, match="Another process scores something else"):
            score("verifier", "pairs.jsonl", "out", **options)
    _, said = running.communicate(timeout=PATIENCE)
    assert running.returncode == 0, said
    assert_same_bytes()


def test_a_partition_that_another_process_has_is_waited_for(folder: Path) -> None:
    program = (
        "import time; from pathlib import Path; from miv.scoring.run import Claims; claims = Claims(Path('out'))"
        "; claims.share(-1); claims.claim(5); print('has it', flush=True); time.sleep(600)"
    )
    Path("out").mkdir()
    holder = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    holder.stdout.readline()
    claims = Claims(Path("out"))
    assert not claims.claim(FOLDER)
    assert not claims.claim(5)
    assert claims.claim(6)
    claims.close()
    holder.kill()
    holder.wait()
    score("verifier", "pairs.jsonl", "out", rows=ROWS)
    assert_same_bytes()
