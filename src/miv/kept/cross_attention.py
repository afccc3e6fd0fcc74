"""The kept form of cross-attention pooling: keys, projected once."""

from typing import TYPE_CHECKING

import numpy as np
import torch

from miv.errors import MIVError
from miv.io.checked_values import Floats
from miv.kept.cross_attention_queries import CrossAttentionQueries
from miv.kept.kept_form import Borders, KeptForm, Per, PreparedQueries
from miv.kept.similarity_of_query import Rows, as_rows
from miv.poolings import CrossAttentionPooling, VarianceExcitedPooling

if TYPE_CHECKING:
    from miv.models.verifier import Verifier


class CrossAttentionForm(KeptForm):
    r"""CAP: the keys :math:`z_n = v^{target}_n W` are kept.

    With VEMA, :math:`\delta` depends on the bag but not on the query, so :math:`\delta \odot z_n` is kept too, for
    every member of every bag.
    """

    pooling: CrossAttentionPooling

    def __init__(self, verifier: "Verifier") -> None:
        super().__init__(verifier)
        self.is_excited = isinstance(self.pooling, VarianceExcitedPooling)

    @property
    def per(self) -> Per:  # type: ignore[override]
        return "member" if self.is_excited else "instance"

    @property
    def width(self) -> int:
        return self.pooling.channels * (2 if self.is_excited else 1)

    def keep(self, features: Rows, ptr: Borders) -> Rows:
        normed = self.normed(features)
        keys = self.pooling.project(normed)  # (T, C)
        if not isinstance(self.pooling, VarianceExcitedPooling):
            return as_rows(keys)
        bags = self.bags(features, ptr).with_values(normed)
        delta = bags.expand(self.pooling.delta(bags.var(normed) - 1))  # (T, C)
        return np.concatenate([as_rows(delta * keys), as_rows(keys)], axis=1)

    def keys(self, features: Rows) -> Rows:
        """The keys ``(N, C)`` of features ``(N, C)``, without what depends on a bag."""
        return as_rows(self.pooling.project(self.normed(features)))

    def prepare_for_bag(self, queries: Rows, variance: Floats | None) -> CrossAttentionQueries:
        r"""Prepare queries for the keys of one bag, given for VEMA the variance ``(C,)`` of its normed features."""
        delta = None
        if isinstance(self.pooling, VarianceExcitedPooling):
            if variance is None:
                raise MIVError("The variance is missing. cap_vema needs the variance of the bag before its pass.")
            delta = self.pooling.delta(torch.from_numpy(variance).to(self.verifier.device, self.verifier.dtype) - 1)
        return CrossAttentionQueries(self.pooling, self.normed(queries), delta)

    def prepare(self, queries: Rows) -> PreparedQueries:
        return CrossAttentionQueries(self.pooling, self.normed(queries))
