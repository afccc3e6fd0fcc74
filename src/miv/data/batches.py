"""A batch of exemplars in which every distinct instance stands once."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv.bags import Bags
from miv.data import ExemplarSet, csr

# What gives the rows (U, ...) of the instances with these indices (U,): prepared values, or features.
InstanceLookup = Callable[[NDArray[np.int64]], Tensor]


@dataclass(frozen=True)
class Batch:
    """``B`` exemplars with ``T`` targets in all, over ``U`` distinct instances.

    Args:
        instances: ``(U, ...)``, as the backbone takes them, or features ``(U, C)`` where it has run already.
        instance: ``(U,)`` their places in the pool, rising.
        query: ``(B,)`` rows of ``instances``.
        bag: ``(T,)`` rows of ``instances``, the members of all bags.
        ptr: ``(B + 1,)`` the borders between the bags.
        label: ``(B,)`` float, 0 or 1.
        weight: ``(B,)`` float, how much each exemplar counts, 1 in the mean of the set; ``None`` where all count alike.
    """

    instances: Tensor
    instance: Tensor
    query: Tensor
    bag: Tensor
    ptr: Tensor
    label: Tensor
    weight: Tensor | None = None

    def __len__(self) -> int:
        return len(self.query)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "Batch":
        """Return the batch on a device."""
        there = {name: tensor for name, tensor in vars(self).items() if tensor is not None}
        return Batch(**{name: tensor.to(device, non_blocking=non_blocking) for name, tensor in there.items()})

    def with_instances(self, instances: Tensor) -> "Batch":
        """Return the same exemplars over other rows ``(U, ...)``, such as the features of the instances."""
        return replace(self, instances=instances)

    def queries_and_bags(self) -> tuple[Tensor, Bags]:
        """Look up the queries ``(B, ...)`` and the bags ``(T, ...)`` among the instances."""
        # The gradient of index_select adds in the order of the rows, so that a run can be repeated bit for bit;
        # that of instances[rows] adds in the order in which threads arrive.
        return self.instances.index_select(0, self.query), Bags(self.instances.index_select(0, self.bag), self.ptr)


def make_batch(exemplars: ExemplarSet, chosen: NDArray[np.int64], lookup: InstanceLookup) -> Batch:
    """Gather some exemplars of a set, each distinct instance once.

    Args:
        exemplars: the set.
        chosen: ``(B,)`` which of its exemplars.
        lookup: gives the rows of instances of the pool, such as ``embedded(features)``.

    >>> from miv.data import InstancePool
    >>> pool = InstancePool("features", np.eye(4, dtype=np.float32))
    >>> exemplars = ExemplarSet.from_lists(pool, [0, 0], [[1, 3], [3]], labels=[1, 0])
    >>> batch = make_batch(exemplars, np.array([0, 1]), lambda rows: torch.from_numpy(pool.values[rows]))
    >>> batch.instance.tolist(), batch.query.tolist(), batch.bag.tolist(), batch.ptr.tolist()
    ([0, 1, 3], [0, 0], [1, 2, 2], [0, 2, 3])
    """
    ptr, members = csr.take_bags(exemplars.bag_ptr, chosen)
    drawn = np.concatenate([exemplars.query[chosen], exemplars.bag_index[members]])
    instance, row = np.unique(drawn, return_inverse=True)
    return Batch(
        instances=lookup(instance),
        instance=torch.from_numpy(instance),
        query=torch.from_numpy(row[: len(chosen)]),
        bag=torch.from_numpy(row[len(chosen) :]),
        ptr=torch.from_numpy(ptr),
        label=torch.from_numpy(exemplars.label[chosen].astype(np.float32)),
        weight=_weights(exemplars, chosen),
    )


def _weights(exemplars: ExemplarSet, chosen: NDArray[np.int64]) -> Tensor | None:
    if exemplars.weight is None:
        return None
    return torch.from_numpy((exemplars.weight[chosen] / exemplars.weight.mean()).astype(np.float32))


def embedded(features: NDArray[np.float32], dtype: torch.dtype = torch.float32) -> InstanceLookup:
    """Look instances up among features ``(P, C)`` that were made already, in the dtype of a verifier's weights."""
    # An index array copies, also from a mapped file.
    return lambda rows: torch.from_numpy(features[rows]).to(dtype)
