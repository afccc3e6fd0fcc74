"""How the logits of several references become one logit."""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv.bags import Bags
from miv.errors import MIVError

SHARPEST = 1e4


@dataclass(frozen=True)
class ReferenceRule:
    r"""One logit from the logits :math:`z_1, …, z_R` of the references and :math:`\bar z` of their mean feature.

    .. math:: z = (1 - w) \, \frac{1}{k} \log \frac{1}{R} \sum_r e^{k z_r} + w \, \bar z

    With :math:`k = 0` the first term is the mean of the logits, and with a large :math:`k` nearly their maximum. So the
    three usual ways are in the family: mean logit (0, 0), max logit (large, 0) and mean feature (any, 1). With one
    reference every rule gives its logit, unchanged.

    The defaults are for verifiers without a fit. On QMNIST and two synthetic twins they are at most 0.015 AUROC
    below the best of the three, which differs from set to set; see ``docs/results/references.md``.

    Args:
        sharpness: :math:`k`, from 0.
        mean_share: :math:`w`, from 0 to 1.

    >>> rule = ReferenceRule(sharpness=0.0, mean_share=0.5)
    >>> rule.combined(np.array([[1.0, -2.0], [3.0, -4.0], [2.5, -1.0]])).tolist()  # two references, then their mean
    [2.25, -2.0]
    """

    sharpness: float = 0.25
    mean_share: float = 0.25

    def __post_init__(self) -> None:
        for name, most in (("sharpness", SHARPEST), ("mean_share", 1.0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
                raise MIVError(f"The {name} of the reference rule is {value!r}. Expected a number from 0 to {most:g}.")

    @classmethod
    def checked(cls, document: object) -> "ReferenceRule":
        """Return the rule described by a file's ``document``; anything else is an error."""
        try:
            return cls(**document)  # type: ignore[arg-type]
        except TypeError:
            raise MIVError(
                f"references is {str(document)[:80]}. Expected the two numbers sharpness and mean_share."
            ) from None

    def document(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)

    def combine(self, logit: Tensor, of_mean: Tensor, references: Bags) -> Tensor:
        """Combine the logits ``(R,)`` of the references and those of their means ``(B,)`` to ``(B,)``."""
        if self.sharpness > 0:
            count = references.sizes.to(logit.dtype).log()
            soft = (references.logsumexp(self.sharpness * logit) - count) / self.sharpness
        else:
            soft = references.mean(logit)
        combined = (1 - self.mean_share) * soft + self.mean_share * of_mean
        # Not rounded where there is nothing to combine.
        return torch.where(references.sizes == 1, logit.index_select(0, references.ptr[:-1]), combined)

    def weights(self, logit: Tensor, references: Bags) -> tuple[Tensor, float]:
        """The slope of the combined logit in the logit ``(R,)`` of each reference, and in that of the mean.

        In each query they add up to 1. Attention and contributions are combined with the same weights.
        """
        return (1 - self.mean_share) * references.softmax(self.sharpness * logit), self.mean_share

    def of_ragged(self, logit: NDArray[Any], of_mean: NDArray[Any], ptr: NDArray[np.int64]) -> NDArray[np.float64]:
        """Combine logits ``(R,)`` of references with borders ``ptr`` ``(E + 1,)`` and of their means to ``(E,)``."""
        references = Bags(torch.from_numpy(np.asarray(logit, np.float64)), torch.from_numpy(ptr))
        combined = self.combine(references.values, torch.from_numpy(np.asarray(of_mean, np.float64)), references)
        return np.asarray(combined.numpy(), np.float64)

    def queries(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """The features ``(Q, C)`` to compare with bags, given those of one query's references, ``(R, C)``.

        These are the references and then their mean, or one reference alone. ``combined`` takes their logits. So a
        search over many bags needs no other pass than for ``Q`` single queries.
        """
        return features if len(features) == 1 else np.concatenate([features, features.mean(axis=0, keepdims=True)])

    def combined(self, logits: NDArray[Any]) -> NDArray[np.float64]:
        """The logits ``(B,)`` of one query and ``B`` bags, given those ``(Q, B)`` of each of ``queries``."""
        logits = np.asarray(logits, np.float64)
        if len(logits) == 1 or not logits.size:
            return logits[0]
        of_references, of_mean = logits[:-1], logits[-1]
        return self.of_ragged(of_references.T.ravel(), of_mean, np.arange(len(of_mean) + 1) * len(of_references))


# Pairs of each reference, and of the mean of all references of a query, with the bag.


class Pairs(NamedTuple):
    """Every reference with its query's bag, and then every mean of references with that bag."""

    query: Tensor
    bags: Bags
    references: Bags

    @classmethod
    def of(cls, references: Bags, bags: Bags) -> "Pairs":
        """Pair references of values ``(R, C)`` with their bags."""
        if len(references) != len(bags):
            raise MIVError(
                f"There are references of {len(references)} queries and {len(bags)} bags. Expected one query per bag."
            )
        query = torch.cat([references.values, references.mean(references.values)])
        return cls(query, bags[_owner(references)], references)

    def logits(self, logit: Tensor) -> tuple[Tensor, Tensor]:
        """The logits ``(R,)`` of the references and ``(B,)`` of the means, from those of all pairs."""
        return logit[: len(self.references.values)], logit[len(self.references.values) :]

    def shares(self, rule: ReferenceRule, logit: Tensor) -> Tensor:
        """``(R + B,)``: the weight of each pair in its query's logit."""
        weight, of_mean = rule.weights(self.logits(logit)[0], self.references)
        return torch.cat([weight, weight.new_full((len(self.references),), of_mean)])

    def summed(self, rows: Tensor, bags: Bags) -> Tensor:
        """Add up the rows of all pairs, one per instance of their bags, to one per instance of ``bags``."""
        moved = bags.ptr[:-1][_owner(self.references)] - self.bags.ptr[:-1]  # how far each bag is from its original
        target = torch.arange(len(rows), device=rows.device) + moved.repeat_interleave(self.bags.sizes)
        return rows.new_zeros(len(bags.values), *rows.shape[1:]).index_add(0, target, rows)

    def by_query(self, rows: Tensor) -> Tensor:
        """Add up rows ``(R + B, ...)``, one per pair, to one per query ``(B, ...)``."""
        of_references, of_mean = rows[: len(self.references.values)], rows[len(self.references.values) :]
        return self.references.sum(of_references) + of_mean


def _owner(references: Bags) -> Tensor:
    """The query ``(R + B,)`` of each pair."""
    return torch.cat([references.owner, torch.arange(len(references), device=references.ptr.device)])
