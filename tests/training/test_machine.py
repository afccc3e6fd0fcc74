"""Several processes and machines against one, started as a user starts them."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.strategies import DDPStrategy

from miv.data import save_splits
from miv.errors import MIVError
from miv.training.machine import Machine, is_first_process
from miv.training.run import run_training
from tests.training.tiny import FEATURES, SIMILAR, rows, tiny_sets


@pytest.mark.parametrize(("accelerator", "message"), [("cpuu", "Did you mean 'cpu'"), ("gpu", "--accelerator cpu")])
def test_an_accelerator_that_is_not_there_is_refused_before_any_work(
    tmp_path: Path, accelerator: str, message: str
) -> None:
    if accelerator == "gpu" and (torch.cuda.is_available() or torch.backends.mps.is_available()):
        pytest.skip("there is one")
    with pytest.raises(MIVError, match=message):
        run_training(tiny_sets("features"), FEATURES, tmp_path / "run", Machine(tmp_path, accelerator=accelerator))
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


def test_a_second_machine_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_zero_only, "rank", 0)  # Lightning changes it, and it is global
    monkeypatch.setenv("NODE_RANK", "1")
    config = FEATURES.changed({**SIMILAR, "recipe": "nearest"})
    evaluations = run_training(tiny_sets("features"), config, tmp_path / "run", Machine(tmp_path / "cache"))
    assert evaluations["test"].metrics["auroc"] > 0.8
    assert not (tmp_path / "run").exists()


def start(folder: Path, out: str, *flags: str, **environment: str) -> subprocess.Popen[str]:
    """A training as a user starts it: 44 exemplars in batches of 7, so the last batch has 2."""
    if not (folder / "data").exists():
        save_splits(tiny_sets("image"), folder / "data", builder="test", options={}, seed=0)
    command = ["train", str(folder / "data"), "--out", str(folder / out), "--cache", str(folder / f"cache {out}")]
    command += ["--max-epochs", "2", "--patience", "2", "--batch-size", "7", "--accelerator", "cpu", "--json"]
    return subprocess.Popen(
        [sys.executable, "-m", "miv", *command, *flags],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def figures(run: Path) -> list[dict[str, float]]:
    return [{name: float(value) for name, value in row.items() if name != "stage" and value} for row in rows(run)]


@pytest.mark.slow
@pytest.mark.parametrize("several", ["2 processes", "3 processes", "2 machines"])
def test_several_processes_and_machines_learn_as_one_and_write_once(tmp_path: Path, several: str) -> None:
    """Of three processes, one has nothing of the last batch."""
    alone = start(tmp_path, "one")
    assert alone.communicate(timeout=900)[0]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        cluster = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    if several == "2 machines":
        started = [start(tmp_path, "run", "--nodes", "2", NODE_RANK=str(rank), **cluster) for rank in range(2)]
    else:
        started = [start(tmp_path, "run", "--devices", several[0])]
    try:
        printed, said = zip(*(process.communicate(timeout=900) for process in started), strict=True)
    finally:
        for process in started:
            process.kill()
    assert {process.returncode for process in started} == {0}, "\n".join(said)
    assert json.loads(printed[0])["test"]["exemplars"] == 44
    assert printed[1:] in ((), ("",))  # only the first reports
    for mine, theirs in zip(figures(tmp_path / "one"), figures(tmp_path / "run"), strict=True):
        assert theirs == pytest.approx(mine, abs=1e-4)
