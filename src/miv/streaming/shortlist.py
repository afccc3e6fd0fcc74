r"""Answers from a few per cent of a kept bag, with a bound on the error.

Attention is often spread over a large part of a bag, so the nearest targets alone say little about the logit. Here the
targets that are nearest to the query are all compared, and the others are sampled evenly: every k-th of a list in which
alike targets stand together. With the attention :math:`a_{nj}`, what a target adds :math:`v_{nj}`, and their mean
:math:`V_j` in head :math:`j`, one target moves the logit by

.. math:: u_n = \sum_j a_{nj} (v_{nj} - V_j)

and the standard error of the sampled logit follows from the differences of neighbours in the list (Wolter 2007,
section 8.2). The bound is for sampling: it holds with the stated confidence, not with certainty.
"""

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch

from miv.errors import MIVError
from miv.io.checked_values import Floats, Integers, Mask
from miv.kept import form_of
from miv.kept.cross_attention import CrossAttentionForm
from miv.kept.cross_attention_queries import CrossAttentionQueries
from miv.kept.similarity_of_query import Rows
from miv.runtime.evaluation_mode import evaluating
from miv.streaming.key_cells import Cells, find_cells
from miv.streaming.partial_pooling import PooledBag
from miv.streaming.projected_bag import ProjectedBag
from miv.streaming.streamed_verdict import StreamedVerdict, streamed_verdicts

if TYPE_CHECKING:
    from miv.models.verifier import Verifier

_DEVIATIONS = 3.29  # a normal error is smaller in 99.9 % of cases
_GROUPS_READ = 4  # groups of cells that are looked into for the nearest


class Shortlist:
    """An index over a kept bag of ``cap_dba_l2``, ``cap_vema`` or ``cap_ma``.

    Args:
        verifier: the verifier.
        bag: the kept bag, read into memory.
        sampled: share of the targets that are sampled.
        nearest: share of the targets that are compared because they are nearest.
    """

    def __init__(
        self, verifier: "Verifier", bag: ProjectedBag, sampled: float = 0.02, nearest: float = 0.003, seed: int = 0
    ) -> None:
        form = form_of(verifier)
        if not isinstance(form, CrossAttentionForm):
            raise MIVError("A shortlist needs cross-attention pooling, such as cap_dba_l2 or cap_vema.")
        self.verifier, self.bag, self._form = verifier, bag, form
        self._rows: Rows = np.concatenate([chunk.copy() for chunk in bag.rows()])
        weight = np.ones(bag.width, np.float32)
        with torch.inference_mode(), evaluating(verifier):
            queries = form.prepare_for_bag(np.zeros((1, form.pooling.channels), np.float32), bag.variance)
        if queries.sums_vectors or queries.distance is not None:
            raise MIVError(
                "A shortlist needs a logit that is a sum over targets: no cap_dba_l1, no norm after the sum, and a "
                "similarity without distances. Use the exact pass of verify_stream."
            )
        if queries.square_weight is not None:
            weight = np.maximum(queries.square_weight, 1e-6)
        self.size, self.wanted = len(self._rows), max(1, round(nearest * len(self._rows)))
        groups = int(np.clip(round((self.size / 64) ** 0.5), 1, 128))
        self.cells: Cells = find_cells(self._rows, weight, groups, groups, seed)
        step = max(1, round(1 / sampled))
        places = np.arange(np.random.default_rng(seed).integers(step), self.size, step)  # in the list
        self._sample_cells = np.searchsorted(self.cells.ptr, places, side="right") - 1
        self._sample: Integers = self.cells.order[places]
        self._sample_rows = np.ascontiguousarray(self._rows[self._sample])
        ptr, group = self.cells.ptr, self.cells.groups
        self._group_centres = np.stack([
            np.average(self.cells.centres[a:b], axis=0, weights=np.diff(ptr)[a:b])
            for a, b in pairwise(group)
        ]).astype(np.float32)  # fmt: skip

    def verify(self, features: Rows, top: int = 10) -> list[StreamedVerdict]:
        """Verdicts for the features ``(R, C)`` of queries, with bounds of their probabilities."""
        verdicts = []
        limit = self.verifier.unlike
        for query in np.asarray(features, np.float32):
            with torch.inference_mode(), evaluating(self.verifier):
                prepared = self._form.prepare_for_bag(query[None], self.bag.variance)
            logit, error, places, shares = self._answer(prepared, top)
            pooled = PooledBag(np.array([logit]), [places], [shares], np.array([error]))
            unlike: Mask = np.zeros(1, bool) if limit is None else limit.unlike(query[None])
            verdicts += streamed_verdicts(self.verifier, pooled, self.size, unlike, self.bag.all_unlike)
        return verdicts

    def _answer(self, query: CrossAttentionQueries, top: int) -> tuple[float, float, Integers, Floats]:
        near = self._near_cells(query)  # (cells,) bool
        ptr = self.cells.ptr
        read = np.concatenate([self.cells.order[ptr[cell] : ptr[cell + 1]] for cell in np.flatnonzero(near)])
        kept = ~near[self._sample_cells]
        scores, values, _, _ = query.products(np.concatenate([self._rows[read], self._sample_rows]))
        seen = np.concatenate([np.ones(len(read), bool), kept])
        scores, values = (part[:, 0, seen].astype(np.float64) for part in (scores, values))  # (h, n)
        sampled = int(kept.sum())
        each = (self.size - len(read)) / max(sampled, 1)  # targets that a sampled one stands for
        count = np.where(np.arange(scores.shape[1]) < len(read), 1.0, each)
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= (shares * count).sum(axis=1, keepdims=True)  # of single targets
        means = (shares * count * values).sum(axis=1, keepdims=True)  # (h, 1)
        moved = (shares * (values - means)).sum(axis=0)[len(read) :]  # u of the sampled ones
        differences = np.diff(moved) if len(moved) > 1 else np.zeros(1)
        variance = (1 - 1 / each) * each**2 * len(moved) * float(np.square(differences).mean()) / 2 if sampled else 0.0
        mean_share = shares.mean(axis=0)
        places = np.concatenate([read, self._sample[kept]])
        best = np.lexsort((places, -mean_share))[:top]
        error = _DEVIATIONS * float(np.sqrt(max(variance, 0.0)))
        return float(means.sum() + query.constant[0]), error, places[best], mean_share[best]

    def _near_cells(self, query: CrossAttentionQueries) -> Mask:
        """The cells whose centres have the largest attention, among the nearest groups of cells."""
        groups, ptr = self.cells.groups, self.cells.ptr
        of_groups = query.products(self._group_centres)[0][:, 0]  # (h, m)
        shift = of_groups.max(axis=1, keepdims=True)
        chosen = np.argsort(-np.exp(of_groups - shift).mean(axis=0))[:_GROUPS_READ]
        cells = np.concatenate([np.arange(groups[group], groups[group + 1]) for group in chosen])
        of_cells = query.products(np.ascontiguousarray(self.cells.centres[cells]))[0][:, 0]
        ranked = cells[np.argsort(-np.exp(of_cells - shift).mean(axis=0), kind="stable")]
        enough = int(np.searchsorted(np.cumsum(np.diff(ptr)[ranked]), self.wanted)) + 1
        near = np.zeros(len(ptr) - 1, bool)
        near[ranked[:enough]] = True
        return near
