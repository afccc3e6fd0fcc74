"""Two processes against one, started as a user starts them."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from miv.data import save_splits
from tests.training.tiny import tiny_sets


def train(data: Path, out: Path, *flags: str) -> list[dict[str, str]]:
    command = [sys.executable, "-m", "miv", "train", str(data), "--out", str(out), "--cache", str(out.parent / "cache")]
    common = ["--max-epochs", "3", "--patience", "3", "--frozen-stage", "--batch-size", "7", "--accelerator", "cpu"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, *common, *flags], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("test: 44 exemplars") == 1  # only the first process reports
    with (out / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_two_processes_learn_as_one(tmp_path: Path) -> None:
    """44 exemplars in batches of 7: the last batch has 2, and 3 processes leave one of them without any."""
    data = tmp_path / "data"
    save_splits(tiny_sets("image"), data, builder="test", options={}, seed=0)
    one = train(data, tmp_path / "one")
    for processes in ("2", "3"):
        several = train(data, tmp_path / processes, "--devices", processes)
        assert [row["stage"] for row in several] == [row["stage"] for row in one]
        assert len({row["stage"] for row in one}) == 2
        for mine, theirs in zip(one, several, strict=True):
            for name in mine.keys() - {"stage"}:
                found, wanted = (float(row[name] or "nan") for row in (theirs, mine))  # an epoch 0 has no train loss
                assert found == pytest.approx(wanted, abs=1e-4, nan_ok=True), name
        evaluations = [json.loads((tmp_path / run / "evaluation.json").read_text()) for run in ("one", processes)]
        assert evaluations[0]["test"]["exemplars"] == evaluations[1]["test"]["exemplars"] == 44
        assert evaluations[0]["test"]["classification"] == evaluations[1]["test"]["classification"]
