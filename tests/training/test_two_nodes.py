"""Two machines train together: here two process groups with addresses of their own, started as on two machines."""

import csv
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from miv.data import save_splits
from tests.training.tiny import tiny_sets

# Notes the loss and the weights of every epoch on each machine, then trains as `miv train` does.
NOTING = """
import hashlib, json, os, sys
from miv.cli import main
from miv.files.weights import add_weights
from miv.training.checkpoint import CheckpointCallback

save = CheckpointCallback.on_train_epoch_end

def noting(self, trainer, module):
    digest = hashlib.sha256()
    add_weights(digest, module.verifier.state_dict())
    with open(os.environ["NOTES"], "a") as file:
        file.write(json.dumps([module.state.history[-1], digest.hexdigest()]) + chr(10))
    save(self, trainer, module)

CheckpointCallback.on_train_epoch_end = noting
main()
"""


def start(folder: Path, out: str, *flags: str, **environment: str) -> subprocess.Popen[str]:
    given = ["train", str(folder / "data"), "--out", str(folder / out), "--cache", str(folder / f"cache {out}")]
    given += ["--max-epochs", "2", "--patience", "2", "--batch-size", "7", "--accelerator", "cpu", "--json"]
    return subprocess.Popen(
        [sys.executable, "-c", NOTING, *given, *flags],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_two_nodes_learn_as_one_machine_and_write_the_run_once(tmp_path: Path) -> None:
    save_splits(tiny_sets("image"), tmp_path / "data", builder="test", options={}, seed=0)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    cluster = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    nodes = [
        start(tmp_path, "two", "--nodes", "2", NODE_RANK=str(rank), NOTES=str(tmp_path / f"rank {rank}"), **cluster)
        for rank in range(2)
    ]
    try:
        printed, said = zip(*(node.communicate(timeout=900) for node in nodes), strict=True)
    finally:
        for node in nodes:
            node.kill()
    assert [node.returncode for node in nodes] == [0, 0], "\n".join(said)
    assert json.loads(printed[0])
    assert printed[1] == ""  # only the first machine reports
    notes = [(tmp_path / f"rank {rank}").read_text() for rank in range(2)]
    assert notes[0] == notes[1]  # losses and weights agree to the last bit
    assert notes[0].count("\n") >= 2
    alone = start(tmp_path, "one", NOTES=str(tmp_path / "alone"))
    assert alone.communicate(timeout=900)[1] is not None
    assert alone.returncode == 0
    runs = []
    for out in ("one", "two"):
        with (tmp_path / out / "metrics.csv").open(newline="") as file:
            runs.append(list(csv.DictReader(file)))
    assert [row["stage"] for row in runs[1]] == [row["stage"] for row in runs[0]] == ["align", "frozen"]
    for mine, theirs in zip(*runs, strict=True):
        assert_close(numbers(theirs), numbers(mine))
    epochs = [
        [json.loads(line)[0] for line in text.splitlines()] for text in ((tmp_path / "alone").read_text(), notes[0])
    ]
    for before, after in zip(*epochs, strict=True):  # also those of the trial that chooses the number of epochs
        assert_close(after, before)


def numbers(row: dict[str, str]) -> dict[str, float]:
    """The numbers of a row; a start has no rate and no loss."""
    return {name: float(value) for name, value in row.items() if name != "stage" and value}


def assert_close(found: dict[str, float], expected: dict[str, float]) -> None:
    assert found == pytest.approx(expected, abs=1e-4)
