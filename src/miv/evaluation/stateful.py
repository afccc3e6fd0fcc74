"""The metrics batch by batch: thin classes of torchmetrics over the plain functions.

``update`` takes a batch of tensors, ``compute`` gives what the function of the same name gives for all of them,
``reset`` begins anew. Several processes are joined by torchmetrics when ``compute`` is called.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv.errors import MIVError, needs_extra, unknown_name
from miv.evaluation.classification import Undefined, ZeroDivision, classification_metrics
from miv.evaluation.entropy import entropy_metrics
from miv.evaluation.groups import GroupRow, group_table
from miv.evaluation.witnesses import UndefinedWitness, witness_metrics

with needs_extra("train", "Metrics over batches", "torchmetrics"):
    from torchmetrics import Metric
    from torchmetrics.utilities import dim_zero_cat

_NOTHING_YET = "compute() was called before any update(). Add at least one batch of exemplars first."


class _Collected(Metric):
    """Keeps every batch, as ranking needs all of them at once."""

    full_state_update = False

    def __init__(self, *names: str, **options: Any) -> None:
        super().__init__(**options)
        for name in names:
            self.add_state(name, [], dist_reduce_fx="cat")

    def _keep(self, **batch: Tensor) -> None:
        for name, values in batch.items():
            getattr(self, name).append(values.detach())

    def _all(self, name: str) -> NDArray[Any]:
        if len(getattr(self, name)) == 0:
            raise MIVError(_NOTHING_YET)
        values = dim_zero_cat(getattr(self, name))
        return values.to(torch.float64 if values.is_floating_point() else values.dtype).cpu().numpy()

    def _ptr(self) -> NDArray[np.int64]:
        return np.concatenate([[0], np.cumsum(self._all("size"))])


class ClassificationMetrics(_Collected):
    """``classification_metrics`` of all batches.

    >>> metrics = ClassificationMetrics()
    >>> metrics.update(torch.tensor([1, 0]), torch.tensor([0.9, 0.2]))
    >>> metrics.update(torch.tensor([1, 0]), torch.tensor([0.4, 0.1]))
    >>> metrics.compute()["accuracy"]
    0.75
    """

    def __init__(
        self,
        threshold: float = 0.5,
        undefined: Undefined = "nan",
        zero_division: ZeroDivision = "zero",
        **options: Any,
    ) -> None:
        super().__init__("label", "probability", **options)
        self.threshold = threshold
        self.undefined: Undefined = undefined
        self.zero_division: ZeroDivision = zero_division

    def update(self, label: Tensor, probability: Tensor) -> None:
        """Add a batch, both ``(B,)``."""
        self._keep(label=label, probability=probability)

    def compute(self) -> dict[str, float]:
        return classification_metrics(
            self._all("label"),
            self._all("probability"),
            threshold=self.threshold,
            undefined=self.undefined,
            zero_division=self.zero_division,
        )


class WitnessMetrics(_Collected):
    """``witness_metrics`` of all batches."""

    def __init__(self, undefined: UndefinedWitness = "skip", **options: Any) -> None:
        super().__init__("size", "witness", "attention", "label", **options)
        self.undefined: UndefinedWitness = undefined

    def update(self, ptr: Tensor, witness: Tensor, attention: Tensor, label: Tensor) -> None:
        """Add a batch: ``ptr`` ``(B + 1,)``, ``witness`` and ``attention`` ``(T,)``, ``label`` ``(B,)``."""
        self._keep(size=ptr.diff(), witness=witness, attention=attention, label=label)

    def compute(self) -> dict[str, float]:
        return witness_metrics(
            self._ptr(), self._all("witness"), self._all("attention"), self._all("label"), self.undefined
        )


class EntropyMetrics(_Collected):
    """``entropy_metrics`` of all batches."""

    def __init__(self, **options: Any) -> None:
        super().__init__("size", "attention", "label", **options)

    def update(self, ptr: Tensor, attention: Tensor, label: Tensor) -> None:
        """Add a batch: ``ptr`` ``(B + 1,)``, ``attention`` ``(T,)``, ``label`` ``(B,)``."""
        self._keep(size=ptr.diff(), attention=attention, label=label)

    def compute(self) -> dict[str, dict[str, float]]:
        return entropy_metrics(self._ptr(), self._all("attention"), self._all("label"))


class GroupMetrics(Metric):
    """``group_table`` of all batches, for groups whose names are known beforehand.

    >>> table = GroupMetrics(["3", "7"])
    >>> table.update(torch.tensor([1, 0]), torch.tensor([0.9, 0.2]), ["3", "7"])
    >>> table.compute()
    [GroupRow(group='3', tp=1, tn=0, fp=0, fn=0), GroupRow(group='7', tp=0, tn=1, fp=0, fn=0)]
    """

    full_state_update = False
    counts: Tensor

    def __init__(self, names: Sequence[str], threshold: float = 0.5, **options: Any) -> None:
        super().__init__(**options)
        self.names = list(names)
        self.threshold = threshold
        self.add_state("counts", torch.zeros(len(self.names), 4, dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, label: Tensor, probability: Tensor, group: Sequence[str]) -> None:
        """Add a batch: ``label`` and ``probability`` ``(B,)`` and as many names of groups."""
        scores = probability.detach().double().cpu().numpy()
        for row in group_table(label.cpu().numpy(), scores, group, threshold=self.threshold):
            if row.group not in self.names:
                raise unknown_name("group", row.group, self.names)
            self.counts[self.names.index(row.group)] += torch.tensor(
                [row.tp, row.tn, row.fp, row.fn], device=self.counts.device
            )

    def compute(self) -> list[GroupRow]:
        if not self.counts.any():
            raise MIVError(_NOTHING_YET)
        return [GroupRow(name, *counts) for name, counts in zip(self.names, self.counts.tolist(), strict=True)]
