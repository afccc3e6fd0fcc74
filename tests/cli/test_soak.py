"""Kills, full disks and concurrent commands on one cache and one run folder: nothing is lost or silently wrong.

``MIV_SOAK_SECONDS`` says how long; the default is 30 minutes. ``MIV_SOAK_SEED`` repeats a sequence of attacks.
"""

import csv
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from miv.data import load_splits, save_splits
from tests.training.tiny import assert_same_run, tiny_sets

SECONDS = float(os.environ.get("MIV_SOAK_SECONDS", "1800"))
SEED = int(os.environ.get("MIV_SOAK_SEED", "0"))
SETTINGS = ("--max-epochs", "6", "--patience", "6", "--align-epochs", "2", "--threads", "1", "--no-baselines")
TRAIN = ("train", "data", *SETTINGS, "--out")
BESIDE = (
    ("runs", "list", "runs", "--json"),
    ("evaluate", "runs/one", "data", "--json"),
    ("data", "inspect", "data", "--json"),
    (*TRAIN, "runs/one", "--resume"),
    (*TRAIN, "runs/other", "--resume"),
)


def start(folder: Path, *words: str, most_bytes: int | None = None) -> subprocess.Popen[bytes]:
    """Start a command; ``most_bytes`` is the longest file it can write, as on a disk that is full after that."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write then fails with an error, as on a full disk
        if most_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    environment = {**os.environ, "MIV_CACHE_DIR": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    errors = (folder / "errors.txt").open("wb")
    command = [sys.executable, "-m", "miv", *words]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=errors, preexec_fn=limit
    )


def attack(folder: Path, rng: random.Random) -> str:
    """Train or go on, with another command beside it, and stop one or both somehow."""
    most = rng.choice((None, None, None, 2_000, 20_000, 60_000))
    out = rng.choice(("runs/one", "runs/one", "runs/other"))
    training = start(folder, *TRAIN, out, "--resume", most_bytes=most)
    beside = start(folder, *rng.choice(BESIDE)) if rng.random() < 0.5 else None
    wait = rng.uniform(0.5, 12.0)
    kind = rng.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM, None))
    try:
        training.wait(wait if kind else 120)
    except subprocess.TimeoutExpired:
        training.send_signal(kind or signal.SIGKILL)
    for process in (training, beside):
        if process is not None:
            process.wait(120)
    return f"{out} {most=} {kind=} {wait:.1f} s, ended with {training.returncode}"


def check_no_file_is_half(folder: Path) -> None:
    """Whatever is there under its final name is whole."""
    for path in [*folder.glob("runs/*/*.json"), *folder.glob("runs/*/verifier/*.json")]:
        json.loads(path.read_text())
    for path in folder.glob("runs/*/metrics.csv"):
        epochs = [int(row["epoch"]) for row in csv.DictReader(path.open(newline=""))]
        assert epochs == sorted(set(epochs)), f"{path}: {epochs}"


@pytest.mark.slow
def test_attacks_lose_nothing(tmp_path: Path) -> None:
    save_splits(tiny_sets("features"), tmp_path / "data", builder="test", options={}, seed=0)
    before = {split: one.fingerprint for split, one in load_splits(tmp_path / "data").items()}
    rng, told = random.Random(SEED), []
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        told.append(attack(tmp_path, rng))
        check_no_file_is_half(tmp_path)
        if rng.random() < 0.1 and (tmp_path / "runs" / "one").exists():  # begin anew, on the same cache
            (tmp_path / "runs" / "one").rename(tmp_path / f"moved-{len(told)}")
    print(f"{len(told)} attacks:", *told, sep="\n")
    for name in ("one", "other", "calm"):
        done = start(tmp_path, *TRAIN, f"runs/{name}", "--resume")
        assert done.wait(300) == 0, (tmp_path / "errors.txt").read_text()
    for name in ("one", "other"):  # as if nothing had happened
        assert_same_run(tmp_path / "runs" / "calm", tmp_path / "runs" / name)
    assert {split: one.fingerprint for split, one in load_splits(tmp_path / "data", verify=True).items()} == before
    left = [path for path in (tmp_path / "runs").rglob("*") if path.name.endswith((".part", ".old"))]
    assert left == []
