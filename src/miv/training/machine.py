"""Hardware for training: device and memory. It does not affect what is learned."""

import sys
from dataclasses import dataclass
from pathlib import Path

import torch

from miv.errors import MIVError, unknown_name
from miv.runtime import free_memory


@dataclass(frozen=True)
class Machine:
    """Hardware for training; it does not affect what is learned."""

    cache: Path  # folder of the feature cache
    accelerator: str = "cpu"  # cpu, gpu, or auto
    quiet: bool = False  # print nothing on standard error

    def say(self, text: str) -> None:
        """Print on standard error, unless the machine is quiet."""
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)

    def step_memory(self, device: torch.device) -> int:
        """Bytes that may be used to embed a step while the backbone learns: half of what is free."""
        return (torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else free_memory()) // 2

    def find_device(self) -> torch.device:
        """The device to train on; an error if it is not available."""
        if self.accelerator not in ("auto", "cpu", "gpu"):
            raise unknown_name("accelerator", self.accelerator, ("auto", "cpu", "gpu"))
        if self.accelerator != "cpu":
            if torch.cuda.is_available():
                return torch.device("cuda", 0)
            if torch.backends.mps.is_available():
                return torch.device("mps", 0)
        if self.accelerator == "gpu":
            raise MIVError("The accelerator is 'gpu', and PyTorch finds none on this machine. Try --accelerator cpu.")
        return torch.device("cpu")
