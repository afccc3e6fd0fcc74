r"""Answers from a part of a kept bag, with bounds of the probability, or from all of it where that is not enough.

Attention is often spread over a large part of a bag, so the nearest targets alone say little about the logit. Here the
targets that are nearest to the query are all compared, and the others are sampled evenly: every k-th of a list in which
alike targets stand together. With the attention :math:`a_{nj}`, what a target adds :math:`v_{nj}`, and their mean
:math:`V_j` in head :math:`j`, one target moves the logit by

.. math:: u_n = \sum_j a_{nj} (v_{nj} - V_j)

and the standard error of the sampled logit follows from the differences of neighbours in the list (Wolter 2007,
section 8.2).

A sample says nothing about a few targets with large shares that it misses. What they can do is bounded: the radius of a
cell bounds the scores in it (``CellBounds``), and so :math:`|u_n| \le \hat u` of every target that is not read. More
than :math:`k \ln 1000` such targets are all missed in less than 0.1 % of samples, and fewer move the logit by less than
:math:`\hat u k \ln 1000`, by which the bounds are widened. Every cell for which that is more than ``hidden`` is read.
Where this is more than half of the bag, or too few sampled targets are left, the answer is the exact pass.
"""

import math
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
from miv.streaming.cell_bounds import CellBounds
from miv.streaming.key_cells import Cells, find_cells
from miv.streaming.partial_pooling import PooledBag
from miv.streaming.projected_bag import ProjectedBag
from miv.streaming.streamed_verdict import StreamedVerdict, streamed_verdicts
from miv.streaming.streaming_pass import StreamingPass
from miv.streaming.verifying_streams import in_one_pass_or_two

if TYPE_CHECKING:
    from miv.models.verifier import Verifier

_DEVIATIONS = 3.29  # a normal error is smaller in 99.9 % of cases
_MISSED = math.log(1000)  # so many times the step, targets are all missed by the sample in 0.1 % of cases
_FEWEST = 30  # sampled targets, for a standard error


