"""Hardware for training: processes, devices and threads. It does not affect what is learned."""

import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

from miv.errors import MIVError, unknown_name
from miv.runtime import available_cores, free_memory
from miv.training.checkpoint import (
    AcceleratorRegistry,
    Callback,
    DDPStrategy,
    LightningEnvironment,
    Logger,
    MisconfigurationException,
    Trainer,
    rank_zero_only,
)


@dataclass(frozen=True)
class Machine:
    """Hardware for training; it does not affect what is learned."""

    cache: Path  # folder of the feature cache
    devices: int = 1  # number of processes on this machine
    nodes: int = 1  # number of machines
    accelerator: str = "cpu"  # cpu, gpu, or auto
    quiet: bool = False  # print nothing on standard error

    @property
    def processes(self) -> int:
        """Number of processes over all machines."""
        return self.devices * self.nodes

    @property
    def is_silent(self) -> bool:
        """Whether this process prints nothing: only the first of all does."""
        return self.quiet or not is_first_process()

    def say(self, text: str) -> None:
        """Print on standard error, unless this process is silent."""
        if not self.is_silent:
            print(text, file=sys.stderr, flush=True)

    def step_memory(self, device: torch.device) -> int:
        """Bytes that a process may use to embed a step while the backbone learns: half of what is free."""
        if device.type == "cuda":
            return torch.cuda.mem_get_info(device)[0] // 2
        return free_memory() // (2 * self.devices)

    def find_device(self) -> torch.device:
        """The device of this process; an error if it is not available."""
        return self.trainer([], None).strategy.root_device

    def trainer(self, callbacks: list[Callback], logger: Logger | None) -> Trainer:
        known = {"auto", "gpu", *AcceleratorRegistry.available_accelerators()}
        if self.accelerator not in known:
            raise unknown_name("accelerator", self.accelerator, known)
        for name in ("lightning.pytorch", "lightning.fabric"):
            logging.getLogger(name).setLevel(logging.ERROR)
        try:
            return Trainer(
                accelerator=self.accelerator,
                devices=self.devices,
                num_nodes=self.nodes,
                strategy=DDPStrategy(process_group_backend=self.backend) if self.processes > 1 else "auto",
                max_epochs=-1,  # CheckpointCallback decides
                callbacks=callbacks,
                logger=logger or False,
                limit_val_batches=0,
                use_distributed_sampler=False,
                enable_checkpointing=bool(callbacks),
                enable_progress_bar=False,
                enable_model_summary=False,
            )
        except (MisconfigurationException, ValueError, RuntimeError) as error:
            reason = str(error).strip().splitlines()[0].rstrip(".")
            asked = f"{self.accelerator!r} with {self.devices} devices"
            raise MIVError(f"The accelerator {asked} cannot be used: {reason}. Try --accelerator cpu.") from error

    @property
    def backend(self) -> str | None:
        """Communication between processes; with GPUs, sums of numpy arrays still go through main memory."""
        return "cpu:gloo,cuda:nccl" if self.accelerator != "cpu" and torch.cuda.is_available() else None


def set_threads(threads: int, processes: int) -> None:
    """Set the number of threads of this process; 0 divides the cores among the processes of the machine."""
    if threads or processes > 1:
        threads = threads or max(1, available_cores() // processes)
        torch.set_num_threads(threads)
        os.environ["OMP_NUM_THREADS"] = str(threads)  # otherwise Lightning chooses its own value


def is_first_process() -> bool:
    """Whether this is the first process, however the processes were started."""
    rank: int = getattr(rank_zero_only, "rank", 0)
    return rank == 0 and LightningEnvironment().node_rank() == 0
