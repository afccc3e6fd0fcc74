"""The thresholds of a goal and the errors at them, each with its interval."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from miv.calibration.error_curve import ErrorCurve
from miv.calibration.error_evidence import CONFIDENCE
from miv.calibration.goals import EqualErrors, Goal
from miv.io.checked_values import Floats, Integers, Labels


def point_rates(curve: ErrorCurve, goal: Goal, resampled: Iterator[ErrorCurve]) -> dict[str, Any]:
    """The thresholds, the errors at them, the share of unsure and the equal error rate, each with its interval.

    The thresholds and the equal error rate are recomputed in each round; the errors and the share of unsure are those
    of the chosen thresholds.
    """
    place, lower = goal.pick(curve), goal.pick_lower(curve)
    two = bool(lower < place)
    found: dict[str, list[Floats]] = {}
    for batch in resampled:
        drawn = _figures(batch, place, lower, goal.pick(batch), goal.pick_lower(batch), two=two)
        for name, figures in drawn.items():
            found.setdefault(name, []).append(figures)
    values = _figures(curve, place, lower, place, lower, two=two)
    rates: dict[str, Any] = {
        name: interval(float(value), np.concatenate(found[name])) for name, value in values.items()
    }
    # Resampling zero errors always gives zero; the exact bound says how high the true rate may be.
    for name, errors, evidence in (
        ("false_accept_rate", curve.false_accepts[place], curve.of_negatives),
        ("false_reject_rate", curve.false_rejects[lower], curve.of_positives),
    ):
        rates[name] |= {
            "errors": int(errors),
            "effective_exemplars": float(evidence.effective(errors)),
            "at_most": min(float(evidence.upper_bound(errors)), goal.promised().get(name, 1.0)),
        }
    exemplars = int(curve.negatives + curve.positives)
    rates["accuracy"] = 1 - int(curve.false_accepts[place] + curve.false_rejects[place]) / exemplars
    if two:
        unsure = _unsure(curve, place, lower)
        wrong = int(curve.false_accepts[place] + curve.false_rejects[lower])
        rates["unsure"] |= {
            "exemplars": int(sum(unsure)),
            "of_negatives": float(unsure[0] / curve.negatives),
            "of_positives": float(unsure[1] / curve.positives),
        }
        decided = exemplars - int(sum(unsure))
        rates["accuracy_of_decided"] = 1 - wrong / decided if decided else None
    return rates


def clusters_measured(by: str | None, cluster: Integers, label: Labels) -> dict[str, Any]:
    """What the clusters are, and how many there are: in total, with negatives and with positives."""
    counts = [len(np.unique(cluster[label == value])) for value in (0, 1)]
    return {"by": by, "count": len(np.unique(cluster)), "negatives": counts[0], "positives": counts[1]}


def interval(value: float, resampled: Floats) -> dict[str, Any]:
    """A value with the interval of its resamples."""
    low, high = np.quantile(resampled, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return {"value": value, "low": float(low), "high": float(high)}


def _figures(
    curve: ErrorCurve, place: Integers, lower: Integers, own: Integers, own_lower: Integers, *, two: bool
) -> dict[str, Floats]:
    """Figures ``(...)`` at the chosen cuts ``place`` and ``lower``; the thresholds are the curve's own."""
    figures = {
        "threshold": curve.cuts[own],
        "false_accept_rate": curve.false_accept_rate[..., place],
        "false_reject_rate": curve.false_reject_rate[..., lower],
        "eer": EqualErrors().rate(curve),
    }
    if two:
        figures["lower_threshold"] = curve.cuts[own_lower]
        figures["unsure"] = sum(_unsure(curve, place, lower)) / (curve.negatives + curve.positives)
    return figures


def _unsure(curve: ErrorCurve, place: Integers, lower: Integers) -> tuple[Integers, Integers]:
    """The negatives and positives ``(...)`` between the cuts ``lower`` and ``place``."""
    negatives = curve.false_accepts[..., lower] - curve.false_accepts[..., place]
    return np.asarray(negatives), np.asarray(curve.false_rejects[..., place] - curve.false_rejects[..., lower])
