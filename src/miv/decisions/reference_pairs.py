"""Pairs of each reference, and of the mean of all references of a query, with the bag."""

from typing import NamedTuple

import torch
from torch import Tensor

from miv.bags import Bags
from miv.decisions.reference_rule import ReferenceRule
from miv.errors import MIVError


class Pairs(NamedTuple):
    """Every reference with its query's bag, and then every mean of references with that bag.

    Args:
        query: ``(R + B, C)``.
        bags: ``R + B`` bags.
        references: ``R`` in ``B`` queries.
    """

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
