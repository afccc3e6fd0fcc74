"""From features to verdicts: run the verifier, apply its operating point, and find the witnesses."""

import warnings
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from miv.decisions.witness_rules import StatedRule
from miv.errors import MIVError, MIVWarning
from miv.explain import as_shares, check_method
from miv.inference.engine import EmbeddedExemplars, explain_embedded, verify_embedded
from miv.inference.given_instances import GivenPlaces
from miv.inference.matches import LazyMatches
from miv.inference.unlike_instances import UnlikeInstances
from miv.inference.verdict import Asked, Shown, Verdicts
from miv.runtime import Progress

if TYPE_CHECKING:
    from miv.models.verifier import Verifier


def decide(
    verifier: "Verifier",
    exemplars: EmbeddedExemplars,
    by: Asked,
    progress: Progress | None = None,
    shown: Shown | None = None,
    places: GivenPlaces | None = None,
) -> Verdicts:
    """Verify exemplars and decide by the verifier's operating point; ``places`` names them in errors."""
    places, ptr, shares = places or GivenPlaces(), exemplars.ptr, None
    logit, attention, score = verify_embedded(verifier, exemplars, progress)
    _check_answers("logit", logit, np.arange(len(ptr)), places)
    if attention is not None:
        _check_answers("attention", attention, ptr, places)
    if by == "attention":
        shares = attention
    elif by != "none":
        scores = explain_embedded(verifier, exemplars, by, progress)
        _check_answers(by, scores, ptr, places)
        shares = as_shares(scores, by, logit, ptr, verifier.dtype)
    point = verifier.operating_point.for_witnesses_by(by)
    probability = point.probability(logit)
    witness = None if shares is None else point.witnesses(probability, shares, ptr)
    verdict = point.verdict(probability)
    unlike = UnlikeInstances.of(verifier, exemplars)
    if unlike is not None:
        verdict = verdict & ~unlike.withheld

    def alone(first: int, last: int) -> NDArray[np.float64]:
        part = exemplars.part(first, last)
        # Scores of several references are combined with the weights of the whole bag, not of the instance alone.
        if score is not None and verifier.pooling.score_is_logit and exemplars.reference_ptr is None:
            found = score[ptr[first] : ptr[last]]
        else:
            found = explain_embedded(verifier, part, "alone")
        _check_answers("score", found, part.ptr, places, first)
        return point.probability(found)

    def matched(exemplar: int) -> NDArray[np.float64]:
        each = exemplars.of_references(exemplar)
        found = explain_embedded(verifier, each, "alone")
        _check_answers("score", found, np.array([0, len(found)]), places, exemplar)
        return point.probability(found).reshape(len(each), -1)

    little = None if witness is None else point.nearly_whole_sets
    lazy = None if by == "none" else LazyScores(alone, 0, len(logit))
    matches = None if lazy is None or exemplars.reference_ptr is None else LazyMatches(matched, range(len(logit)))
    return Verdicts(
        verdict,
        probability,
        point.threshold,
        logit,
        ptr,
        by,
        shares,
        witness,
        attention,
        shown,
        lazy,
        little,
        point.lower_threshold,
        matches,
        unlike=unlike,
    )


def witnesses_by(verifier: "Verifier", asked: Asked | None) -> Asked:
    """How to choose witnesses: as requested, else as the witness rule was calibrated, else as the pooling allows.

    Warns if the rule was calibrated on another method: the threshold of one kind of shares means nothing for another.
    """
    calibrated = verifier.operating_point.witnesses_by
    by = asked or calibrated or ("attention" if verifier.pooling.has_attention else "leave_one_out")
    if by == "none":
        return by
    check_method(verifier.pooling, by)
    if calibrated not in (None, by):
        warnings.warn(
            f"The verifier's witness rule was calibrated on {calibrated} and is not applied to {by}. Witnesses are the "
            f"instances with {StatedRule().factor:g} times an even share, without a guarantee; `miv calibrate "
            f"--witnesses {by}` fits a rule.",
            MIVWarning,
            stacklevel=5,
        )
    return by


def _check_answers(
    what: str, numbers: NDArray[np.float64], ptr: NDArray[np.int64], places: GivenPlaces, before: int = 0
) -> None:
    """Raise an error for NaN or infinity: a comparison with NaN is false and would look like a verdict of no."""
    if np.isfinite(numbers.sum()):  # true only if all are finite; these sums do not overflow
        return
    number = before + int(np.searchsorted(ptr, (~np.isfinite(numbers)).argmax(), side="right")) - 1
    raise MIVError(
        f"The verifier's {what} for {places.exemplar(number)} is NaN or infinite, so there is no verdict. Either the "
        "instances contain numbers far outside the range of the training data, or the verifier's weights are "
        "damaged. Scale the vectors as in training, or train again."
    )


class LazyScores:
    """Scores of single instances, computed on first access from stored features.

    They cost one to four times as much as the verdicts, and most users who verify thousands of bags never need them.

    Args:
        compute: returns the scores of the exemplars start to stop - 1.
        first: the first exemplar.
        last: one past the last exemplar.
    """

    def __init__(self, compute: Callable[[int, int], NDArray[np.float64]], first: int, last: int) -> None:
        self._compute, self._first, self._last = compute, first, last

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """Scores ``(T,)`` of all instances."""
        return self._compute(self._first, self._last)

    def of(self, exemplar: int, targets: slice) -> "LazyScores":
        """Scores of one exemplar, given its instances, without computing the others."""
        known = self.__dict__.get("values")
        if known is not None:
            return LazyScores(lambda *_: known[targets], 0, 1)
        return LazyScores(self._compute, self._first + exemplar, self._first + exemplar + 1)

    def __getstate__(self) -> dict[str, Any]:
        return {"values": self.values}  # a copy in another process has neither features nor verifier
