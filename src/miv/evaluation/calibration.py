"""Fit an operating point to the answers on validation data, with its figures as text and on the card."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from miv.data import csr
from miv.errors import MIVError
from miv.evaluation.calibration_fits import (
    TooFewWitnessesError,
    choose_scaling,
    expected_calibration_error,
    fit_witness_rule,
    shares_of_bags,
)
from miv.evaluation.clusters import CONFIDENCE, ClusterBy, ErrorEvidence, chosen_clusters, cluster_words, clusters_of
from miv.evaluation.goals import ErrorCurve, Goal, clusters_to_halve_the_price, parse_goal, point_rates, trade
from miv.evaluation.out_of_distribution import limit_text
from miv.evaluation.predicting import Predictions
from miv.files.arrays import Floats, Mask
from miv.files.json import check_section, write_section
from miv.runtime import aligned_table
from miv.verifier.decisions import ConformalRule, OperatingPoint, StatedRule, WitnessesBy, WitnessRule
from miv.verifier.out_of_distribution import OutOfDistributionLimit


@dataclass(frozen=True, eq=False)
class Calibration:
    """An operating point; ``point.measured`` has all figures."""

    point: OperatingPoint
    predictions: Predictions  # that it was fitted to
    limit: OutOfDistributionLimit | None = None  # that ``miv.calibrate`` fitted, if any
    notes: tuple[str, ...] = ()  # what ``miv.calibrate`` did and did not do, as sentences

    def document(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {**self.point.document(), **({} if self.limit is None else {"unlike": self.limit.document()})}

    def text(self) -> str:
        """Everything as text tables; ``print(calibration)`` shows the same."""
        return "\n".join([calibration_text(self.point), *([] if self.limit is None else [limit_text(self.limit)])])

    __str__ = text

    @property
    def warning(self) -> str:
        """A warning if the witness sets hold nearly whole bags; else ""."""
        return witness_warning(self.point)


def calibrate(
    predictions: Predictions,
    goal: Goal | str = "eer",
    scaling: str = "auto",
    epsilon: float | None = None,
    *,
    shares: ArrayLike | None = None,
    witnesses_by: WitnessesBy | None = None,
    cluster_by: ClusterBy | None = None,
    confidence: float = CONFIDENCE,
) -> Calibration:
    """Choose a scaling, a threshold and a witness rule from the answers on validation data.

    Args:
        predictions: answers of a verifier on exemplars that are used neither for training nor for testing. Without
            ``query_class`` and ``query``, all exemplars count as independent.
        goal: like ``scaling``, ``epsilon``, ``cluster_by`` and ``confidence`` an argument of ``miv.calibrate``.
        scaling: see ``choose_scaling``.
        epsilon: calibrates sets of witnesses, if enough witnesses are known.
        shares: ``(T,)``, sum to 1 in each bag; the witness rule uses them instead of attention. For example, from
            ``miv.evaluation.predicting.witness_shares``.
        witnesses_by: source of ``shares``. The rule is valid only for this source.
        cluster_by: rates are promised for new clusters, such as classes.
        confidence: at least 0.5.
    """
    goal = parse_goal(goal) if isinstance(goal, str) else goal
    if len(predictions) == 0:
        raise MIVError("There are no predictions. Expected predictions on validation data.")
    if shares is not None and witnesses_by is None:
        raise MIVError("Got shares without witnesses_by. Expected their source too, such as 'leave_one_out'.")
    logit, label = predictions.logit, predictions.label
    by = chosen_clusters(predictions, cluster_by)
    cluster = clusters_of(predictions, by)
    chosen = choose_scaling(logit, label, scaling, cluster, cluster_words(by))
    probability = chosen.scaling.probability(logit)
    if not _LEAST_CONFIDENCE <= confidence < 1:
        raise MIVError(
            f"The confidence is {confidence:g}. Expected at least {_LEAST_CONFIDENCE:g} and below 1, as 0.95."
        )
    curve = ErrorCurve.of(probability, label, cluster, cluster_words(by), logit).at(confidence)
    lower, threshold = (float(curve.cuts[cut]) for cut in goal.cuts(curve))
    goal.check(curve)
    shared = predictions if shares is None else replace(predictions, attention=np.asarray(shares, np.float64))
    rule, witnesses = _witness_rule(shared, probability, probability >= lower, epsilon)
    rule = replace(rule, by=witnesses_by or "attention") if isinstance(rule, ConformalRule) else rule
    measured = {
        "exemplars": len(predictions),
        "positives": curve.positives,
        "negatives": curve.negatives,
        "queries": None if predictions.query is None else len(np.unique(predictions.query)),
        "clusters": {
            "by": by,
            "count": len(np.unique(cluster)),
            "negatives": len(np.unique(cluster[label == 0])),
            "positives": len(np.unique(cluster[label == 1])),
        },
        "confidence": confidence,
        **point_rates(curve, goal, probability, label, cluster),
        "false_accepts": _false_accept_tail(probability[label == 0], curve.of_negatives),
        "notes": goal.notes(curve),
        "trade": trade(curve, goal),
        "more_clusters": clusters_to_halve_the_price(curve, goal),
        "log_loss": chosen.log_loss,
        "ece": {
            when: {"value": expected_calibration_error(label, answers)}
            for when, answers in (("before", predictions.probability), ("after", chosen.held_out))
        },
        "witnesses": witnesses,
    }
    point = OperatingPoint(chosen.scaling, threshold, goal.words, rule, measured, lower if lower < threshold else None)
    return Calibration(point, predictions)


_MOST_POINTS = 100


def _false_accept_tail(negatives: Floats, evidence: ErrorEvidence) -> dict[str, Any]:
    """The probability that the highest, the second highest, … of the negatives has, for searches among many bags."""
    descending = np.sort(negatives)[::-1]
    counts = np.unique(np.geomspace(1, len(negatives), _MOST_POINTS).round().astype(np.int64))
    return {
        "effective_negatives": float(evidence.effective(np.asarray(0))),
        "count": counts.tolist(),
        "probability": descending[counts - 1].tolist(),
    }


def _witness_rule(
    predictions: Predictions, probability: Floats, accepted: Mask, epsilon: float | None
) -> tuple[WitnessRule, dict[str, Any] | None]:
    """Calibrate the rule if there are attention and enough known witnesses; measure it and the stated rule."""
    stated = StatedRule()
    of_positives = csr.to_rows(predictions.label == 1, predictions.ptr)
    known = predictions.witness is not None and predictions.witness[of_positives].any()
    if epsilon is None or predictions.attention is None or not known:
        return stated, None
    measured: dict[str, Any] = {"epsilon": epsilon, "too_few": None}
    try:
        rule = fit_witness_rule(predictions, probability, epsilon)
    except TooFewWitnessesError as error:  # the threshold does not need witnesses
        return stated, {**measured, "too_few": str(error)}
    decided = rule.witnesses(probability, accepted, predictions.attention, predictions.ptr)
    return rule, {**measured, "shares_of_bags": shares_of_bags(predictions, decided)}


# A calibration as text tables, and as a section of the model card.

_LEAST_CONFIDENCE = 0.5


def trade_text(measured: dict[str, Any]) -> str:
    """What other rates and confidences would cost, as a table, and how many more clusters would halve the price."""
    headings = ["goal", "confidence", "expected", "matches found, or others rejected"]
    rows = [
        [row["goal"], f"{row['confidence']:.0%}", *(_percent(row[name]) for name in ("expected", "found"))]
        for row in measured["trade"]
    ]
    return "\n".join(filter(None, [aligned_table(headings, rows), measured["more_clusters"]]))


def _percent(share: float | None) -> str:
    return "too few data" if share is None else f"{share:.1%}"


_FEW = 100  # exemplars; with fewer, an interval of a rate spans twenty points or so
_FEW_WORDS = "Few exemplars: all figures above are rough. Calibrate on some hundreds before you rely on them."


def calibration_text(point: OperatingPoint) -> str:
    """Return the choice, its errors, how well it is calibrated, and its witness sets."""
    m = point.measured
    scaling = point.scaling.document()
    parameters = [f"{key} {value:.4g}" for key, value in scaling.items() if key != "name"]
    choice = [
        f"goal       {point.goal}",
        *_thresholds(point),
        f"scaling    {', '.join([str(scaling['name']), *parameters])}",
        f"data       {m['exemplars']:,} exemplars: {m['positives']:,} positive, {m['negatives']:,} negative",
        _clusters(m["clusters"]),
    ]
    rates = [*_rates(m), *m.get("notes", []), *([_FEW_WORDS] if m["exemplars"] < _FEW else [])]
    return "\n\n".join("\n".join(block) for block in (choice, rates, _witnesses(point)))


def _thresholds(point: OperatingPoint) -> list[str]:
    if point.lower_threshold is None:
        note = "; it keeps both rates, so no answer is unsure" if point.goal.count("<=") == 2 else ""
        return [f"threshold  {point.threshold:.4f}{note}"]
    unsure = _unsure_words(point.measured["unsure"])
    return [f"yes from   {point.threshold:.4f}", f"no below   {point.lower_threshold:.4f}", f"unsure     {unsure}"]


def _unsure_words(unsure: dict[str, Any]) -> str:
    shares = f"{unsure['of_positives']:.1%} of positives, {unsure['of_negatives']:.1%} of negatives"
    return f"{unsure['value']:.1%} of the exemplars: {shares}"


def _rates(m: dict[str, Any]) -> list[str]:
    sure = f"{m['confidence']:.0%}"
    figures = {"false accept": m["false_accept_rate"], "false reject": m["false_reject_rate"], "equal error": m["eer"]}
    figures |= {f"ECE {when}": m["ece"][when] for when in ("before", "after")}
    rows = [
        [title, f"{row['value']:.4f}"]
        + ([f"{row['low']:.4f} – {row['high']:.4f}", f"{row['at_most']:.4f}"] if "at_most" in row else ["", ""])
        for title, row in figures.items()
    ]
    notes = [f"at most: the true rate is below this with {sure} confidence (Clopper–Pearson, or as promised)."]
    counts = [round(m[name]["effective_exemplars"]) for name in ("false_accept_rate", "false_reject_rate")]
    if m["clusters"]["count"] != m["exemplars"] and counts != [m["negatives"], m["positives"]]:
        notes.append(
            f"Errors on one {m['clusters']['by']} are correlated: {m['negatives']:,} negatives count as "
            f"{counts[0]:,}, {m['positives']:,} positives as {counts[1]:,}."
        )
    return [aligned_table(["", "rate", f"{sure} interval", "at most"], rows), *notes]


def _clusters(clusters: dict[str, Any]) -> str:
    """On how many independent clusters everything rests."""
    by, words = clusters["by"], cluster_words(clusters["by"])
    if by is None:
        return "queries    unknown: all exemplars count as independent"
    counts = [f"{clusters[name]:,}" for name in ("count", "negatives", "positives")]
    known = "" if by != "query" else ", but not for new classes, which are unknown"
    of_labels = f"{counts[1]} with negatives and {counts[2]} with positives"
    return f"clusters   {counts[0]} {words}, {of_labels}; rates are promised for new {words}{known}"


def _witnesses(point: OperatingPoint) -> list[str]:
    rule, sets = point.witness_rule, point.measured["witnesses"]
    if not isinstance(rule, ConformalRule) or sets is None:
        factor = rule.factor if isinstance(rule, StatedRule) else 0.0
        why = "`--epsilon` calibrates sets on known witnesses." if sets is None else sets["too_few"]
        return [
            f"Witnesses: instances of accepted bags with at least {factor:g} times an even share of the attention,",
            f"or of the drop of the logit without them. A fixed rule without a guarantee: {why}",
        ]
    marked, true = ("–" if share is None else f"{share:.0%}" for share in sets["shares_of_bags"].values())
    return [
        f"Witnesses: instances with probability × share by {rule.by} × size of the bag >= {rule.threshold:.4g};",
        f"at least {100 * (1 - rule.epsilon):.4g}% of true witnesses are inside (conformal). Sets hold {marked} of a",
        f"positive bag on average; {true} are witnesses.",
        *filter(None, [witness_warning(point)]),
    ]


_NEARLY_WHOLE = 0.8  # witness sets that hold more than this share of a bag say little


def witness_warning(point: OperatingPoint) -> str:
    """A warning if the witness sets hold nearly whole bags; else ""."""
    shares = (point.measured.get("witnesses") or {}).get("shares_of_bags", {})
    marked, true = shares.get("marked"), shares.get("true")
    if marked is None or true is None or not true <= _NEARLY_WHOLE < marked:
        return ""
    return (
        f"Warning: witness sets contain {marked:.0%} of a positive bag on average, although only {true:.0%} are "
        "witnesses, so they are not informative. The shares do not rank witnesses well enough for this guarantee: "
        "allow more misses (--epsilon), try other shares (--witnesses alone), or train a better verifier."
    )


# The operating point on the model card of a verifier: README.md, which the hub shows.

BEGIN, END = "<!-- operating point of miv calibrate -->", "<!-- end of operating point -->"


def check_point_card(folder: Path) -> None:
    """Raise an error if the operating point could not be written to the card."""
    check_section(folder, BEGIN, END)


def write_point_card(folder: Path, point: OperatingPoint) -> None:
    """Write the goal, the thresholds and their errors to a verifier's card, replacing those of an earlier call."""
    m = point.measured
    rows = {"goal": point.goal, "verdict yes from a probability of": f"{point.threshold:.4f}"}
    if point.lower_threshold is not None:
        rows |= {"no below": f"{point.lower_threshold:.4f}", "unsure between them": _unsure_words(m["unsure"])}
    rows["scaling"] = str(point.scaling.document()["name"])
    for title, rate in (("false accepts", m["false_accept_rate"]), ("false rejects", m["false_reject_rate"])):
        rows[title] = f"{rate['value']:.4f}, at most {rate['at_most']:.4f} with {m['confidence']:.0%} confidence"
    by, count = m["clusters"]["by"], m["clusters"]["count"]
    where = f" of {count:,} {cluster_words(by)}" if by is not None else ", counted as independent"
    rows["measured on"] = f"{m['exemplars']:,} exemplars{where}, {m['positives']:,} positive"
    table = "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows.items())])
    write_section(folder, BEGIN, END, "\n\n".join(["## Operating point", table, *m["notes"]]))
