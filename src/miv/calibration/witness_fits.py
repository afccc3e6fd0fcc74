"""Fit a witness rule with a guarantee to known witnesses, and measure what rules find."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.calibration.query_clusters import folds_of
from miv.calibration.reliability import bag_size_classes
from miv.data import csr
from miv.decisions.witness_rules import ConformalRule, witness_score
from miv.errors import MIVError
from miv.evaluation import Predictions
from miv.evaluation.clusters import clusters_of
from miv.io.checked_values import Floats, Integers, Mask


class TooFewWitnessesError(MIVError):
    """There are too few known witnesses for a guarantee."""


def fit_witness_rule(predictions: Predictions, probability: Floats, epsilon: float) -> ConformalRule:
    r"""Find the highest threshold with few enough witnesses of positive exemplars below it.

    Witnesses of one bag depend on each other, and so do bags of the same query. The guarantee assumes exchangeable
    queries, by conformal risk control (Angelopoulos et al. 2024): with :math:`W` witnesses in total, and at most
    :math:`w` per query (per bag, if queries are unknown), :math:`m` may be missed, where

    .. math:: m + (1 - \varepsilon) \, w \le \varepsilon \, W .

    Then, on average over calibration and new data, at most a share :math:`\varepsilon` of new witnesses is missed.
    The method needs a bound :math:`w` known in advance; here it is the highest count in the data, so queries with more
    witnesses are not covered. With one witness per query, this is split conformal prediction with the usual
    finite-sample correction.
    """
    scores, most = _witness_scores(predictions, probability)
    missed = _misses_allowed(len(scores), most, epsilon)
    if missed < 0:
        needed = math.ceil((1 - epsilon) * most / epsilon)
        together = "in one bag" if predictions.query is None else "of one query"
        raise TooFewWitnessesError(
            f"{100 * (1 - epsilon):.4g}% coverage cannot be guaranteed with {len(scores):,} known witnesses, "
            f"up to {most} {together}. Expected at least {needed:,}. Add data, or increase --epsilon."
        )
    return ConformalRule(float(np.partition(scores, missed)[missed]), epsilon)


def held_out_witnesses(predictions: Predictions, probability: Floats, epsilon: float, seed: int = 0) -> Mask | None:
    """Decide for each half of the queries with a rule fitted to the other half: ``(T,)`` bool.

    ``None`` without attention, or if a half has too few witnesses to fit a rule.
    """
    if predictions.attention is None:
        return None
    half = folds_of(predictions.label, _queries_of(predictions), 2, seed)
    decided = np.zeros(int(predictions.ptr[-1]), bool)
    for part in (0, 1):
        chosen = np.flatnonzero(half == part)
        try:
            rule = fit_witness_rule(predictions.take(chosen), probability[chosen], epsilon)
        except TooFewWitnessesError:
            return None
        inside = witness_score(probability, predictions.attention, predictions.ptr) >= rule.threshold
        elsewhere = csr.to_rows(half != part, predictions.ptr)
        decided[elsewhere] = inside[elsewhere]
    return decided


def shares_of_bags(predictions: Predictions, decided: Mask) -> dict[str, float | None]:
    """The share of a positive bag of two or more that the sets ``decided`` ``(T,)`` mark, and the true share.

    ``marked`` and ``true`` are means over these bags, ``None`` if there are none.
    """
    sizes = predictions.bag_sizes
    of = (predictions.label == 1) & (sizes > 1)
    by_bag = {"marked": decided, "true": _known(predictions)}
    return {name: _mean((csr.bag_sums(mask, predictions.ptr) / sizes)[of]) for name, mask in by_bag.items()}


def measure_witness_sets(predictions: Predictions, decided: Mask) -> dict[str, Any]:
    """Measure the sets ``decided`` ``(T,)``, over all bags and by bag size.

    ``coverage``: share of the witnesses of positive exemplars that are in a set. ``precision``: share of instances in
    a set that are witnesses. Also mean sizes and shares of empty sets, for positive and negative exemplars.
    """
    names, place = bag_size_classes(predictions.bag_sizes)
    by_size = [{"bag_size": name, **_measure(predictions, decided, place == n)} for n, name in enumerate(names)]
    return {**_measure(predictions, decided, np.ones(len(predictions), bool)), "by_bag_size": by_size}


def _measure(predictions: Predictions, decided: Mask, of: Mask) -> dict[str, Any]:
    positive, negative = of & (predictions.label == 1), of & (predictions.label == 0)
    sizes = csr.bag_sums(decided, predictions.ptr)  # (E,) sizes of the sets
    true = decided[_of_bags(predictions, positive) & _known(predictions)]  # (W,) whether each witness is in its set
    inside = decided & _of_bags(predictions, of)
    return {
        "exemplars": int(of.sum()),
        "witnesses": len(true),
        "coverage": _mean(true),
        "precision": _mean(_known(predictions)[inside]),
        "mean_size_positive": _mean(sizes[positive]),
        "mean_size_negative": _mean(sizes[negative]),
        "empty_positive": _mean(sizes[positive] == 0),
        "empty_negative": _mean(sizes[negative] == 0),
    }


def _witness_scores(predictions: Predictions, probability: Floats) -> tuple[Floats, int]:
    """The scores of the witnesses of positive exemplars, and the highest number per query."""
    if predictions.attention is None:
        raise MIVError("The predictions have no attention. Calibrating a witness rule needs attention.")
    true = _of_bags(predictions, predictions.label == 1) & _known(predictions)
    of_query = np.bincount(csr.to_rows(_queries_of(predictions), predictions.ptr), true, minlength=1)
    return witness_score(probability, predictions.attention, predictions.ptr)[true], max(1, int(of_query.max()))


def _misses_allowed(witnesses: int, most: int, epsilon: float) -> int:
    if not 0 < epsilon < 1:
        raise MIVError(f"epsilon is {epsilon:g}. Expected a share of witnesses between 0 and 1, such as 0.1.")
    # Round first: 0.1 · 29 − 0.9 · 1 is 2.0000000000000004 or 1.9999999999999998, but should be 2.
    return math.floor(round(epsilon * witnesses - (1 - epsilon) * most, 9))


def _known(predictions: Predictions) -> Mask:
    if predictions.witness is None:
        raise MIVError("The predictions have no witnesses. Calibrating a witness rule needs known witnesses.")
    return predictions.witness


def _of_bags(predictions: Predictions, exemplars: Mask) -> Mask:
    return csr.to_rows(exemplars, predictions.ptr)


def _mean(values: NDArray[Any]) -> float | None:
    return float(values.mean()) if len(values) else None  # JSON has no NaN


def _queries_of(predictions: Predictions) -> Integers:
    """The number of each exemplar's query; each is its own if queries are unknown."""
    return np.arange(len(predictions)) if predictions.query is None else clusters_of(predictions, "query")
