"""Ragged bags: all instances of a batch in one tensor, and the borders between the bags."""

from collections.abc import Sequence

import torch
from torch import Tensor

from miv.bags import kernels
from miv.bags.borders import Borders
from miv.errors import MIVError


class Bags:
    """``B`` bags of ``T`` instances in all; bag ``b`` holds the rows ``ptr[b]`` to ``ptr[b + 1]``.

    Args:
        values: ``(T, ...)``, one row an instance; poolings take ``(T, C)``.
        ptr: ``(B + 1,)`` int64, rising from 0 to ``T``. A bag is never empty.
        check: also refuse values that are not finite (reads all of them).

    The operations take a tensor of ``T`` rows, one an instance, in the order of ``values``, and give
    one of ``B`` rows (``sum``, ``mean``, ``var``, ``max``, ``logsumexp``) or of ``T`` rows
    (``softmax``; ``expand`` goes from ``B`` rows to ``T``).

    >>> bags = Bags.from_list([torch.tensor([[1.0], [3.0]]), torch.tensor([[5.0]])])
    >>> bags.mean(bags.values)
    tensor([[2.],
            [5.]])
    >>> bags.softmax(torch.zeros(3, 1)).flatten()
    tensor([0.5000, 0.5000, 1.0000])
    """

    def __init__(self, values: Tensor, ptr: Tensor, *, check: bool = False) -> None:
        _check_borders(values, ptr)
        if check:
            _check_finite(values)
        self.values = values
        self.borders = Borders(ptr, len(values))

    @classmethod
    def from_list(cls, bags: Sequence[Tensor], *, check: bool = False) -> "Bags":
        """Join bags of shape ``(N_b, ...)``, each with rows of the same shape and dtype."""
        if not bags:
            raise MIVError("No bag was given. Expected a list of at least one tensor (N, ...).")
        first = bags[0]
        for number, bag in enumerate(bags):
            if not isinstance(bag, Tensor) or bag.ndim == 0:
                raise MIVError(f"Bag {number} is {_describe(bag)}. Expected a tensor (N, ...) with a row an instance.")
            if bag.shape[1:] != first.shape[1:] or bag.dtype != first.dtype:
                raise MIVError(
                    f"Bag {number} is {_describe(bag)}, but bag 0 is {_describe(first)}. "
                    "Expected the same dtype and row shape in every bag."
                )
        return cls(torch.cat(list(bags)), _borders([len(bag) for bag in bags], first), check=check)

    @classmethod
    def from_padded(cls, padded: Tensor, mask: Tensor, *, check: bool = False) -> "Bags":
        """Take the rows of ``padded`` ``(B, N, ...)`` where the bool ``mask`` ``(B, N)`` is true."""
        if mask.dtype != torch.bool or padded.ndim < 2 or mask.shape != padded.shape[:2]:
            raise MIVError(
                f"padded is {_describe(padded)} and mask is {_describe(mask)}. "
                "Expected padded (B, N, ...) and a bool mask (B, N)."
            )
        sizes = mask.sum(dim=1)
        return cls(padded[mask], _borders(sizes, padded), check=check)

    @classmethod
    def from_csr(cls, instances: Tensor, indices: Tensor, ptr: Tensor, *, check: bool = False) -> "Bags":
        """Look up the bags' members ``indices`` ``(T,)`` among ``instances`` ``(U, ...)``."""
        if indices.dtype != torch.int64 or indices.ndim != 1:
            raise MIVError(f"indices is {_describe(indices)}. Expected int64 of shape (T,).")
        if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < len(instances):
            raise MIVError(
                f"indices go from {int(indices.min())} to {int(indices.max())}. "
                f"Expected 0 to {len(instances) - 1}, the rows of instances."
            )
        return cls(instances[indices], ptr, check=check)

    def with_values(self, values: Tensor) -> "Bags":
        """Return the same borders around other values ``(T, ...)``."""
        if len(values) != len(self.values):
            raise MIVError(f"values is {_describe(values)}. Expected {len(self.values)} rows, one an instance.")
        bags = object.__new__(Bags)  # the borders need no second check
        bags.values, bags.borders = values, self.borders
        return bags

    def __len__(self) -> int:
        return len(self.borders)

    def __repr__(self) -> str:
        return f"Bags({len(self)} bags, values {_describe(self.values)})"

    @property
    def ptr(self) -> Tensor:
        """``(B + 1,)`` the borders."""
        return self.borders.ptr

    @property
    def sizes(self) -> Tensor:
        """``(B,)`` the number of instances in each bag."""
        return self.borders.sizes

    @property
    def owner(self) -> Tensor:
        """``(T,)`` the bag that each instance is in."""
        return self.borders.owner

    def split(self, rows: Tensor) -> list[Tensor]:
        """Cut ``(T, ...)`` into a list of ``B`` tensors ``(N_b, ...)``."""
        return list(torch.split(rows, self.sizes.tolist()))

    def expand(self, rows: Tensor) -> Tensor:
        """Give every instance its bag's row: ``(B, ...)`` to ``(T, ...)``."""
        return kernels.Expand.apply(rows, self.borders)

    def sum(self, rows: Tensor) -> Tensor:
        """Add up the rows of each bag: ``(T, ...)`` to ``(B, ...)``."""
        return kernels.Sum.apply(rows, self.borders)

    def mean(self, rows: Tensor) -> Tensor:
        """Average the rows of each bag: ``(T, ...)`` to ``(B, ...)``."""
        return self.sum(rows) / self.sizes.reshape(-1, *[1] * (rows.ndim - 1))

    def var(self, rows: Tensor) -> Tensor:
        """Population variance (divide by N) of each bag: ``(T, ...)`` to ``(B, ...)``."""
        variance: Tensor = kernels.Variance.apply(rows.reshape(len(rows), -1), self.borders)
        return variance.reshape(len(self), *rows.shape[1:])

    def max(self, rows: Tensor) -> Tensor:
        """Greatest value of each bag and column: ``(T, ...)`` to ``(B, ...)``.

        The gradient is shared equally among equal maxima.
        """
        owner = self.owner.reshape(-1, *[1] * (rows.ndim - 1)).expand_as(rows)
        # Not uninitialised memory with include_self=False: its chance values would count as maxima in the gradient.
        lowest = rows.new_full((len(self), *rows.shape[1:]), -torch.inf)
        return lowest.scatter_reduce(0, owner, rows, "amax")

    def softmax(self, scores: Tensor) -> Tensor:
        """Softmax over the instances of each bag, column by column: ``(T, ...)`` to ``(T, ...)``."""
        # A softmax does not change with a shift, so the maximum needs no gradient.
        exponentials = (scores - self.expand(self.max(scores.detach()))).exp()
        return exponentials / self.expand(self.sum(exponentials))

    def logsumexp(self, rows: Tensor) -> Tensor:
        """``log sum exp`` over the instances of each bag: ``(T, ...)`` to ``(B, ...)``."""
        greatest = self.max(rows.detach())
        return self.sum((rows - self.expand(greatest)).exp()).log() + greatest

    def dot(self, rows: Tensor, values: Tensor, heads: int = 1) -> Tensor:
        """Multiply each instance by its bag's row, head by head: ``(B, C)`` and ``(T, C)`` to ``(T, h)``."""
        return kernels.Dot.apply(rows.to(values.dtype), values, self.borders, heads)

    def distance(self, rows: Tensor, values: Tensor, weight: Tensor, power: int, heads: int = 1) -> Tensor:
        """Distance of each instance to its bag's row: ``(B, C)`` and ``(T, C)`` to ``(T, h)``.

        By head, the sum of ``weight * |row - value| ** power`` with ``weight`` ``(C,)``; ``power`` is 1 or 2.
        """
        dtype = values.dtype
        return kernels.Distance.apply(rows.to(dtype), values, weight.to(dtype), self.borders, heads, power)

    def weighted_sum(self, weights: Tensor, values: Tensor) -> Tensor:
        """Add up each bag's instances by their head's weight: ``(T, h)`` and ``(T, C)`` to ``(B, C)``."""
        return kernels.WeightedSum.apply(weights.to(values.dtype), values, self.borders)

    def normed_sum(self, weights: Tensor, values: Tensor, gate: Tensor | None, eps: float) -> Tensor:
        """Do as ``weighted_sum`` after each instance was gated by its bag's row and normalised by head.

        ``(T, h)``, ``(T, C)`` and ``gate`` ``(B, C)`` to ``(B, C)``; ``eps`` stands beside the variance.
        """
        dtype = values.dtype
        gate = None if gate is None else gate.to(dtype)
        return kernels.NormedSum.apply(weights.to(dtype), values, gate, self.borders, eps)

    def shuffled(self) -> "Bags":
        """Return the same bags with the instances of each in a random order."""
        jitter = torch.rand(len(self.values), device=self.values.device, dtype=torch.float64)
        return self.with_values(self.values[(self.owner + jitter).argsort()])

    def to_padded(self) -> tuple[Tensor, Tensor]:
        """Return ``(B, N, ...)``, zero beyond a bag's end, and the mask ``(B, N)`` of true instances."""
        longest = int(self.sizes.max())
        mask = torch.arange(longest, device=self.ptr.device) < self.sizes[:, None]  # (B, N)
        place = mask.flatten().nonzero().squeeze(1)  # (T,) where each instance goes in (B * N)
        padded = self.values.new_zeros(mask.numel(), *self.values.shape[1:]).index_copy(0, place, self.values)
        return padded.unflatten(0, mask.shape), mask


