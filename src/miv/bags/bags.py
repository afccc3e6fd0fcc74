"""Ragged bags: all instances of a batch in one tensor, and the borders between the bags."""

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv.bags import kernels
from miv.bags.borders import Borders, borders_of, check_borders, describe, refuse_nested
from miv.errors import MIVError

# Which bags an index selects: whole numbers or one bool per bag, in a list, a tensor or a NumPy array.
Selection = slice | Sequence[int] | Sequence[bool] | Tensor | NDArray[Any]


def _selected(which: Any, count: int) -> NDArray[np.int64]:
    """The number ``()`` of one bag, or those ``(b,)`` of several, each from 0 to ``count - 1``."""
    try:
        index = which
        if not isinstance(which, slice):
            index = np.asarray(which.cpu() if isinstance(which, Tensor) else which)
            index = index if index.size else slice(0)
        chosen = np.asarray(np.arange(count)[index])
        if chosen.ndim > 1:
            raise IndexError(f"it has {chosen.ndim} dimensions")
        return chosen
    except (IndexError, TypeError, ValueError) as error:  # an IndexError also ends a loop, as in a list
        raise IndexError(
            f"The bags cannot be indexed by {describe(which)}: {error}. Expected a number from 0 to {count - 1}, a "
            f"slice, a list of numbers, or {count} bools, one per bag."
        ) from None


