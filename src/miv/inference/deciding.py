"""From features to verdicts: pool batch by batch, and decide by the verifier's operating point."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv.bags import Bags
from miv.decisions.witness_rules import WitnessesBy
from miv.errors import MIVError
from miv.inference.given import GivenPlaces
from miv.inference.lazy_scores import LazyScores
from miv.inference.verdict import Asked, Shown, Verdicts
from miv.runtime.evaluation_mode import evaluating
from miv.runtime.progress import Progress, SilentProgress

if TYPE_CHECKING:
    from miv.models.verifier import Verifier

# Targets that are pooled together: of 512 channels 8 MB, more gains nothing.
_TOGETHER = 4096

# Gives the queries (B, C) and the targets (T, C) of the exemplars from one to before another.
FeatureLookup = Callable[[int, int], tuple[NDArray[np.float32], NDArray[np.float32]]]


def decide(
    verifier: "Verifier",
    lookup: FeatureLookup,
    ptr: NDArray[np.int64],
    by: Asked,
    progress: Progress | None = None,
    shown: Shown | None = None,
    places: GivenPlaces | None = None,
) -> Verdicts:
    """Pool batch by batch, and decide by the verifier's operating point."""
    logits, attentions = [], []
    places = places or GivenPlaces()
    attention = shares = None
    with evaluating(verifier), torch.inference_mode():
        for first, last in _batches(ptr):
            answer = verifier.verify_features(*_batch(verifier, lookup, ptr, first, last))
            logits.append(answer.logit)
            if answer.attention is not None:
                attentions.append(answer.attention)
        logit = torch.cat(logits).double().cpu().numpy()
        _check_answers("logit", logit, np.arange(len(ptr)), places)
        if attentions:
            attention = torch.cat(attentions).double().cpu().numpy()
            _check_answers("attention", attention, ptr, places)
        if by == "attention":
            shares = attention
        elif by != "none":
            from miv.explain import as_shares

            scores = _explained(verifier, lookup, ptr, by, progress)
            _check_answers(by, scores, ptr, places)
            shares = as_shares(scores, by, logit, ptr, verifier.dtype)
    point = verifier.operating_point
    probability = point.probability(logit)
    witness = None if shares is None else point.witnesses(probability, shares, ptr)
    verdict = point.verdict(probability)

    def alone(first: int, last: int) -> NDArray[np.float64]:
        part = ptr[first : last + 1] - ptr[first]
        with evaluating(verifier), torch.inference_mode():
            found = _explained(verifier, lambda start, end: lookup(first + start, first + end), part, "alone")
        _check_answers("score", found, part, places, first)
        return point.probability(found)

    little = None if witness is None else point.nearly_whole_sets
    lazy = None if by == "none" else LazyScores(alone, 0, len(logit))
    return Verdicts(
        verdict, probability, point.threshold, logit, ptr, by, shares, witness, attention, shown, lazy, little
    )


def _explained(
    verifier: "Verifier",
    lookup: FeatureLookup,
    ptr: NDArray[np.int64],
    by: WitnessesBy,
    progress: Progress | None = None,
) -> NDArray[np.float64]:
    """``(T,)`` scores of the instances, from the features that are there already."""
    from miv.explain import explain_features

    scores = np.zeros(ptr[-1])
    with (progress or SilentProgress()).step(f"Witnesses by {by}", total=len(ptr) - 1) as advance:
        for first, last in _batches(ptr):
            found = explain_features(verifier, *_batch(verifier, lookup, ptr, first, last), by)
            scores[ptr[first] : ptr[last]] = found.double().cpu().numpy()
            advance(last - first)
    return scores


def _check_answers(
    what: str, numbers: NDArray[np.float64], ptr: NDArray[np.int64], places: GivenPlaces, before: int = 0
) -> None:
    """Refuse answers that are none: a comparison with NaN is false, and would read as a verdict of no."""
    if np.isfinite(numbers.sum()):  # only where all of them are; and they are far from overflowing
        return
    number = before + int(np.searchsorted(ptr, (~np.isfinite(numbers)).argmax(), side="right")) - 1
    raise MIVError(
        f"The verifier's {what} for {places.exemplar(number)} is NaN or infinite, so there is no verdict. Either its "
        "instances hold numbers far beyond those of the training, which overflow, or the verifier's weights are "
        "damaged. Scale the vectors as in the training, or train again."
    )


def _batches(ptr: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """The first exemplar of each batch, and the one after its last."""
    first, exemplars = 0, len(ptr) - 1
    while first < exemplars:
        last = max(first + 1, int(np.searchsorted(ptr, ptr[first] + _TOGETHER, side="right")) - 1)
        yield first, last
        first = last


def _batch(
    verifier: "Verifier", lookup: FeatureLookup, ptr: NDArray[np.int64], first: int, last: int
) -> tuple[Tensor, Bags]:
    query, targets = (_as_tensor(rows, verifier) for rows in lookup(first, last))
    return query, Bags(targets, torch.from_numpy(ptr[first : last + 1] - ptr[first]).to(targets.device))


def _as_tensor(rows: NDArray[np.float32], verifier: "Verifier") -> Tensor:
    return torch.from_numpy(np.require(rows, requirements=["C", "W"])).to(verifier.device, verifier.dtype)
