"""Scoring with several processes: one is killed half-way, and several commands share a table."""

import json
import os
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
from miv.scoring.workers import FOLDER, Claims

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


def start(*flags: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([*COMMAND, "--json", *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished() -> list[Path]:
    return sorted(Path("out").glob("part-*"))


def wait_for_partitions(running: "subprocess.Popen[str]", count: int) -> None:
    until = time.monotonic() + PATIENCE
    while len(finished()) < count:
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < until, "no partition"
        time.sleep(0.005)


def children_of(process: int) -> list[int]:
    """The processes that score for a command."""
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [child for child in map(int, text.split()) if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def assert_same_bytes() -> None:
    """The files of one process; the key in them has the name of the output folder nowhere."""
    assert [path.name for path in finished()] == sorted(path.name for path in Path("here").glob("part-*"))
    assert [path.name for path in finished() if path.read_bytes() != Path("here", path.name).read_bytes()] == []
    assert sorted(path.name for path in Path("out").glob("[._]*")) == ["_score.json", "_score.lock"]
    summaries = [json.loads(Path(out, "_score.json").read_text())["summary"] for out in ("here", "out")]
    assert summaries[0] == summaries[1]


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the process in /proc")
def test_a_process_killed_half_way_loses_nothing(folder: Path) -> None:
    running = start("--parallel", "2")
    try:
        wait_for_partitions(running, 3)
        victims = children_of(running.pid)
        assert len(victims) == 2
        os.kill(victims[0], signal.SIGKILL)
        assert len(finished()) < EXEMPLARS // ROWS  # half-way
        printed, said = running.communicate(timeout=PATIENCE)
    finally:
        running.kill()
    assert running.returncode == 0, said
    assert json.loads(printed)["exemplars"] == EXEMPLARS
    assert_same_bytes()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the process in /proc")
def test_if_all_processes_or_the_command_are_killed_the_same_command_resumes(folder: Path) -> None:
    running = start("--parallel", "2")
    wait_for_partitions(running, 3)
    for victim in children_of(running.pid):
        os.kill(victim, signal.SIGKILL)
    _, said = running.communicate(timeout=PATIENCE)
    assert running.returncode == 1
    assert "smaller --parallel" in said
    assert "Traceback" not in said
    done = len(finished())
    running = start("--parallel", "2")
    wait_for_partitions(running, done + 3)
    orphans = children_of(running.pid)
    running.kill()
    running.communicate(timeout=PATIENCE)
    second = score("verifier", "pairs.jsonl", "out", rows=ROWS)  # beside the orphans, which end when they report
    assert second.reused >= done + 3
    until = time.monotonic() + PATIENCE
    while any(Path(f"/proc/{orphan}").exists() for orphan in orphans):
        assert time.monotonic() < until, "orphans go on"
        time.sleep(0.1)
    assert_same_bytes()


@pytest.mark.slow
def test_ctrl_c_stops_all_processes_without_a_traceback(folder: Path) -> None:
    running = start("--parallel", "2")
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
    running = start("--parallel", "2")
    wait_for_partitions(running, 3)
    for options in ({"rows": ROWS + 1}, {"rows": ROWS, "witnesses": "none", "overwrite": True}):
        with pytest.raises(MIVError, match="Another process scores something else"):
            score("verifier", "pairs.jsonl", "out", **options)
    _, said = running.communicate(timeout=PATIENCE)
    assert running.returncode == 0, said
    assert_same_bytes()


@pytest.mark.slow
def test_an_error_in_a_process_is_told_as_in_one_process(folder: Path) -> None:
    lines = Path("pairs.jsonl").read_text().splitlines()[:30]
    Path("pairs.jsonl").write_text("\n".join([*lines, '{"query": [1.0], "bag": [[1.0]]}', *lines]))
    running = start("--parallel", "2")
    _, said = running.communicate(timeout=PATIENCE)
    assert running.returncode == 1
    assert "pairs.jsonl, line 31" in said.strip().splitlines()[-1]
    assert "Traceback" not in said


def test_a_partition_that_another_process_has_is_waited_for(folder: Path) -> None:
    program = (
        "import time; from pathlib import Path; from miv.scoring.workers import Claims; claims = Claims(Path('out'))"
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
