"""The borders between bags, and everything derived from them."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

BLOCK_ROWS = 1024  # per thread: 2 MB with 512 float32 channels; the fastest of 128 to 4,096


@dataclass(frozen=True)
class InstanceBlock:
    """Consecutive bags that are processed together."""

    bags: slice
    rows: slice
    owner: Tensor  # (t,) the bag of each row, counted from the block's first bag
    starts: Tensor  # (b,) the first row of each bag, counted from the block's first row


class Borders:
    """``ptr`` ``(B + 1,)``: bag ``b`` holds the rows ``ptr[b]`` to ``ptr[b + 1]``. Everything else is derived once."""

    def __init__(self, ptr: Tensor, rows: int) -> None:
        self.ptr = ptr
        self.rows = rows  # T, known without waiting for a GPU

    def __len__(self) -> int:
        return len(self.ptr) - 1

    @cached_property
    def sizes(self) -> Tensor:
        """``(B,)`` the number of instances in each bag."""
        with torch.inference_mode(False):  # cached tensors must also work in a training step
            return self.ptr.diff()

    @cached_property
    def owner(self) -> Tensor:
        """``(T,)`` the bag that each instance is in."""
        with torch.inference_mode(False):
            return torch.repeat_interleave(self.sizes, output_size=self.rows)

    @cached_property
    def places(self) -> tuple[Tensor, Tensor]:
        """``(T,)`` and ``(T,)`` the number of rows before and after each one in its bag, int64."""
        with torch.inference_mode(False):
            rows = torch.arange(self.rows, device=self.ptr.device)
            return rows - self.ptr[self.owner], self.ptr[self.owner + 1] - 1 - rows

    @cached_property
    def blocks(self) -> list[InstanceBlock]:
        """All bags, in blocks of at most ``BLOCK_ROWS`` rows per thread or one larger bag; one block on a GPU."""
        if self.ptr.device.type != "cpu":
            return [InstanceBlock(slice(0, len(self)), slice(0, self.rows), self.owner, self.ptr[:-1])]
        ptr = self.ptr.tolist()
        most = BLOCK_ROWS * torch.get_num_threads()
        blocks, first = [], 0
        for last in range(1, len(ptr)):
            if last < len(self) and ptr[last + 1] - ptr[first] <= most:
                continue
            rows = slice(ptr[first], ptr[last])
            with torch.inference_mode(False):
                owner, starts = self.owner[rows] - first, self.ptr[first:last] - ptr[first]
            blocks.append(InstanceBlock(slice(first, last), rows, owner, starts))
            first = last
        return blocks
