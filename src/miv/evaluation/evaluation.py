"""All metrics of a set of predictions, as a document and as a table."""

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from miv.evaluation.clusters import chosen_clusters, cluster_words, clusters_of, rate_interval
from miv.evaluation.metrics import classification_metrics, group_table
from miv.evaluation.predicting import Predictions
from miv.evaluation.witnesses import WITNESS_METRICS, witness_metrics, witness_rankings
from miv.files.arrays import Mask
from miv.runtime import aligned_table
from miv.verifier.decisions import OperatingPoint

# Does a promised rate hold on the set at hand? The rate with an interval that respects clusters.

_SHORT = {"false-accept": "far", "false-reject": "frr"}
# The goal is a text from a file: a number counts if it goes on to a comma, a space or the end; that of "1e" does not.
_PROMISED = re.compile(r"(false-accept|false-reject) rate <= (\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?=[,\s]|$)")


def goal_checks(
    predictions: Predictions, point: OperatingPoint, cluster_by: str | None = None, withheld: Mask | None = None
) -> list[dict[str, Any]]:
    """For each rate that the operating point promises: the rate on these predictions, and whether it is above the goal.

    Verdicts that are ``withheld`` ``(E,)`` are neither accepted nor rejected.

    The interval is that of Korn and Graubard (1998): Clopper and Pearson with the effective number of exemplars.
    """
    probability = point.probability(predictions.logit)
    by = chosen_clusters(predictions, cluster_by)
    cluster = clusters_of(predictions, by)
    checks = []
    for kind, goal in _PROMISED.findall(point.goal):
        of = predictions.label == (0 if kind == "false-accept" else 1)
        wrong = (point.verdict(probability) if kind == "false-accept" else point.rejected(probability))[of]
        if withheld is not None:
            wrong = wrong & ~withheld[of]
        if not of.any():
            continue
        rate, (low, high) = float(wrong.mean()), rate_interval(wrong, cluster[of])
        check = {"rate": _SHORT[kind], "goal": float(goal), "measured": rate, "low": low, "high": high}
        clusters = len(np.unique(cluster[of]))
        checks.append(check | {"missed": rate > float(goal), "clusters": clusters, "cluster_by": by})
    return checks


_VAGUE = 0.3  # end of an interval that says nothing about a rate


def check_words(check: dict[str, Any]) -> str:
    """One check as a sentence.

    >>> check_words({"rate": "far", "goal": 0.05, "measured": 0.141, "low": 0.08, "high": 0.22, "missed": True,
    ...              "clusters": 19, "cluster_by": "class"})
    'goal far <= 0.05 missed: 0.141 [0.080, 0.220], 95% interval by 19 classes'
    """
    verb = "missed" if check["missed"] else "met"
    if not check["missed"] and check["high"] > max(_VAGUE, 5 * check["goal"]):
        verb = "not contradicted, but the data are too few to show it"
    chance = "; this may be chance" if check["missed"] and check["low"] <= check["goal"] else ""
    by = f"{check['clusters']:,} {cluster_words(check['cluster_by'])}"
    span = f"[{check['low']:.3f}, {check['high']:.3f}]"
    rate = f"{check['rate']} <= {check['goal']:g}"
    return f"goal {rate} {verb}: {check['measured']:.3f} {span}, 95% interval by {by}{chance}"


# An evaluation as plain-text tables that line up in every terminal, log and mail.

TITLES = {
    "auroc": "AUROC",
    "accuracy": "accuracy",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "i_auroc": "i-AUROC",
    "i_ap": "i-AP",
    "i_top1": "i-top1",
    "i_auroc_by_score": "own-score i-AUROC",
    "i_ap_by_score": "own-score i-AP",
    "i_auroc_one_hot": "one-hot i-AUROC",
    "i_ap_one_hot": "one-hot i-AP",
}


def _at_operating_point(figures: dict[str, Any]) -> str:
    exemplars = figures["negatives"] + figures["positives"]

    def counted(name: str, total: int) -> str:
        return f"{figures[name]:,} of {total:,}" + (f" ({figures[name] / total:.1%})" if total else "")

    row = {"threshold": _figure(figures["threshold"]), "accuracy": _figure(figures["accuracy"])}
    if "unsure" in figures:
        lower = figures["threshold"] if figures["lower_threshold"] is None else figures["lower_threshold"]
        row = {"yes from": row["threshold"], "no below": _figure(lower), "unsure": counted("unsure", exemplars)}
        row["accuracy of the others"] = _figure(figures["accuracy_of_decided"])
    row["false accepts"] = counted("false_accepts", figures["negatives"])
    row["false rejects"] = counted("false_rejects", figures["positives"])
    lines = [f"At its operating point, {figures['goal']} (everything else is at probability 0.5, uncalibrated):"]
    lines.append(aligned_table(list(row), [list(row.values())], left=()))
    if "withheld" in figures:
        lines.append(f"Out of distribution, and so unsure: {counted('withheld', exemplars)}.")
    checks = figures.get("goals", ())
    return "\n".join([*lines, *(f"{'Warning: ' if check['missed'] else ''}{check_words(check)}" for check in checks)])


def _figure(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}"