class Bags:
    """``B`` bags with ``T`` instances in total; bag ``b`` holds the rows ``ptr[b]`` to ``ptr[b + 1]``.

    Args:
        values: ``(T, ...)``, one row per instance; poolings take ``(T, C)``.
        ptr: ``(B + 1,)`` int64, increasing from 0 to ``T``. A bag is never empty.

    The operations take a tensor of ``T`` rows, one per instance, in the order of ``values``, and return one of ``B``
    rows (``sum``, ``mean``, ``var``, ``max``, ``logsumexp``) or of ``T`` rows
    (``softmax``; ``expand`` goes from ``B`` rows to ``T``).

    Bags move like a tensor: ``to`` returns bags.
    ``bags[2]`` is the tensor ``(N, ...)`` of one bag, ``bags[1:3]`` is ``Bags`` again, and a loop iterates over bags.

    >>> bags = Bags.from_list([torch.tensor([[1.0], [3.0]]), torch.tensor([[5.0]])])
    >>> bags.mean(bags.values)
    tensor([[2.],
            [5.]])
    >>> bags.softmax(torch.zeros(3, 1)).flatten()
    tensor([0.5000, 0.5000, 1.0000])
    """

    def __init__(self, values: Tensor, ptr: Tensor) -> None:
        check_borders(values, ptr)
        self.values = values
        self.borders = Borders(ptr, len(values))

    @classmethod
    def from_list(cls, bags: Sequence[Tensor]) -> "Bags":
        """Join bags of shape ``(N_b, ...)``, each with rows of the same shape and dtype."""
        if not bags:
            raise MIVError("There are no bags. Expected a list of at least one tensor (N, ...).")
        first = bags[0]
        for number, bag in enumerate(bags):
            refuse_nested(bag, f"Bag {number}")
            if not isinstance(bag, Tensor) or bag.ndim == 0:
                raise MIVError(
                    f"Bag {number} is {describe(bag)}. Expected a tensor (N, ...) with one row per instance."
                )
            if bag.shape[1:] != first.shape[1:] or bag.dtype != first.dtype:
                raise MIVError(
                    f"Bag {number} is {describe(bag)}, but bag 0 is {describe(first)}. "
                    "Expected the same dtype and row shape in every bag."
                )
        return cls(torch.cat(list(bags)), borders_of([len(bag) for bag in bags], first))

    @classmethod
    def from_padded(cls, padded: Tensor, mask: Tensor) -> "Bags":
        """Take the rows of ``padded`` ``(B, N, ...)`` where the bool ``mask`` ``(B, N)`` is true."""
        if (
            not (isinstance(padded, Tensor) and isinstance(mask, Tensor))
            or mask.dtype != torch.bool
            or padded.ndim < 2
            or mask.shape != padded.shape[:2]
        ):
            raise MIVError(
                f"padded is {describe(padded)} and mask is {describe(mask)}. "
                "Expected padded (B, N, ...) and a bool mask (B, N)."
            )
        sizes = mask.sum(dim=1)
        return cls(padded[mask], borders_of(sizes, padded))

    def with_values(self, values: Tensor) -> "Bags":
        """Return bags with the same borders and other values ``(T, ...)``."""
        if len(values) != len(self.values):
            raise MIVError(f"values is {describe(values)}. Expected {len(self.values)} rows, one per instance.")
        return _trusted(values, self.borders)

    def to(self, *arguments: Any, **options: Any) -> "Bags":
        """Return the bags on another device, or with values of another dtype; takes what ``Tensor.to`` takes."""
        values = self.values.to(*arguments, **options)
        if values.device == self.ptr.device:
            return self if values is self.values else _trusted(values, self.borders)
        ptr = self.ptr.to(values.device, non_blocking=bool(options.get("non_blocking")))
        return _trusted(values, Borders(ptr, len(values)))

    @property
    def device(self) -> torch.device:
        return self.values.device

    @property
    def dtype(self) -> torch.dtype:
        return self.values.dtype

    def __len__(self) -> int:
        return len(self.borders)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.split(self.values))

    @overload
    def __getitem__(self, which: int) -> Tensor: ...
    @overload
    def __getitem__(self, which: Selection) -> "Bags": ...
    def __getitem__(self, which: int | Selection) -> "Tensor | Bags":
        """Return one bag ``(N, ...)``, or several by a slice, by numbers, or by one bool per bag.

        Numbers and bools may be a list, a tensor or a NumPy array.
        """
        numbers = _selected(which, len(self))
        if not numbers.ndim:
            return self.values[int(self.ptr[int(numbers)]) : int(self.ptr[int(numbers) + 1])]
        if not len(numbers):
            raise MIVError(f"The index selects no bag. Expected at least one of {len(self)} bags.")
        chosen = torch.from_numpy(np.ascontiguousarray(numbers)).to(self.ptr.device)
        sizes = self.sizes[chosen]
        ptr = borders_of(sizes, self.values)
        # Row t of the new bags comes from row t, moved as far as the start of its bag moved.
        rows = torch.arange(int(ptr[-1]), device=ptr.device) + (self.ptr[chosen] - ptr[:-1]).repeat_interleave(sizes)
        # Its gradient adds in row order, so that runs are reproducible; that of values[rows] depends on thread timing.
        return _trusted(self.values.index_select(0, rows), Borders(ptr, len(rows)))

    def __repr__(self) -> str:
        return f"Bags({len(self)} bags, values {describe(self.values)})"

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
        if rows.ndim == 2:  # without a view, its gradient can be added in place
            return kernels.Variance.apply(rows, self.borders)
        return self.var(rows.reshape(len(rows), -1)).reshape(len(self), *rows.shape[1:])

    def max(self, rows: Tensor) -> Tensor:
        """Maximum of each bag and column: ``(T, ...)`` to ``(B, ...)``.

        The gradient is shared equally among equal maxima.
        """
        owner = self.owner.reshape(-1, *[1] * (rows.ndim - 1)).expand_as(rows)
        # Not uninitialised memory with include_self=False: its arbitrary values would count as maxima in the gradient.
        lowest = rows.new_full((len(self), *rows.shape[1:]), -torch.inf)
        return lowest.scatter_reduce(0, owner, rows, "amax")

    def softmax(self, scores: Tensor) -> Tensor:
        """Softmax over the instances of each bag, column by column: ``(T, ...)`` to ``(T, ...)``."""
        # A softmax is invariant to a shift, so the maximum needs no gradient.
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
        """Weighted sum of each bag's instances, head by head: ``(T, h)`` and ``(T, C)`` to ``(B, C)``."""
        return kernels.WeightedSum.apply(weights.to(values.dtype), values, self.borders)

    def normed_sum(self, weights: Tensor, values: Tensor, gate: Tensor | None, eps: float) -> Tensor:
        """Like ``weighted_sum``, with each instance first gated by its bag's row and normalised per head.

        ``(T, h)``, ``(T, C)`` and ``gate`` ``(B, C)`` to ``(B, C)``; ``eps`` is added to the variance.
        """
        dtype = values.dtype
        gate = None if gate is None else gate.to(dtype)
        return kernels.NormedSum.apply(weights.to(dtype), values, gate, self.borders, eps)

    def shuffled(self) -> "Bags":
        """Return the same bags with the instances of each in a random order."""
        jitter = torch.rand(len(self.values), device=self.values.device, dtype=torch.float64)
        return self.with_values(self.values[(self.owner + jitter).argsort()])

    def to_padded(self) -> tuple[Tensor, Tensor]:
        """Return ``(B, N, ...)``, padded with zeros, and the mask ``(B, N)`` of real instances."""
        longest = int(self.sizes.max())
        mask = torch.arange(longest, device=self.ptr.device) < self.sizes[:, None]  # (B, N)
        place = mask.flatten().nonzero().squeeze(1)  # (T,) where each instance goes in (B * N)
        padded = self.values.new_zeros(mask.numel(), *self.values.shape[1:]).index_copy(0, place, self.values)
        return padded.unflatten(0, mask.shape), mask


def _trusted(values: Tensor, borders: Borders) -> Bags:
    """Return bags without checking the borders again."""
    bags = object.__new__(Bags)
    bags.values, bags.borders = values, borders
    return bags


def as_bags(bags: object) -> Bags:
    """Return ``Bags`` unchanged; anything else is an error."""
    if isinstance(bags, Bags):
        return bags
    refuse_nested(bags, "bags")
    raise MIVError(
        f"bags is {describe(bags)}. Expected Bags, which Bags.from_list(tensors) makes of a list of tensors (N, ...), "
        "and Bags.from_padded(padded, mask) of a padded tensor (B, N, ...)."
    )
