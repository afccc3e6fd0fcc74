"""The bags that a map of the features is fitted to, as far as the map can change them."""

import math
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from miv.bags import Bags
from miv.data import ExemplarSet, csr
from miv.models.verifier import Verifier
from miv.poolings.cap_tokens import CapTokensPooling
from miv.poolings.similar import AlignedNorm
from miv.training.token_share import token_matches

SHARPNESS = 16.0  # of the attention while the map is fitted; 8 to 64 end within 0.01 AUROC of each other


@dataclass(frozen=True, eq=False)
class MapPairs:
    """The queries and targets of ``R`` references, one or more for each exemplar, as far as a map can change them.

    Args:
        coordinates: ``(U, K)`` of the distinct instances along the main directions.
        rest: ``(U,)`` the squared length of what the map leaves as it is.
        query: ``(T,)`` the row of each target's query.
        target: ``(T,)`` the row of each target.
        product: ``(T,)`` of what the map leaves as it is.
        more: ``(T,)`` what the tokens of texts add to the cosine.
        ptr: ``(R + 1,)`` the borders between the bags.
        label: ``(R,)``.
        weight: ``(R,)``, 1 on average for an exemplar, whose references share it.
        exemplar: ``(R,)`` the number of the exemplar that has this reference.
    """

    coordinates: Tensor
    rest: Tensor
    query: Tensor
    target: Tensor
    product: Tensor
    more: Tensor
    ptr: Tensor
    label: Tensor
    weight: Tensor
    exemplar: Tensor

    @classmethod
    def of(
        cls, verifier: Verifier, exemplars: ExemplarSet, features: NDArray[np.float32], directions: Tensor
    ) -> "MapPairs":
        count, owner = len(exemplars), csr.owners(exemplars.all_references[0])
        exemplars = exemplars.by_reference()
        norm = cast(AlignedNorm, verifier.pooling.norm)
        units = units_after(norm, features[exemplars.used, : norm.channels])  # tokens may follow
        query, target = (
            torch.from_numpy(np.searchsorted(exemplars.used, one))
            for one in (exemplars.query[exemplars.owner], exemplars.bag_index)
        )
        coordinates = units @ directions  # (U, K)
        left = units - coordinates @ directions.T  # (U, C)
        more = torch.zeros(len(target), dtype=torch.float32)
        if isinstance(verifier.pooling, CapTokensPooling):
            matches = token_matches(verifier, verifier.pooling, exemplars, features)
            more = torch.from_numpy(matches).float() * verifier.pooling.share.detach().cpu()
        weight = np.ones(len(exemplars)) if exemplars.weight is None else exemplars.weight
        return cls(
            coordinates,
            left.square().sum(dim=1),
            query,
            target,
            (left[query] * left[target]).sum(dim=1),
            more,
            torch.from_numpy(exemplars.bag_ptr),
            torch.from_numpy(exemplars.label).float(),
            torch.from_numpy(weight * (count / weight.sum())).float(),
            torch.from_numpy(owner),
        )

    @property
    def reuse(self) -> float:
        """By which standard errors grow, because the exemplars share instances."""
        exemplars, bag_size = len(self.exemplar.unique()), len(self.target) / len(self.label)
        return math.sqrt(max(1.0, exemplars * (1 + bag_size) / len(self.coordinates)))

    def subset(self, keep: NDArray[np.bool_]) -> "MapPairs":
        """Only those of some exemplars: ``(E,)``, true for those to keep."""
        kept = torch.from_numpy(keep)[self.exemplar]  # (R,)
        sizes = self.ptr.diff()  # (R,)
        targets = kept.repeat_interleave(sizes)  # (T,)
        used, place = torch.cat([self.query[targets], self.target[targets]]).unique(return_inverse=True)
        query, target = place.chunk(2)
        weight = self.weight[kept]
        return MapPairs(
            coordinates=self.coordinates[used],
            rest=self.rest[used],
            query=query,
            target=target,
            product=self.product[targets],
            more=self.more[targets],
            ptr=functional.pad(sizes[kept].cumsum(0), (1, 0)),
            label=self.label[kept],
            weight=weight * (int(keep.sum()) / weight.sum()),
            exemplar=self.exemplar[kept].unique(return_inverse=True)[1],
        )

    def pooled(self, matrix: Tensor) -> Tensor:
        """``(R,)`` the similarity of each reference and its bag after the map ``(K, K)``."""
        moved = self.coordinates @ matrix.T  # (U, K)
        length = (moved.square().sum(dim=1) + self.rest).clamp(min=1e-12).sqrt()  # (U,)
        # Not by an index in brackets, whose gradient depends on the timing of threads.
        query, target = (moved.index_select(0, rows) for rows in (self.query, self.target))  # (T, K)
        lengths = length.index_select(0, self.query) * length.index_select(0, self.target)  # (T,)
        similar = (((query * target).sum(dim=1) + self.product) / lengths + self.more)[:, None]  # (T, 1)
        bags = Bags(similar, self.ptr)
        return bags.sum(bags.softmax(similar * SHARPNESS) * similar)[:, 0]


def units_after(norm: AlignedNorm, features: NDArray[np.float32]) -> Tensor:
    """``(U, C)`` the features after centre and map, of length 1."""
    with torch.no_grad():
        given = torch.from_numpy(np.array(features)).to(norm.map)
        return norm.direction(given).float().cpu()
