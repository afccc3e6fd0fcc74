"""Does the bag hold something of the query's class? AUROC, accuracy, macro precision, recall and F1."""

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from miv.errors import MIVError, unknown_name
from miv.evaluation.metric_checks import as_labels, as_scores

Undefined = Literal["nan", "error"]
ZeroDivision = Literal["zero", "one", "skip"]
_ZERO_DIVISION = {"zero": 0.0, "one": 1.0, "skip": np.nan}


def auroc(label: ArrayLike, score: ArrayLike, *, undefined: Undefined = "nan") -> float:
    """Area under the ROC curve: how often a positive scores above a negative; ties count half.

    Args:
        label: ``(E,)``, 0 or 1.
        score: ``(E,)``, a probability or a logit; only the order matters.
        undefined: what to do if all labels are the same: ``nan`` returns NaN, ``error`` raises an error.

    >>> auroc([1, 1, 0, 0], [0.9, 0.4, 0.4, 0.1])
    0.875
    """
    from sklearn.metrics import roc_auc_score

    if undefined not in ("nan", "error"):
        raise unknown_name("policy for undefined", undefined, ["nan", "error"])
    score = as_scores("score", score)
    label = as_labels(label, len(score))
    if len(label) == 0 or label.min() == label.max():
        if undefined == "error":
            raise MIVError(f"All {len(label)} labels are the same. AUROC needs both; use undefined='nan' for NaN.")
        return float("nan")
    return float(roc_auc_score(label, score))


def auroc_within_chance(label: ArrayLike) -> float:
    """The AUROC that random answers reach: 1/2 and two deviations, their variance being (n + 1) / (12 × yes × no).

    >>> round(auroc_within_chance([1] * 50 + [0] * 50), 2)
    0.62
    """
    label = as_labels(label)
    count, yes = len(label), int(label.sum())
    return 0.5 + 2 * math.sqrt((count + 1) / (12 * yes * (count - yes)))


def classification_metrics(
    label: ArrayLike,
    probability: ArrayLike,
    *,
    threshold: float = 0.5,
    undefined: Undefined = "nan",
    zero_division: ZeroDivision = "zero",
) -> dict[str, float]:
    """Return ``auroc``, ``accuracy``, and macro ``precision``, ``recall`` and ``f1``.

    Args:
        label: ``(E,)``, 0 or 1.
        probability: ``(E,)``, or logits with a threshold of 0.
        threshold: the answer is yes if the probability is at least this, as in an operating point.
        undefined: AUROC if all labels are the same: ``nan`` or ``error``.
        zero_division: precision of a class that is never predicted, and recall of a class that never occurs: ``zero``,
            ``one``, or ``skip`` to exclude the class from the mean. A class that neither occurs nor is predicted is
            always excluded, as in scikit-learn.

    >>> classification_metrics([1, 1, 0, 0], [0.9, 0.4, 0.4, 0.1])["accuracy"]
    0.75
    """
    from sklearn.metrics import precision_recall_fscore_support

    if zero_division not in _ZERO_DIVISION:
        raise unknown_name("policy for zero division", zero_division, _ZERO_DIVISION)
    score = as_scores("probability", probability)
    label = as_labels(label, len(score))
    if len(label) == 0:
        raise MIVError("There are no exemplars. Expected at least one.")
    answer = (score >= threshold).astype(np.int8)
    precision, recall, f1, _ = precision_recall_fscore_support(
        label, answer, average="macro", zero_division=_ZERO_DIVISION[zero_division]
    )
    return {
        "auroc": auroc(label, score, undefined=undefined),
        "accuracy": float((answer == label).mean()),
        "precision": float(precision),
        "recall": float(recall),
        "f1": float(f1),
    }
