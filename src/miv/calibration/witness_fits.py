"""A witness rule with a promise, from known witnesses; and what rules find, measured."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.calibration.query_clusters import clusters_of, folds_of
from miv.calibration.reliability import bag_size_classes
from miv.data import csr
from miv.decisions.witness_rules import ConformalRule, witness_score
from miv.errors import MIVError
from miv.evaluation import Predictions
from miv.io.checked_values import Floats, Mask


class TooFewWitnessesError(MIVError):
    """There are too few known witnesses for a promise."""


def fit_witness_rule(predictions: Predictions, probability: Floats, epsilon: float) -> ConformalRule:
    r"""Find the highest threshold that leaves few enough witnesses of positive exemplars below it.

    Witnesses of one bag depend on each other, and so do bags that are asked about the same query; the promise rests on
    queries that could come in any order, by conformal risk control (Angelopoulos et al. 2024): with :math:`W` witnesses
    in all, and at most :math:`w` of a query (of a bag, where queries are not known), :math:`m` may be missed, where

    .. math:: m + (1 - \varepsilon) \, w \le \varepsilon \, W .

    Then, in the mean over calibration and new data, at most the share :math:`\varepsilon` of new witnesses is missed.
    The control asks for a bound :math:`w` that is known beforehand; here it is the highest number in the data, so a
    query with more witnesses than any of these is left aside. With one witness a query this is split conformal
    prediction with its usual correction for a finite sample.
    """
    scores, most = _witness_scores(predictions, probability)
    missed = _misses_allowed(len(scores), most, epsilon)
    if missed < 0:
        needed = math.ceil((1 - epsilon) * most / epsilon)
        together = "in one bag" if predictions.query is None else "of one query"
        raise TooFewWitnessesError(
            f"{100 * (1 - epsilon):.4g}% of witnesses inside cannot be promised with {len(scores):,} known witnesses, "
            "of which "
            f"up to {most} are {together}. Expected at least {needed:,}; give more data, or a larger --epsilon."
        )
    return ConformalRule(float(np.partition(scores, missed)[missed]), epsilon)


def held_out_witnesses(predictions: Predictions, probability: Floats, epsilon: float, seed: int = 0) -> Mask | None:
    """Decide for each half of the queries by a rule fitted to the other half: ``(T,)`` bool.

    ``None`` without attention, or where a half has too few witnesses to fit a rule to.
    """
    if predictions.attention is None:
        return None
    half = folds_of(predictions.label, clusters_of(predictions), 2, seed)
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
    """Of a positive bag of two or more, which share the sets ``decided`` ``(T,)`` mark, and which share is true.

    ``marked`` and ``true`` are means over these bags, ``None`` where there is none.
    """
    sizes = predictions.bag_sizes
    of = (predictions.label == 1) & (sizes > 1)
    by_bag = {"marked": decided, "true": _known(predictions)}
    return {name: _mean((csr.bag_sums(mask, predictions.ptr) / sizes)[of]) for name, mask in by_bag.items()}


def measure_witness_sets(predictions: Predictions, decided: Mask) -> dict[str, Any]:
    """Return how good the sets ``decided`` ``(T,)`` are, over all bags and by bag size.

    ``coverage``: the share of the witnesses of positive exemplars that are inside. ``precision``: the share of
    instances inside that are witnesses. Mean sizes and shares of empty sets, for positive and for negative exemplars.
    """
    names, place = bag_size_classes(predictions.bag_sizes)
    by_size = [{"bag_size": name, **_measure(predictions, decided, place == n)} for n, name in enumerate(names)]
    return {**_measure(predictions, decided, np.ones(len(predictions), bool)), "by_bag_size": by_size}


def _measure(predictions: Predictions, decided: Mask, of: Mask) -> dict[str, Any]:
    positive, negative = of & (predictions.label == 1), of & (predictions.label == 0)
    sizes = csr.bag_sums(decided, predictions.ptr)  # (E,) instances inside
    true = decided[_of_bags(predictions, positive) & _known(predictions)]  # (W,) whether each witness is inside
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
    """The scores of the witnesses of positive exemplars, and the most that one query has."""
    if predictions.attention is None:
        raise MIVError("The predictions have no attention. A witness rule is calibrated on attention.")
    true = _of_bags(predictions, predictions.label == 1) & _known(predictions)
    of_query = np.bincount(csr.to_rows(clusters_of(predictions), predictions.ptr), true, minlength=1)
    return witness_score(probability, predictions.attention, predictions.ptr)[true], max(1, int(of_query.max()))


def _misses_allowed(witnesses: int, most: int, epsilon: float) -> int:
    if not 0 < epsilon < 1:
        raise MIVError(f"epsilon is {epsilon:g}. Expected a share of witnesses between 0 and 1, such as 0.1.")
    # Rounded first: 0.1 · 29 − 0.9 · 1 is 2.0000000000000004 or 1.9999999999999998, but means 2.
    return math.floor(round(epsilon * witnesses - (1 - epsilon) * most, 9))


def _known(predictions: Predictions) -> Mask:
    if predictions.witness is None:
        raise MIVError("The predictions have no witnesses. A witness rule is calibrated on known witnesses.")
    return predictions.witness


def _of_bags(predictions: Predictions, exemplars: Mask) -> Mask:
    return csr.to_rows(exemplars, predictions.ptr)


def _mean(values: NDArray[Any]) -> float | None:
    return float(values.mean()) if len(values) else None  # JSON has no NaN