class Shortlist:
    """An index over a kept bag of ``cap_dba_l2``, ``cap_vema`` or ``cap_ma``.

    Args:
        verifier: the verifier.
        bag: the kept bag, read into memory.
        sampled: share of the targets that are sampled.
        nearest: share of the targets that are compared because they are nearest.
        most: share of the targets that are compared before the exact pass is used instead.
        hidden: how far targets that the sample misses may move the logit; more cells are read to keep this.
    """

    def __init__(
        self,
        verifier: "Verifier",
        bag: ProjectedBag,
        sampled: float = 0.02,
        nearest: float = 0.003,
        seed: int = 0,
        most: float = 0.5,
        hidden: float = 0.2,
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
            if (queries.square_weight < 0).any():
                raise MIVError(
                    "The verifier weighs a distance negatively, so targets far away may have the largest shares, and a "
                    "shortlist cannot bound them. Use the exact pass of verify_stream."
                )
            weight = np.maximum(queries.square_weight, 1e-6)
        self.size, self.wanted = len(self._rows), max(1, round(nearest * len(self._rows)))
        groups = int(np.clip(round((self.size / 64) ** 0.5), 1, 128))
        self.cells: Cells = find_cells(self._rows, weight, groups, groups, seed)
        self._bounds = CellBounds(self._rows, self.cells, queries.heads, queries.square_weight)
        self._sizes, self._most, self._hidden = np.diff(self.cells.ptr), most * self.size, hidden
        self._step = max(1, round(1 / sampled))
        places = np.arange(np.random.default_rng(seed).integers(self._step), self.size, self._step)  # in the list
        self._sample_cells = np.searchsorted(self.cells.ptr, places, side="right") - 1
        self._sample: Integers = self.cells.order[places]
        self._sample_rows = np.ascontiguousarray(self._rows[self._sample])

    def verify(self, features: Rows, top: int = 10) -> list[StreamedVerdict]:
        """Verdicts for the features ``(R, C)`` of queries, with bounds of their probabilities.

        Those whose ``is_exact`` is true come from the exact pass.
        """
        verdicts = []
        limit = self.verifier.unlike
        for query in np.asarray(features, np.float32):
            with torch.inference_mode(), evaluating(self.verifier):
                prepared = self._form.prepare_for_bag(query[None], self.bag.variance)
            pooled = self._answer(prepared, top)
            if pooled is None:
                verdicts += self._exact(query[None], top)
                continue
            unlike: Mask = np.zeros(1, bool) if limit is None else limit.unlike(query[None])
            verdicts += streamed_verdicts(self.verifier, pooled, self.size, unlike, self.bag.all_unlike(self.verifier))
        return verdicts

    def _exact(self, queries: Rows, top: int) -> list[StreamedVerdict]:
        def read(state: StreamingPass) -> None:
            state.update_kept(self._rows, all_unlike=self.bag.all_unlike(self.verifier))

        return in_one_pass_or_two(self.verifier, queries, top, self.bag.variance, read, once=False)

    def _answer(self, query: CrossAttentionQueries, top: int) -> PooledBag | None:
        """The answer from a part of the bag; ``None`` if too much of it would have to be read."""
        near, possible = self._cells_to_read(query)
        kept = ~near[self._sample_cells]
        sampled, unread = int(kept.sum()), int(self._sizes[~near].sum())
        if sampled < _FEWEST or self.size - unread + sampled > self._most:
            return None
        ptr = self.cells.ptr
        read = np.concatenate([self.cells.order[ptr[cell] : ptr[cell + 1]] for cell in np.flatnonzero(near)])
        products = query.products(np.concatenate([self._rows[read], self._sample_rows[kept]]))
        scores, values = (part[:, 0].astype(np.float64) for part in products[:2])  # (h, n)
        each = unread / sampled  # targets that a sampled one stands for
        count = np.where(np.arange(scores.shape[1]) < len(read), 1.0, each)
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= (shares * count).sum(axis=1, keepdims=True)  # of single targets
        means = (shares * count * values).sum(axis=1, keepdims=True)  # (h, 1)
        moved = (shares * (values - means)).sum(axis=0)[len(read) :]  # u of the sampled ones
        variance = (1 - 1 / each) * each**2 * len(moved) * float(np.square(np.diff(moved)).mean()) / 2
        mean_share = shares.mean(axis=0)
        places = np.concatenate([read, self._sample[kept]])
        best = np.lexsort((places, -mean_share))[:top]
        hidden = self._moved(query, possible[:, ~near], means).max()
        error = _DEVIATIONS * float(np.sqrt(max(variance, 0.0))) + float(hidden)
        logit = float(means.sum() + query.constant[0])
        return PooledBag(np.array([logit]), [places[best]], [mean_share[best]], np.array([error]), len(places))

    def _cells_to_read(self, query: CrossAttentionQueries) -> tuple[Mask, Floats]:
        """The nearest cells and those that could hide too much, and the possible share ``(h, n)`` of one target."""
        scores, values = (part[:, 0].astype(np.float64) for part in query.products(self.cells.centres)[:2])  # (h, n)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        enough = np.searchsorted(np.cumsum(self._sizes[ranked := np.argsort(-weights.mean(axis=0))]), self.wanted)
        near = np.zeros(len(self._sizes), bool)
        near[ranked[: int(enough) + 1]] = True
        least = self._bounds.least_log_sums(scores)[:, None]
        possible = np.exp(np.minimum(self._bounds.best(query, scores) - least, 0))
        weights *= self._sizes
        means = (weights * values).sum(axis=1, keepdims=True) / weights.sum(axis=1, keepdims=True)  # nearly V
        near |= self._moved(query, possible, means) > self._hidden
        return near, possible

    def _moved(self, query: CrossAttentionQueries, shares: Floats, means: Floats) -> Floats:
        """How far targets with at most these shares ``(h, n)`` may move the logit, if the sample misses them."""
        furthest = self._bounds.greatest_values(query)[:, None] + np.abs(means)  # of v from V
        return np.asarray(_MISSED * self._step * (shares * furthest).sum(axis=0))