@dataclass(frozen=True)
class Evaluation:
    """All metrics; a part is ``None`` if the predictions lack what it needs.

    ``operating_point`` has goal, threshold, accuracy and errors of the verdicts of a calibrated verifier, how many are
    unsure or out of distribution (``withheld``), and whether promised rates hold (``goals``). The other figures are of
    the probability 0.5 without a scaling.
    """

    exemplars: int
    positives: int
    classification: dict[str, float]  # of classification_metrics
    witnesses: dict[str, float] | None  # of witness_metrics; needs witnesses, and attention or other scores
    groups: list[dict[str, Any]] | None  # of group_table; needs groups
    operating_point: dict[str, Any] | None = None
    rankings: dict[str, dict[str, float]] | None = None  # of witness_rankings: the witnesses ranked in other ways

    @property
    def metrics(self) -> dict[str, float]:
        """The main figures by name: those of the paper's tables, and i-top1, if available."""
        witnesses = self.witnesses or {}
        return self.classification | {name: witnesses[name] for name in WITNESS_METRICS if name in witnesses}

    def document(self) -> dict[str, Any]:
        """Everything as plain values, for JSON, which has no NaN: undefined figures are ``None``."""
        document: dict[str, Any] = _without_nan(vars(self))
        if self.operating_point is None:
            del document["operating_point"]
        return document

    def text(self) -> str:
        """The main figures, then groups, as text tables; ``print(evaluation)`` shows the same."""
        share, metrics, witnesses = self.positives / self.exemplars, self.metrics, self.witnesses
        blocks = [f"{self.exemplars:,} exemplars, {self.positives:,} positive ({share:.1%})"]
        heads, cells = [TITLES[name] for name in metrics], [list(map(_figure, metrics.values()))]
        blocks.append(aligned_table(heads, cells, left=()))
        if self.operating_point is not None:
            blocks.append(_at_operating_point(self.operating_point))
        if witnesses is not None:
            chance = f"0.5000, {_figure(witnesses['i_ap_chance'])} and {_figure(witnesses['i_top1_chance'])}"
            note = f"i-AUROC, i-AP and i-top1 over {witnesses['exemplars']:,} positive exemplars; "
            count = witnesses["undefined"]
            more = f"\n{count:,} more have no witness or only witnesses." if count else ""
            blocks.append(f"{note}a random order gives {chance}.{more}")
        if self.groups is not None:
            counts = ("exemplars", "tp", "tn", "fp", "fn")
            rows = [
                [row["group"], *(f"{row[name]:,}" for name in counts), _figure(row["accuracy"])] for row in self.groups
            ]
            blocks.append(aligned_table(["group", "exemplars", "TP", "TN", "FP", "FN", "accuracy"], rows))
        return "\n\n".join(blocks)

    __str__ = text


def evaluate(
    predictions: Predictions,
    *,
    score: ArrayLike | None = None,
    point: OperatingPoint | None = None,
    withheld: Mask | None = None,
) -> Evaluation:
    """Compute all metrics that the predictions allow.

    Args:
        predictions: the answers and the truth.
        score: ``(T,)`` scores that rank the instances in the witness metrics instead of attention, such as those of
            ``miv.evaluation.predicting.explain``.
        point: operating point of a calibrated verifier, to measure its verdicts too.
        withheld: ``(E,)``, which verdicts are unsure because the exemplar is out of distribution, as from
            ``miv.evaluation.predicting.withheld``; ``None`` if the verifier has no such check.

    >>> answers = Predictions([2.0, -1.0], label=[1, 0], ptr=[0, 2, 4], group=["3", "7"])
    >>> evaluate(answers).metrics["accuracy"]
    1.0
    """
    p = predictions
    # By logit: logits above 37 all have probability 1 in float64 and would tie.
    classification = classification_metrics(p.label, p.logit, threshold=0.0)
    ranked_by = p.attention if score is None else score
    return Evaluation(
        len(p),
        int(p.label.sum()),
        classification,
        None if ranked_by is None or p.witness is None else witness_metrics(p.ptr, p.witness, ranked_by, p.label),
        None if p.group is None else group_table(p.label, p.logit, p.group, threshold=0.0),
        None if point is None or point.is_default else _operating_point_figures(p, point, withheld),
        witness_rankings(p),
    )


def _operating_point_figures(p: Predictions, point: OperatingPoint, withheld: Mask | None) -> dict[str, Any]:
    probability = point.probability(p.logit)
    yes, no = point.verdict(probability), point.rejected(probability)
    if withheld is not None:
        yes, no = yes & ~withheld, no & ~withheld
    positives = int(p.label.sum())
    figures = {
        "goal": point.goal,
        "threshold": point.threshold,
        "accuracy": float((yes == p.label).mean()),
        "false_accepts": int(yes[p.label == 0].sum()),
        "negatives": len(p) - positives,
        "false_rejects": int(no[p.label == 1].sum()),
        "positives": positives,
    }
    if withheld is not None:
        figures["withheld"] = int(withheld.sum())
    if point.lower_threshold is not None or withheld is not None:
        decided = yes | no
        right = np.where(p.label == 1, yes, no)
        figures |= {
            "lower_threshold": point.lower_threshold,
            "unsure": int((~decided).sum()),
            "unsure_positives": int((~decided)[p.label == 1].sum()),
            "accuracy_of_decided": float(right[decided].mean()) if decided.any() else math.nan,
        }
    checks = goal_checks(p, point, withheld=withheld)
    return figures | {"goals": checks} if checks else figures


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_nan(inner) for inner in value]
    return None if isinstance(value, float) and math.isnan(value) else value
