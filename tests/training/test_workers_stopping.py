"""A stop that reaches the whole process group, as from a scheduler, while other processes make the batches."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

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
