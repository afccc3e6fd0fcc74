r"""Answers from a small part of a kept bag: an estimate, its standard error, and bounds that hold for every bag.

Each head has cells of alike keys. For a query, the cells with most attention are read in full and a random sample of
every other one; a target that is read stands for those of its cell that are not. Two numbers say how wrong this may be:

- the *standard error*, a statistical estimate from the differences within cells. It is no guarantee: a few targets with
  large shares that the sample misses change neither it nor the estimate;
- the *bounds*, from the radius of each cell. They hold whatever the cells hold, and are often wide.
"""

from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from miv.errors import MIVError
from miv.io.checked_values import Floats, Mask, finite_number
from miv.kept import form_of
from miv.kept.cross_attention import CrossAttentionForm
from miv.kept.cross_attention_queries import CrossAttentionQueries
from miv.kept.fingerprints import weights_of_pooling
from miv.kept.similarity_of_query import Rows
from miv.runtime.evaluation_mode import evaluating
from miv.runtime.progress import SilentProgress
from miv.streaming.cell_bounds import CellBounds
from miv.streaming.chunk_checks import check_count, check_queries, check_top
from miv.streaming.head_cells import HeadCells
from miv.streaming.head_query import HeadQuery, LogitOfMeans
from miv.streaming.head_sample import HeadCentres, HeadSample
from miv.streaming.leading_of_samples import leading_of_samples
from miv.streaming.partial_pooling import PooledBag
from miv.streaming.projected_bag import ProjectedBag, kept_bag_for
from miv.streaming.streamed_verdict import StreamedVerdict, check_logits, streamed_verdicts, warn_of_size
from miv.streaming.verifying_streams import over_kept

if TYPE_CHECKING:
    from miv.models.verifier import Verifier

_MOST_CELLS = 64  # squared
_ALIKE = 64  # targets in a cell, at least on average


