"""A batch of exemplars that contains every distinct instance once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv.bags import Bags
from miv.data import csr
from miv.data.exemplars import Exemplar, ExemplarSet
from miv.errors import MIVError

# Maps indices (U,) of instances to their rows (U, ...): prepared values, or features.
InstanceLookup = Callable[[NDArray[np.int64]], Tensor]


@dataclass(frozen=True)
class Batch:
    """``B`` exemplars with ``T`` targets in all, over ``U`` distinct instances.

    Args:
        instances: ``(U, ...)``, input of the backbone, or features ``(U, C)`` if it has already run.
        instance: ``(U,)`` their increasing positions in the pool.
        query: ``(B,)`` rows of ``instances``; of several references, the first.
        bag: ``(T,)`` rows of ``instances``, the members of all bags.
        ptr: ``(B + 1,)`` the borders between the bags.
        label: ``(B,)`` float, 0 or 1.
        weight: ``(B,)`` float, weight of each exemplar, 1 on average over the set; ``None`` if all are equal.
        reference: ``(R,)`` rows of ``instances``, the references of all queries; ``None`` if each is one instance.
        reference_ptr: ``(B + 1,)`` the borders between the references.
    """

    instances: Tensor
    instance: Tensor
    query: Tensor
    bag: Tensor
    ptr: Tensor
    label: Tensor
    weight: Tensor | None = None
    reference: Tensor | None = None
    reference_ptr: Tensor | None = None

    def __len__(self) -> int:
        return len(self.query)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "Batch":
        """Return the batch on a device."""
        there = {name: tensor for name, tensor in vars(self).items() if tensor is not None}
        return Batch(**{name: tensor.to(device, non_blocking=non_blocking) for name, tensor in there.items()})

    def with_instances(self, instances: Tensor) -> "Batch":
        """Return the same exemplars over other rows ``(U, ...)``, such as the features of the instances."""
        return replace(self, instances=instances)

    def queries_and_bags(self) -> tuple[Tensor | Bags, Bags]:
        """Return the queries ``(B, ...)``, or ``Bags`` of their references, and the bags ``(T, ...)``."""
        # The gradient of index_select adds in row order, so that runs are reproducible bit for bit;
        # that of instances[rows] depends on thread timing.
        bags = Bags(self.instances.index_select(0, self.bag), self.ptr)
        if self.reference is None or self.reference_ptr is None:
            return self.instances.index_select(0, self.query), bags
        return Bags(self.instances.index_select(0, self.reference), self.reference_ptr), bags


def make_batch(exemplars: ExemplarSet, chosen: NDArray[np.int64], lookup: InstanceLookup) -> Batch:
    """Gather the exemplars at ``chosen`` ``(B,)`` with each distinct instance once, by its row from ``lookup``."""
    ptr, members = csr.take_bags(exemplars.bag_ptr, chosen)
    all_ptr, all_references = exemplars.all_references
    reference_ptr, places = csr.take_bags(all_ptr, chosen)
    references = all_references[places]
    drawn = np.concatenate([references, exemplars.bag_index[members]])
    instance, row = np.unique(drawn, return_inverse=True)
    reference_row, bag_row = torch.from_numpy(row[: len(references)]), torch.from_numpy(row[len(references) :])
    several = len(references) > len(chosen)
    weight = exemplars.weight
    return Batch(
        instances=lookup(instance),
        instance=torch.from_numpy(instance),
        query=reference_row[torch.from_numpy(reference_ptr[:-1])] if several else reference_row,
        bag=bag_row,
        ptr=torch.from_numpy(ptr),
        label=torch.from_numpy(exemplars.label[chosen].astype(np.float32)),
        weight=None if weight is None else torch.from_numpy((weight[chosen] / weight.mean()).astype(np.float32)),
        reference=reference_row if several else None,
        reference_ptr=torch.from_numpy(reference_ptr) if several else None,
    )


def embedded(features: NDArray[np.float32], dtype: torch.dtype = torch.float32) -> InstanceLookup:
    """Look up instances in precomputed features ``(P, C)``, in the dtype of a verifier's weights."""
    # Indexing with an array copies, even from a mapped file.
    return lambda rows: torch.from_numpy(features[rows]).to(dtype)


# Batches of exemplars for a ``torch.utils.data.DataLoader``.


class ExemplarBatch(NamedTuple):
    """``B`` exemplars, ready for a verifier: ``verifier(batch.query, batch.bags)``."""

    query: Tensor  # (B, ...)
    bags: Bags  # the targets, (T, ...) in all
    label: Tensor  # (B,) float, 0 or 1


def collate_exemplars(
    exemplars: Sequence[Exemplar], prepare: Callable[[NDArray[Any]], Tensor] | None = None
) -> ExemplarBatch:
    """Join exemplars of an ``ExemplarSet`` into a batch: the ``collate_fn`` of a ``DataLoader``.

    Args:
        exemplars: items ``ExemplarSet[i]``.
        prepare: turns ``U`` values into the input tensor of the backbone, such as ``verifier.backbone.prepare``
            (pass it with ``functools.partial``). Without it, values become tensors unchanged: uint8 images,
            float32 vectors.

    >>> from miv.data import ExemplarSet, InstancePool
    >>> pool = InstancePool("features", np.eye(3, dtype=np.float32))
    >>> exemplars = ExemplarSet.from_lists(pool, [0, 1], [[1, 2], [1]], labels=[0, 1])
    >>> batch = next(iter(torch.utils.data.DataLoader(exemplars, batch_size=2, collate_fn=collate_exemplars)))
    >>> batch.bags, batch.label
    (Bags(2 bags, values float32 (3, 3)), tensor([0., 1.]))
    """
    if any(np.ndim(exemplar.query) == np.ndim(exemplar.bag) for exemplar in exemplars):
        raise MIVError("Got several references per query. Expected one: use ExemplarSet.with_first_reference().")
    sizes = [len(exemplar.bag) for exemplar in exemplars]
    rows = [np.array([query], object) if isinstance(query, str) else np.asarray(query)[None] for query, *_ in exemplars]
    values = np.concatenate([*rows, *(exemplar.bag for exemplar in exemplars)])  # (B + T, ...)
    if prepare is None and values.dtype == object:
        raise MIVError("Texts need functools.partial(miv.collate_exemplars, prepare=verifier.backbone.prepare).")
    prepared = torch.from_numpy(values) if prepare is None else prepare(values)
    ptr = torch.from_numpy(csr.borders(sizes))
    label = torch.tensor([float(exemplar.label) for exemplar in exemplars])
    return ExemplarBatch(prepared[: len(sizes)], Bags(prepared[len(sizes) :], ptr), label)
