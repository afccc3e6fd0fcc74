"""Hardware for training: processes, devices and threads. It does not affect what is learned."""

import logging
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from miv.errors import MIVError, unknown_name
from miv.runtime import available_cores, free_memory
from miv.training.checkpoint import (
    AcceleratorRegistry,
    Callback,
    DDPStrategy,
    EpochMetrics,
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
    workers: int = 0  # number of extra processes that prepare batches
    quiet: bool = False  # print no epochs on standard error
    memory: float | None = None  # GB for embedding a step while the backbone learns; default: half of what is free

    @property
    def processes(self) -> int:
        """Number of processes over all machines."""
        return self.devices * self.nodes

    def step_memory(self, device: torch.device) -> int:
        """Bytes that a process may use to embed a step while the backbone learns."""
        if self.memory is not None:
            return int(self.memory * 1e9)
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


class EpochProgress(Callback):
    """A bar over the steps of the whole stage, with the maximum time left, and one line per epoch.

    Epochs are counted over the whole run; ``best_before`` is the criterion of the best epoch of earlier stages.
    """

    def __init__(self, stage: str, epochs_before: int, best_before: float) -> None:
        self.stage, self._epochs_before, self._best_before = stage, epochs_before, best_before
        self._console = Console(stderr=True, highlight=False)
        self._bars: Progress | None = None
        self._began = time.monotonic()

    def on_train_start(self, trainer: Trainer, module: Any) -> None:
        self._began = time.monotonic()
        if trainer.is_global_zero:
            star = "" if self.stage in BY_NEAREST else " * marks the best so far."
            print(f"Stage {self.stage}: {STAGES[self.stage]}.{star}", file=sys.stderr, flush=True)
        if self._console.is_terminal and trainer.is_global_zero:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._bars = Progress(*columns, TextColumn("at most"), TimeRemainingColumn(), console=self._console)
            state = module.state
            total, done = module.config.max_epochs * module.steps, state.epoch * module.steps + state.step
            self._bars.add_task(f"Stage {self.stage}", total=total, completed=done)
            self._bars.start()

    def on_train_epoch_start(self, trainer: Trainer, module: Any) -> None:
        """Print the metrics of the start, measured when a stage begins."""
        state = module.state
        if state.start is not None and not state.epoch and not state.step and trainer.is_global_zero:
            is_best = state.start[state.criterion] > self._best_before
            self._say(f"{self.stage:<6} start      {self._figures(state.start)}{' *' if is_best else ''}")

    def on_train_batch_end(self, trainer: Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self._bars is not None:
            self._bars.advance(self._bars.task_ids[0])

    def report(self, module: Any) -> None:
        row, state = module.state.history[-1], module.state
        seconds, self._began = time.monotonic() - self._began, time.monotonic()
        is_best = self.stage not in BY_NEAREST and state.best == state.epoch - 1
        is_best = is_best and row[state.criterion] > self._best_before
        self._say(
            f"{self.stage:<6} epoch {self._epochs_before + state.epoch:>3}  loss {row['train_loss']:.4f}  "
            f"{self._figures(row)}  {seconds:5.1f} s{' *' if is_best else ''}"
        )

    def _figures(self, row: EpochMetrics) -> str:
        loss, accuracy, auroc = (row[f"validation_{name}"] for name in ("loss", "accuracy", "auroc"))
        of = "nearest loss" if self.stage in BY_NEAREST else "loss"
        return f"validation {of} {loss:.4f}  accuracy {accuracy:.4f}  AUROC {auroc:.4f}"

    def _say(self, line: str) -> None:
        if self._bars is not None:
            self._bars.print(line)
        else:
            print(line, file=sys.stderr, flush=True)

    def teardown(self, trainer: Trainer, module: Any, stage: str) -> None:
        if self._bars is not None:
            self._bars.stop()
            self._bars = None


STAGES = {
    "contrast": "train the backbone to find the bag of a query among others; figures are those of the nearest target",
    "frozen": "train the head; the backbone stays as it is",
    "all": "train the backbone and the head together",
}
BY_NEAREST = ("contrast",)  # stages without a head yet, which predict by the nearest target
