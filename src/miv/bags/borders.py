"""The borders between bags, and everything derived from them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from miv.errors import MIVError

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


# Checks of the parts of bags; each error says what was given and what was expected.


def borders_of(sizes: Sequence[int] | Tensor, like: Tensor) -> Tensor:
    """``(B + 1,)`` the borders between bags of these sizes, on the device of ``like``."""
    sizes = torch.as_tensor(sizes, dtype=torch.int64, device=like.device)
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])


def describe(thing: object) -> str:
    """Describe a value in an error."""
    if isinstance(thing, Tensor):
        return f"{str(thing.dtype).removeprefix('torch.')} {tuple(thing.shape)}"
    return f"a {type(thing).__name__}"


def refuse_nested(value: object, what: str) -> None:
    """Raise an error for a nested tensor, whose bags ``Bags`` would hold."""
    if isinstance(value, Tensor) and value.is_nested:
        raise MIVError(f"{what} is a nested tensor. Expected Bags: create them with Bags.from_list(tensor.unbind()).")


def check_borders(values: Tensor, ptr: Tensor) -> None:
    """Raise an error unless borders increase from 0 to the number of values, with no empty bag."""
    refuse_nested(values, "values")
    if not isinstance(values, Tensor) or values.ndim == 0:
        raise MIVError(f"values is {describe(values)}. Expected a tensor (T, ...) with one row per instance.")
    if values.layout != torch.strided or values.is_meta:
        form = "on the meta device, without numbers" if values.is_meta else f"a {str(values.layout)[6:]} tensor"
        raise MIVError(f"values is {form}. Expected a dense tensor: use .to_dense(), or load it on a real device.")
    if not isinstance(ptr, Tensor) or ptr.dtype != torch.int64 or ptr.ndim != 1 or len(ptr) < 2:
        raise MIVError(f"ptr is {describe(ptr)}. Expected int64 of shape (B + 1,), with B of at least 1.")
    if ptr.device != values.device:
        raise MIVError(f"values is on {values.device}, ptr on {ptr.device}. Expected one device.")
    sizes = ptr.diff()
    if int(ptr[0]) != 0 or int(ptr[-1]) != len(values):
        raise MIVError(
            f"ptr goes from {int(ptr[0])} to {int(ptr[-1])}. Expected 0 to {len(values)}, the number of rows of values."
        )
    if int(sizes.min()) < 0:
        first = int((sizes < 0).nonzero()[0])
        raise MIVError(
            f"ptr falls from {int(ptr[first])} to {int(ptr[first + 1])} at bag {first}. Expected increasing borders."
        )
    if int(sizes.min()) == 0:
        first = int((sizes == 0).nonzero()[0])
        raise MIVError(f"Bag {first} is empty. Expected at least one instance. Remove the exemplar.")