def _borders(sizes: Sequence[int] | Tensor, like: Tensor) -> Tensor:
    sizes = torch.as_tensor(sizes, dtype=torch.int64, device=like.device)
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])


def _describe(thing: object) -> str:
    if isinstance(thing, Tensor):
        return f"{str(thing.dtype).removeprefix('torch.')} {tuple(thing.shape)}"
    return f"a {type(thing).__name__}"


def _check_borders(values: Tensor, ptr: Tensor) -> None:
    if not isinstance(values, Tensor) or values.ndim == 0:
        raise MIVError(f"values is {_describe(values)}. Expected a tensor (T, ...), a row an instance.")
    if not isinstance(ptr, Tensor) or ptr.dtype != torch.int64 or ptr.ndim != 1 or len(ptr) < 2:
        raise MIVError(f"ptr is {_describe(ptr)}. Expected int64 of shape (B + 1,), with B of at least 1.")
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
            f"ptr falls from {int(ptr[first])} to {int(ptr[first + 1])} at bag {first}. Expected borders that rise."
        )
    if int(sizes.min()) == 0:
        first = int((sizes == 0).nonzero()[0])
        raise MIVError(f"Bag {first} is empty. Expected at least one instance; leave the exemplar out.")


def _check_finite(values: Tensor) -> None:
    if not values.is_floating_point():
        return
    bad = ~torch.isfinite(values).reshape(len(values), -1).all(dim=1)
    if bool(bad.any()):
        raise MIVError(
            f"{int(bad.sum())} of {len(values)} instances have values that are NaN or infinite, "
            f"the first in row {int(bad.nonzero()[0])}. Expected finite features."
        )
