"""All metrics of a set of predictions, as a document and as a table."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from miv.decisions.operating_point import OperatingPoint
from miv.evaluation.classification import classification_metrics
from miv.evaluation.entropy import entropy_metrics
from miv.evaluation.evaluation_text import evaluation_text
from miv.evaluation.goal_checks import goal_checks
from miv.evaluation.groups import GroupRow, group_table
from miv.evaluation.predictions import Predictions
from miv.evaluation.rankings import witness_rankings
from miv.evaluation.witnesses import WITNESS_METRICS, UndefinedWitness, witness_metrics
from miv.io.checked_values import Mask


@dataclass(frozen=True)
class Evaluation:
    """All metrics; a part is ``None`` if the predictions lack what it needs.

    Args:
        exemplars: number of exemplars.
        positives: number with label 1.
        classification: result of ``classification_metrics``.
        witnesses: result of ``witness_metrics``; needs witnesses, and attention or other scores.
        rankings: result of ``witness_rankings``: the same by other ways to rank instances; needs witnesses and
            attention.
        entropy: result of ``entropy_metrics``; needs attention.
        groups: result of ``group_table``; needs groups.
        operating_point: goal, threshold, accuracy and errors of the verdicts of a calibrated verifier, how many are
            unsure if it has two thresholds, how many are withheld because they are unlike the training data, and
            whether the rates that it promises hold (``goals``). The other figures are of the probability 0.5 without a
            scaling.
    """

    exemplars: int
    positives: int
    classification: dict[str, float]
    witnesses: dict[str, float] | None
    entropy: dict[str, dict[str, float]] | None
    groups: list[GroupRow] | None
    operating_point: dict[str, Any] | None = None
    rankings: dict[str, dict[str, float]] | None = None

    @property
    def metrics(self) -> dict[str, float]:
        """The main figures by name: those of the paper's tables, i-MRR and i-top1, if available."""
        witnesses = self.witnesses or {}
        return self.classification | {name: witnesses[name] for name in WITNESS_METRICS if name in witnesses}

    def document(self) -> dict[str, Any]:
        """Everything as plain values, for JSON, which has no NaN: undefined figures are ``None``."""
        groups = None if self.groups is None else [row.document() for row in self.groups]
        document = {
            "exemplars": self.exemplars,
            "positives": self.positives,
            "classification": self.classification,
            "witnesses": self.witnesses,
            "rankings": self.rankings,
            "entropy": self.entropy,
            "groups": groups,
        }
        if self.operating_point is not None:
            document["operating_point"] = self.operating_point
        return _without_nan(document)

    def text(self) -> str:
        """Everything as text tables; ``print(evaluation)`` shows the same."""
        return evaluation_text(self)

    def __str__(self) -> str:
        return self.text()


def evaluate(
    predictions: Predictions,
    *,
    undefined: UndefinedWitness = "skip",
    score: ArrayLike | None = None,
    point: OperatingPoint | None = None,
    withheld: Mask | None = None,
) -> Evaluation:
    """Compute all metrics that the predictions allow.

    Args:
        predictions: the answers and the truth.
        undefined: as in ``witness_metrics``.
        score: ``(T,)`` scores that rank the instances in the witness metrics instead of attention, such as those of
            ``miv.inference.prediction.explain``.
        point: operating point of a calibrated verifier, to measure its verdicts too.
        withheld: ``(E,)``, which verdicts are unsure because the exemplar is unlike the training data, as from
            ``miv.inference.prediction.withheld``; ``None`` if the verifier has no limit for that.

    >>> answers = Predictions([2.0, -1.0], label=[1, 0], ptr=[0, 2, 4], group=["3", "7"])
    >>> evaluate(answers).metrics["accuracy"]
    1.0
    """
    p = predictions
    # By logit: logits above 37 all have probability 1 in float64 and would tie.
    classification = classification_metrics(p.label, p.logit, threshold=0.0)
    witnesses = entropy = groups = None
    if p.attention is not None:
        entropy = entropy_metrics(p.ptr, p.attention, p.label)
    ranked_by = p.attention if score is None else score
    if ranked_by is not None and p.witness is not None:
        witnesses = witness_metrics(p.ptr, p.witness, ranked_by, p.label, undefined)
    if p.group is not None:
        groups = group_table(p.label, p.logit, p.group, threshold=0.0)
    is_measured = point is not None and not (point.is_default and withheld is None)
    chosen = _at_operating_point(p, point, withheld) if point is not None and is_measured else None
    rankings = witness_rankings(p, undefined)
    return Evaluation(len(p), int(p.label.sum()), classification, witnesses, entropy, groups, chosen, rankings)


def _at_operating_point(p: Predictions, point: OperatingPoint, withheld: Mask | None) -> dict[str, Any]:
    probability = point.probability(p.logit)
    yes, no = point.verdict(probability), point.rejected(probability)
    if withheld is not None:
        yes, no = yes & ~withheld, no & ~withheld
    positives = int(p.label.sum())
    found = {
        "goal": point.goal,
        "threshold": point.threshold,
        "accuracy": float((yes == p.label).mean()),
        "false_accepts": int(yes[p.label == 0].sum()),
        "negatives": len(p) - positives,
        "false_rejects": int(no[p.label == 1].sum()),
        "positives": positives,
    }
    if withheld is not None:
        found["withheld"] = int(withheld.sum())
    if point.lower_threshold is not None or withheld is not None:
        decided = yes | no
        right = np.where(p.label == 1, yes, no)
        found |= {
            "lower_threshold": point.lower_threshold,
            "unsure": int((~decided).sum()),
            "unsure_positives": int((~decided)[p.label == 1].sum()),
            "accuracy_of_decided": float(right[decided].mean()) if decided.any() else math.nan,
        }
    checks = goal_checks(p, point, withheld=withheld)
    return found | {"goals": checks} if checks else found


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_nan(inner) for inner in value]
    return None if isinstance(value, float) and math.isnan(value) else value
