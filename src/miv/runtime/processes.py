"""Divide work among processes and combine their results."""

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True)
class ProcessShare:
    """Process ``rank`` of ``world``.

    >>> ProcessShare(1, 3).part(np.arange(7))
    array([3, 4])
    """

    rank: int = 0
    world: int = 1

    @classmethod
    def of_this_process(cls) -> "ProcessShare":
        """The share of this process: everything, unless several were started together."""
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            return cls()
        return cls(torch.distributed.get_rank(), torch.distributed.get_world_size())

    def part(self, rows: NDArray[Number]) -> NDArray[Number]:
        """The rows of this process: neighbours, so that shared instances are embedded once."""
        return np.array_split(rows, self.world)[self.rank]

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self.world > 1:
            torch.distributed.barrier()

    def sum(self, values: Any) -> NDArray[Any]:
        """Sum the arrays of all processes; each process gets the sum."""
        if self.world == 1:
            return np.asarray(values)
        total = torch.from_numpy(np.array(values))
        torch.distributed.all_reduce(total)
        return total.numpy()
