"""Fit an operating point to the answers on validation data, with intervals for its figures."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from miv.data import csr
from miv.errors import MIVError
from miv.evaluation.calibration_fits import (
    TooFewWitnessesError,
    bag_size_classes,
    choose_scaling,
    expected_calibration_error,
    fit_witness_rule,
    held_out_witnesses,
    measure_witness_sets,
    resampled_calibration_error,
    shares_of_bags,
)
from miv.evaluation.calibration_output import calibration_text, witness_warning, write_pictures
from miv.evaluation.clusters import ClusterBy, chosen_clusters, cluster_words, clusters_of
from miv.evaluation.error_curve import CONFIDENCE, ErrorCurve, false_accept_tail
from miv.evaluation.goals import EqualErrors, Goal, parse_goal
from miv.evaluation.out_of_distribution import limit_text
from miv.evaluation.predictions import Predictions
from miv.files.arrays import Floats, Integers, Labels, Mask
from miv.verifier.decisions import ConformalRule, OperatingPoint, StatedRule, WitnessesBy, WitnessRule
from miv.verifier.out_of_distribution import OutOfDistributionLimit

# The thresholds of a goal and the errors at them, each with its interval.


def point_rates(curve: ErrorCurve, goal: Goal, resampled: Iterator[ErrorCurve]) -> dict[str, Any]:
    """The thresholds, the errors at them, the share of unsure and the equal error rate, each with its interval.

    The thresholds and the equal error rate are recomputed in each round; the errors and the share of unsure are those
    of the chosen thresholds.
    """
    place, lower = goal.pick(curve), goal.pick_lower(curve)
    two = bool(lower < place)
    draws: dict[str, list[Floats]] = {}
    for batch in resampled:
        drawn = _figures(batch, place, lower, goal.pick(batch), goal.pick_lower(batch), two=two)
        for name, figures in drawn.items():
            draws.setdefault(name, []).append(figures)
    values = _figures(curve, place, lower, place, lower, two=two)
    rates: dict[str, Any] = {
        name: interval(float(value), np.concatenate(draws[name])) for name, value in values.items()
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


ROUNDS = 1000  # bootstrap rounds


@dataclass(frozen=True, eq=False)
class Calibration:
    """An operating point and the data for its plots.

    Args:
        point: the operating point; ``point.measured`` has all figures.
        predictions: the answers that it was fitted to.
        held_out: ``(E,)`` calibrated probabilities, each from a scaling fitted to other exemplars.
        limit: the out-of-distribution limit that ``miv.calibrate`` fitted, if any.
        notes: what ``miv.calibrate`` did and did not do, as sentences.
    """

    point: OperatingPoint
    predictions: Predictions
    held_out: Floats
    limit: OutOfDistributionLimit | None = None
    notes: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {**self.point.document(), **({} if self.limit is None else {"unlike": self.limit.document()})}

    def text(self) -> str:
        """Everything as text tables; ``print(calibration)`` shows the same."""
        text = calibration_text(self.point)
        if self.limit is None:
            return text
        return f"{text}\n{limit_text(self.limit, has_classes=self.predictions.query_class is not None)}"

    __str__ = text

    @property
    def warning(self) -> str:
        """A warning if the witness sets hold nearly whole bags; else ""."""
        return witness_warning(self.point)

    def write_pictures(self, folder: Path | str) -> list[Path]:
        """Write ``roc``, ``det`` and ``reliability`` as PNG and SVG, and return the paths."""
        return write_pictures(self, folder)


def calibrate(
    predictions: Predictions,
    goal: Goal | str = "eer",
    scaling: str = "auto",
    epsilon: float = 0.1,
    *,
    shares: ArrayLike | None = None,
    witnesses_by: WitnessesBy | None = None,
    cluster_by: ClusterBy | None = None,
    rounds: int = ROUNDS,
    seed: int = 0,
) -> Calibration:
    """Choose a scaling, a threshold and a witness rule from the answers on validation data.

    Args:
        predictions: answers of a verifier on exemplars that are used neither for training nor for testing. Without
            ``query_class`` and ``query``, all exemplars count as independent.
        goal: goal of the threshold, such as ``"eer"``, ``"far=0.01"``, ``"frr=0.05"``, ``"cost=10:1"``, or of two
            thresholds, ``"far=0.01,frr=0.05"``.
        scaling: ``none``, ``temperature``, ``platt``, ``isotonic``, or ``auto``, see ``choose_scaling``.
        epsilon: share of true witnesses that the witness sets may miss, if enough witnesses are known.
        shares: ``(T,)``, sum to 1 in each bag; the witness rule uses them instead of attention. For example, from
            ``miv.evaluation.predicting.witness_shares``.
        witnesses_by: source of ``shares``. The rule is valid only for this source.
        cluster_by: which exemplars may depend on each other: those whose queries have the same ``class``, the same
            ``query_id``, the same ``query``, or the same ``group``. By default the first of them that is known, except
            groups. A rate is then promised for new classes, or new queries.
        rounds: number of bootstrap rounds.
        seed: random seed of folds, halves and bootstrap.
    """
    goal = parse_goal(goal) if isinstance(goal, str) else goal
    if len(predictions) == 0:
        raise MIVError("There are no predictions. Expected predictions on validation data.")
    if shares is not None and witnesses_by is None:
        raise MIVError("Got shares without witnesses_by. Expected their source too, such as 'leave_one_out'.")
    logit, label = predictions.logit, predictions.label
    by = chosen_clusters(predictions, cluster_by)
    cluster = clusters_of(predictions, by)
    chosen = choose_scaling(logit, label, scaling, seed, cluster, cluster_words(by))
    probability = chosen.scaling.probability(logit)
    curve = ErrorCurve.of(probability, label, cluster, cluster_words(by), logit)
    threshold, lower = (float(curve.cuts[int(place)]) for place in (goal.pick(curve), goal.pick_lower(curve)))
    goal.check(curve)
    shared = predictions if shares is None else replace(predictions, attention=np.asarray(shares, np.float64))
    rule, witnesses = _witness_rule(shared, probability, probability >= lower, epsilon, seed)
    rule = replace(rule, by=witnesses_by or "attention") if isinstance(rule, ConformalRule) else rule
    resampled = curve.resampled(probability, label, cluster, rounds, seed)
    measured = {
        "exemplars": len(predictions),
        "positives": int(curve.positives),
        "negatives": int(curve.negatives),
        "queries": None if predictions.query is None else len(np.unique(predictions.query)),
        "clusters": {
            "by": by,
            "count": len(np.unique(cluster)),
            "negatives": len(np.unique(cluster[label == 0])),
            "positives": len(np.unique(cluster[label == 1])),
        },
        "confidence": CONFIDENCE,
        "bootstrap_rounds": rounds,
        **point_rates(curve, goal, resampled),
        "false_accepts": false_accept_tail(probability[label == 0], curve.of_negatives),
        "notes": goal.notes(curve),
        "log_loss": chosen.log_loss,
        "ece": {
            when: _calibration_error(label, answers, cluster, rounds, seed)
            for when, answers in (("before", predictions.probability), ("after", chosen.held_out))
        },
        "by_bag_size": _by_bag_size(predictions, chosen.held_out, probability >= threshold, probability < lower),
        "witnesses": witnesses,
    }
    point = OperatingPoint(chosen.scaling, threshold, goal.words, rule, measured, lower if lower < threshold else None)
    return Calibration(point, predictions, chosen.held_out)


def _calibration_error(label: Labels, probability: Floats, cluster: Integers, rounds: int, seed: int) -> dict[str, Any]:
    value = expected_calibration_error(label, probability)
    resampled = resampled_calibration_error(label, probability, cluster, rounds, seed)
    # Noise only increases this error, and resampling adds noise: use only the spread.
    return interval(value, np.maximum(resampled - resampled.mean() + value, 0))


def _by_bag_size(predictions: Predictions, held_out: Floats, accepted: Mask, rejected: Mask) -> list[dict[str, Any]]:
    names, place = bag_size_classes(predictions.bag_sizes)
    rows = []
    for number, name in enumerate(names):
        of, label = place == number, predictions.label
        positive, negative = of & (label == 1), of & (label == 0)
        rows.append(
            {
                "bag_size": name,
                "exemplars": int(of.sum()),
                "false_accept_rate": float(accepted[negative].mean()) if negative.any() else None,
                "false_reject_rate": float(rejected[positive].mean()) if positive.any() else None,
                "ece_before": expected_calibration_error(label[of], predictions.probability[of]),
                "ece_after": expected_calibration_error(label[of], held_out[of]),
            }
        )
    return rows


def _witness_rule(
    predictions: Predictions, probability: Floats, accepted: Mask, epsilon: float, seed: int
) -> tuple[WitnessRule, dict[str, Any] | None]:
    """Calibrate the rule if there are attention and enough known witnesses; measure it and the stated rule."""
    stated = StatedRule()
    of_positives = csr.to_rows(predictions.label == 1, predictions.ptr)
    if predictions.attention is None or predictions.witness is None or not predictions.witness[of_positives].any():
        return stated, None
    by_stated = stated.witnesses(probability, accepted, predictions.attention, predictions.ptr)
    measured: dict[str, Any] = {"epsilon": epsilon, "held_out": None, "too_few": None}
    measured["stated_rule"] = measure_witness_sets(predictions, by_stated)
    try:
        rule = fit_witness_rule(predictions, probability, epsilon)
    except TooFewWitnessesError as error:  # the threshold does not need witnesses
        return stated, {**measured, "too_few": str(error)}
    held_out = held_out_witnesses(predictions, probability, epsilon, seed)
    if held_out is None:  # such a rule is as low as the lowest witness, so it marks nearly everything
        known = int(np.asarray(predictions.witness).sum())
        few = f"{known:,} known witnesses are too few to fit a rule to one half and check it on the other."
        return stated, {**measured, "too_few": few}
    decided = rule.witnesses(probability, accepted, predictions.attention, predictions.ptr)
    measured["shares_of_bags"] = shares_of_bags(predictions, decided)
    measured["held_out"] = measure_witness_sets(predictions, held_out)
    return rule, measured
