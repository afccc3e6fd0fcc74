"""Scoring with real Ray workers: one is killed half-way, and two nodes share the work."""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow.dataset
import pytest
import torch

from miv import Verifier
from miv.scoring import score

pytestmark = pytest.mark.slow
pytest.importorskip("ray", reason="Ray is not installed: pip install 'miv[ray]'")

EXEMPLARS, ROWS = 1500, 10
PATIENCE = 600.0  # seconds; a busy machine takes minutes to start Ray


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A verifier, a table, and its verdicts from one process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))  # Ray keeps a token there, and what it does depends on it
    for name in [name for name in os.environ if name.startswith("RAY_AUTH_")]:
        monkeypatch.delenv(name)
    torch.manual_seed(0)
    Verifier("cap_dba_l2", channels=8).save_pretrained("verifier")
    random = np.random.default_rng(0)
    with Path("pairs.jsonl").open("w") as file:
        for _ in range(EXEMPLARS):
            row = {"query": random.normal(size=8).tolist(), "bag": random.normal(size=(20, 8)).tolist()}
            file.write(f"{json.dumps(row)}\n")
    score("verifier", "pairs.jsonl", "here", rows=ROWS)
    return tmp_path


def command(*flags: str) -> list[str]:
    asked = ["score", "verifier", "pairs.jsonl", "--out", "out", "--rows", str(ROWS), "--json", *flags]
    return [sys.executable, "-m", "miv", *asked]


def surroundings(**more: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "RAY_DISABLE_IMPORT_WARNING": "1", **more}


def run(*flags: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*flags), env=surroundings(**more), capture_output=True, text=True, check=False, timeout=PATIENCE
    )


def assert_same_folder() -> None:
    """The same files with the same rows: nothing is lost, nothing is there twice."""
    here, out = (pyarrow.dataset.dataset(name).to_table() for name in ("here", "out"))
    assert here.replace_schema_metadata() == out.replace_schema_metadata()
    assert out["exemplar"].to_pylist() == list(range(EXEMPLARS))
    names = [sorted(path.name for path in Path(one).iterdir() if path.suffix != ".lock") for one in ("here", "out")]
    assert names[0] == names[1]


def parent(process: int) -> int:
    """The parent of a process; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def workers_of(process: int) -> list[int]:
    """The Ray workers that a process has started, and that have a verifier loaded."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            name = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        ancestor = int(entry.name)
        while ancestor > 1 and ancestor != process:
            ancestor = parent(ancestor)
        if ancestor == process and name.startswith(b"ray::") and b"Worker" in name and b"IDLE" not in name:
            found.append(int(entry.name))
    return found


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the worker in /proc")
def test_a_worker_killed_half_way_loses_nothing_and_repeats_nothing(folder: Path) -> None:
    running = subprocess.Popen(
        command("--workers", "2"), env=surroundings(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        until = time.monotonic() + PATIENCE
        while len(list(Path("out").glob("part-*"))) < 3:
            assert running.poll() is None, running.communicate()
            assert time.monotonic() < until, "no partition"
            time.sleep(0.01)
        victims = workers_of(running.pid)
        assert victims
        os.kill(victims[0], signal.SIGKILL)
        done = len(list(Path("out").glob("part-*")))
        assert done < EXEMPLARS // ROWS  # half-way
        printed, said = running.communicate(timeout=PATIENCE)
    finally:
        running.kill()
    assert running.returncode == 0, said
    assert not Path(f"/proc/{victims[0]}").exists()
    assert json.loads(printed)["reused"] == 0
    assert_same_folder()


@contextmanager
def two_nodes(folder: Path, **environment: str) -> Iterator[str]:
    """The address of a cluster of two nodes on this machine, each with one core."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address, temporary = f"127.0.0.1:{port}", Path(f"/tmp/ray-{secrets.token_hex(4)}")  # a socket has a short name
    ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=1"]
    ray += ["--object-store-memory=100000000", "--disable-usage-stats"]
    head = ["--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={temporary}"]
    nodes = []
    try:
        for number, flags in enumerate((head, [f"--address={address}"])):
            said = folder / f"node-{number}.log"
            with said.open("w") as file:
                node = subprocess.Popen(
                    [*ray, *flags], env=surroundings(**environment), stdout=file, stderr=subprocess.STDOUT
                )
            nodes.append(node)
            until = time.monotonic() + PATIENCE
            while "Ray runtime started" not in said.read_text():
                assert node.poll() is None, said.read_text()
                assert time.monotonic() < until, "Ray did not start"
                time.sleep(0.2)
        yield address
    finally:
        for node in reversed(nodes):
            node.terminate()
        for node in nodes:
            node.wait(timeout=PATIENCE)
        shutil.rmtree(temporary, ignore_errors=True)


def test_two_nodes_with_a_token_share_the_work_with_those_who_have_it(folder: Path) -> None:
    """The nodes are told to ask for the token; for `miv score`, the token is enough."""
    (folder / "token").write_text(secrets.token_hex(32))
    token = {"RAY_AUTH_TOKEN_PATH": str(folder / "token")}
    with two_nodes(folder, RAY_AUTH_MODE="token", **token) as address:
        refused = run("--address", address)
        done = run("--address", address, **token)
    assert refused.returncode == 1
    last = refused.stderr.strip().splitlines()[-1]
    assert last.startswith("Error: Cannot connect to a Ray cluster")
    assert "RAY_AUTH_TOKEN_PATH" in last
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["nodes"] == 2
    assert_same_folder()


def test_an_error_in_a_worker_is_told_as_in_one_process(folder: Path) -> None:
    lines = Path("pairs.jsonl").read_text().splitlines()[:30]
    Path("pairs.jsonl").write_text("\n".join([*lines, '{"query": [1.0], "bag": [[1.0]]}']))
    done = run("--workers", "2")
    assert done.returncode == 1
    assert "pairs.jsonl, line 31" in done.stderr.strip().splitlines()[-1]
    assert "Traceback" not in done.stderr
