"""Batches of exemplars for a ``torch.utils.data.DataLoader``."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv.bags import Bags
from miv.data import csr
from miv.data.exemplar_set import Exemplar
from miv.errors import MIVError


class ExemplarBatch(NamedTuple):
    """``B`` exemplars, ready for a verifier: ``verifier(batch.query, batch.bags)``.

    Args:
        query: ``(B, ...)``.
        bags: the targets, ``(T, ...)`` in all.
        label: ``(B,)`` float, 0 or 1.
    """

    query: Tensor
    bags: Bags
    label: Tensor


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
        raise MIVError(
            "The exemplars have several references per query, and this function takes one. Train with miv.train, or "
            "use exemplars with one query each: ExemplarSet.with_first_reference()."
        )
    sizes = [len(exemplar.bag) for exemplar in exemplars]
    queries = [_row(exemplar.query) for exemplar in exemplars]
    values = np.concatenate([*queries, *(exemplar.bag for exemplar in exemplars)])  # (B + T, ...)
    prepared = _as_tensor(values) if prepare is None else prepare(values)
    ptr = torch.from_numpy(csr.borders(sizes))
    label = torch.tensor([float(exemplar.label) for exemplar in exemplars])
    return ExemplarBatch(prepared[: len(sizes)], Bags(prepared[len(sizes) :], ptr), label)


def _row(query: Any) -> NDArray[Any]:
    """Return one value as an array with one row; a text becomes an object array."""
    return np.array([query], dtype=object) if isinstance(query, str) else np.asarray(query)[None]


def _as_tensor(values: NDArray[Any]) -> Tensor:
    if values.dtype == object:
        raise MIVError(
            "The exemplars are texts and cannot become tensors directly. Use "
            "functools.partial(miv.collate_exemplars, prepare=verifier.backbone.prepare)."
        )
    return torch.from_numpy(values)
