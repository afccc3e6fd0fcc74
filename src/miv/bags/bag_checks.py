"""Checks of the parts of bags; each error says what was given and what was expected."""

from collections.abc import Sequence

import torch
from torch import Tensor

from miv.errors import MIVError


def borders_of(sizes: Sequence[int] | Tensor, like: Tensor) -> Tensor:
    """``(B + 1,)`` the borders between bags of these sizes, on the device of ``like``."""
    sizes = torch.as_tensor(sizes, dtype=torch.int64, device=like.device)
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])


def describe(thing: object) -> str:
    """Describe a value in an error."""
    if isinstance(thing, Tensor):
        return f"{str(thing.dtype).removeprefix('torch.')} {tuple(thing.shape)}"
    return f"a {type(thing).__name__}"


def check_borders(values: Tensor, ptr: Tensor) -> None:
    """Raise an error unless borders increase from 0 to the number of values, with no empty bag."""
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


def check_finite(values: Tensor) -> None:
    """Raise an error if values contain NaN or infinity."""
    if not values.is_floating_point():
        return
    bad = ~torch.isfinite(values).reshape(len(values), -1).all(dim=1)
    if bool(bad.any()):
        raise MIVError(
            f"{int(bad.sum())} of {len(values)} instances contain NaN or infinity, "
            f"the first in row {int(bad.nonzero()[0])}. Expected finite features."
        )
