import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.strategies import DDPStrategy

from miv.errors import MIVError
from miv.training.machine import Machine, is_first_process, set_threads
from miv.training.run import train
from tests.training.tiny import FEATURES, tiny_sets


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = torch.get_num_threads()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    yield
    torch.set_num_threads(before)


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


def test_threads_are_those_that_were_asked_for_also_in_the_eyes_of_lightning(threads: None) -> None:
    set_threads(3, processes=2)
    assert (torch.get_num_threads(), os.environ["OMP_NUM_THREADS"]) == (3, "3")


def test_cores_are_shared_also_where_affinity_is_unknown(threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    set_threads(0, processes=4)
    assert torch.get_num_threads() == 2
    set_threads(0, processes=9)
    assert torch.get_num_threads() == 1


def test_the_first_process_is_the_first_of_all_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_first_process()
    with monkeypatch.context() as patched:
        patched.setenv("NODE_RANK", "1")  # the second machine, as Lightning starts processes
        assert not is_first_process()
    monkeypatch.setattr(rank_zero_only, "rank", 1)  # as Lightning reads it from SLURM, torchrun or its own start
    assert not is_first_process()
