"""Two processes against one, started as a user starts them."""

import csv
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.strategies import DDPStrategy

from miv.data import save_splits
from miv.errors import MIVError
from miv.training.machine import Machine, is_first_process
from miv.training.run import train
from tests.training.tiny import FEATURES, tiny_sets


@pytest.mark.parametrize(("accelerator", "message"), [("cpuu", "Did you mean 'cpu'"), ("gpu", "--accelerator cpu")])
def test_an_accelerator_that_is_not_there_is_refused_before_any_work(
    tmp_path: Path, accelerator: str, message: str
) -> None:
    if accelerator == "gpu" and (torch.cuda.is_available() or torch.backends.mps.is_available()):
        pytest.skip("there is one")
    with pytest.raises(MIVError, match=message):
        train(tiny_sets("features"), FEATURES, tmp_path / "run", Machine(tmp_path, accelerator=accelerator))
    assert not list(tmp_path.iterdir())


def test_processes_with_gpus_can_also_add_up_arrays_in_main_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Machine(Path(), devices=2, accelerator="auto").backend is None or torch.cuda.is_available()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert Machine(Path(), devices=2, accelerator="auto").backend == "cpu:gloo,cuda:nccl"
    on_cpu = Machine(Path(), devices=2, accelerator="cpu")
    assert on_cpu.backend is None
    assert isinstance(on_cpu.trainer([], None).strategy, DDPStrategy)


def test_the_first_process_is_the_first_of_all_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_first_process()
    with monkeypatch.context() as patched:
        patched.setenv("NODE_RANK", "1")  # the second machine, as Lightning starts processes
        assert not is_first_process()
    monkeypatch.setattr(rank_zero_only, "rank", 1)  # as Lightning reads it from SLURM, torchrun or its own start
    assert not is_first_process()


# Two processes against one, started as a user starts them.


def train_by_command(data: Path, out: Path, *flags: str) -> list[dict[str, str]]:
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
    one = train_by_command(data, tmp_path / "one")
    for processes in ("2", "3"):
        several = train_by_command(data, tmp_path / processes, "--devices", processes)
        assert [row["stage"] for row in several] == [row["stage"] for row in one]
        assert len({row["stage"] for row in one}) == 2
        for mine, theirs in zip(one, several, strict=True):
            for name in mine.keys() - {"stage"}:
                found, wanted = (float(row[name] or "nan") for row in (theirs, mine))  # an epoch 0 has no train loss
                assert found == pytest.approx(wanted, abs=1e-4, nan_ok=True), name
        evaluations = [json.loads((tmp_path / run / "evaluation.json").read_text()) for run in ("one", processes)]
        assert evaluations[0]["test"]["exemplars"] == evaluations[1]["test"]["exemplars"] == 44
        assert evaluations[0]["test"]["classification"] == evaluations[1]["test"]["classification"]


# Two machines train together: here two process groups with addresses of their own, started as on two machines.

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


# A stop that reaches the whole process group, as from a scheduler, while other processes make the batches.

TRAIN = """
import sys
from pathlib import Path
import torch
from miv.errors import StoppedByUser
from miv.training import checkpoint
from miv.training.run import Machine, train
from tests.training.tiny import IMAGES, tiny_sets

torch.set_num_threads(1)
before = checkpoint.CheckpointCallback.on_train_batch_start

def say(self, trainer, module, batch, number):
    if (module.state.epoch, module.state.step) == (0, 1):
        print("stepping", flush=True)
        sys.stdin.readline()  # the signal has been sent
    before(self, trainer, module, batch, number)

checkpoint.CheckpointCallback.on_train_batch_start = say
out = Path(sys.argv[1])
try:
    train(tiny_sets("image"), IMAGES, out, Machine(out.parent / "cache", workers=2))
except StoppedByUser as stopped:
    print(stopped)
    sys.exit(stopped.exit_code)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no process groups to signal")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stop_of_the_whole_group_is_saved(tmp_path: Path, number: int, code: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", TRAIN, str(tmp_path / "run")],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "stepping\n"
        os.killpg(process.pid, number)
        time.sleep(0.5)  # so that a worker that does not ignore it has ended
        sent = time.monotonic()
        said, errors = process.communicate("go on\n", timeout=30)
    finally:
        process.kill()
    assert process.returncode == code, errors
    assert "everything is saved" in said
    assert time.monotonic() - sent < 15, "the workers did not end with the training"
    state = torch.load(tmp_path / "run" / "checkpoints" / "frozen" / "last.ckpt", weights_only=True)["stage"]
    assert (len(state["history"]), state["step"]) == (0, 1)