class Shortlist:
    """An index in memory over a kept bag of a cross-attention pooling without a norm after the sum.

    Args:
        verifier: the verifier.
        bag: the kept bag, or its folder.
        budget: number of targets that each head reads per query; the error falls with its square root. If it is at
            least the size of the bag, the exact pass answers.
        seed: of the order in which targets are read.
    """

    def __init__(
        self, verifier: "Verifier", bag: ProjectedBag | str | PathLike[str], budget: int = 6000, seed: int = 0
    ) -> None:
        budget = check_count("budget", budget, 2, "the number of targets to read per query")
        seed = check_count("seed", seed, 0, "a whole number")
        if not isinstance(bag, ProjectedBag | str | PathLike):
            raise MIVError(
                f"The bag is a {type(bag).__name__}. Expected a kept bag or its folder, see Verifier.keep_bag."
            )
        bag = kept_bag_for(verifier, bag)
        self.verifier, self.bag, self.budget, self.size = verifier, bag, budget, bag.size
        self._form, self._weights = _summed_form(verifier), weights_of_pooling(verifier)
        some_query = self._prepare(np.zeros((1, self._form.pooling.channels), np.float32))
        _check_weights(some_query)
        self._cells: list[HeadCells] = []
        if budget >= self.size:
            return
        groups = int(np.clip(round(min(self.size / _ALIKE, budget / 8) ** 0.5), 1, _MOST_CELLS))
        for head in range(some_query.heads):
            keys = _keys_of(bag, slice(head * some_query.size, (head + 1) * some_query.size))
            random = np.random.default_rng([seed, head])  # one each: the variances of heads are added
            self._cells.append(HeadCells(keys, HeadQuery(some_query, 0, head), groups, random))

    def verify(self, features: Rows, top: int = 10, within: float | None = None) -> list[StreamedVerdict]:
        """Verdicts for the features ``(R, C)`` of queries, with bounds and standard errors of their probabilities.

        Args:
            features: ``(R, C)``.
            top: number of targets to name per query, of those that are read.
            within: the exact pass answers queries whose probability may be further off than this by its bounds; by
                default it answers none. It reads the kept rows from disk.
        """
        if weights_of_pooling(self.verifier) != self._weights:
            raise MIVError(
                "The weights of the verifier's pooling have changed since the shortlist was made, so its rows do not "
                "fit. Keep the bag again with Verifier.keep_bag, and make a new Shortlist."
            )
        features, top = check_queries(features, self.verifier.pooling.channels), check_top(top)
        if within is not None:
            within = finite_number("within", within, low=0.0, high=1.0)
        if self.budget >= self.size:
            return self._exact(features, top)
        prepared = self._prepare(features)
        pooled = [self._answer(prepared, number, top) for number in range(len(features))]
        off = self._furthest(pooled)
        again = np.flatnonzero(off > (np.inf if within is None else within))
        rest = np.setdiff1d(np.arange(len(features)), again)
        verdicts: dict[int, StreamedVerdict] = {}
        if len(rest):
            limit = self.verifier.unlike
            unlike: Mask = np.zeros(len(rest), bool) if limit is None else limit.unlike(features[rest])
            all_unlike, sampled = self.bag.all_unlike(self.verifier), _joined([pooled[number] for number in rest])
            found = streamed_verdicts(self.verifier, sampled, self.size, unlike, all_unlike)
            verdicts.update(zip(rest.tolist(), found, strict=True))
        if len(again):
            verdicts.update(zip(again.tolist(), self._exact(features[again], top), strict=True))
        else:
            warn_of_size(self.verifier, self.size)  # as the exact pass does
        return [verdicts[number] for number in range(len(features))]

    def _furthest(self, pooled: list[PooledBag]) -> Floats:
        """How far the probability of each query may be off by its bounds."""
        found, probability = _joined(pooled), self.verifier.operating_point.probability
        check_logits(found.logit)
        assert found.bounds is not None  # noqa: S101 - for the type checker
        middle, low, high = map(probability, (found.logit, *found.bounds))
        return np.maximum(middle - low, high - middle)

    def _exact(self, features: Rows, top: int) -> list[StreamedVerdict]:
        return over_kept(self.verifier, features, self.bag, top, SilentProgress())

    def _prepare(self, queries: Rows) -> CrossAttentionQueries:
        with torch.inference_mode(), evaluating(self.verifier):
            return self._form.prepare_for_bag(queries, self.bag.variance)

    def _answer(self, prepared: CrossAttentionQueries, number: int, top: int) -> PooledBag:
        """The answer for one query."""
        logit_of = LogitOfMeans(prepared, number)
        centres = [HeadCentres(cells, HeadQuery(prepared, number, head)) for head, cells in enumerate(self._cells)]
        slopes = logit_of.slopes(np.stack([one.mean for one in centres]))
        samples = [
            HeadSample(one, one.counts(slope, self.budget)) for one, slope in zip(centres, slopes, strict=True)
        ]  # fmt: skip
        means = np.stack([one.mean for one in samples])
        slopes, logit = logit_of.slopes(means), logit_of.logit(means)
        places, shares = leading_of_samples(samples, top)
        compared = np.array([sum(len(one.at) for one in samples) // len(samples)])
        variance = sum(one.variance(slope) for one, slope in zip(samples, slopes, strict=True))
        bounds = [CellBounds(*both) for both in zip(centres, samples, strict=True)]
        limits = np.array([one.mean(slope) for one, slope in zip(bounds, slopes, strict=True)])  # (h, 2)
        below, above = (limits - (slopes * means).sum(axis=1)[:, None]).sum(axis=0)
        errors = np.array([0.0 if logit_of.is_linear else one.error() for one in bounds])
        lower, upper = logit_of.bends(means, errors)
        return PooledBag(
            np.array([logit]),
            [places],
            [shares],
            np.array([[logit + below - lower], [logit + above + upper]]),
            np.array([variance**0.5]),
            compared,
        )


def _summed_form(verifier: "Verifier") -> CrossAttentionForm:
    """The kept form of a verifier whose logit follows from sums over targets."""
    form = form_of(verifier)
    if not isinstance(form, CrossAttentionForm):
        raise MIVError(
            "A shortlist needs cross-attention pooling without positions, such as cap_dba_l2 or cap_vema. Use the "
            "exact pass of verify_stream."
        )
    if form.pooling.post_norm is not None:
        raise MIVError(
            "The verifier has a norm after the sum over targets (norm=post), so a shortlist has no bounds. Use the "
            "exact pass of verify_stream."
        )
    return form


def _keys_of(bag: ProjectedBag, channels: slice) -> NDArray[np.floating]:
    """Some channels of all rows, without a second copy on the way."""
    kind = np.float16 if bag.kind == "float16" else np.float32  # int8 rows have scales of their own
    keys = np.empty((bag.size, channels.stop - channels.start), kind)
    at = 0
    for chunk in bag.rows():
        keys[at : at + len(chunk)] = chunk[:, channels]
        at += len(chunk)
    return keys


def _check_weights(query: CrossAttentionQueries) -> None:
    weights = query.distance if query.square_weight is None else query.square_weight
    if weights is not None and (weights < 0).any():
        raise MIVError(
            "The verifier weighs a distance negatively, so targets far away may have the largest shares, and a "
            "shortlist cannot bound them. Use the exact pass of verify_stream."
        )


def _joined(pooled: list[PooledBag]) -> PooledBag:
    """The answers for single queries as one."""
    parts = [(one.logit, one.bounds, one.standard_error, one.compared) for one in pooled]
    logit, bounds, error, compared = (np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))
    places, shares = [one.places[0] for one in pooled], [one.shares[0] for one in pooled]
    return PooledBag(logit, places, shares, bounds, error, compared)
