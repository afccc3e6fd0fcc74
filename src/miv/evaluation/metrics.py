"""Metrics of bags: AUROC (also weighted, and its error), accuracy, precision, recall, F1, groups."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import precision_recall_fscore_support, roc_auc_score

from miv.data import columns
from miv.data.columns import as_column, as_strings
from miv.errors import MIVError
from miv.files.arrays import Floats

# Checks of metric inputs, which may be lists.


def as_scores(name: str, values: ArrayLike, length: int | None = None) -> Floats:
    """Return finite numbers as float64, in which every float32 keeps its exact value."""
    array = as_column(name, _array(values, np.float64), "iubf", "numbers", length)
    bad = ~np.isfinite(array)
    if bad.any():
        first = int(bad.argmax())
        raise MIVError(f"{name}[{first}] is {array[first]}. Expected finite numbers; did the model diverge?")
    return array.astype(np.float64, copy=False)


def as_labels(values: ArrayLike, length: int | None = None) -> NDArray[np.int8]:
    """Return labels 0 and 1, of any kind of number, as int8."""
    return columns.as_labels(_array(values, np.int8), length)


def as_witnesses(values: ArrayLike, length: int) -> NDArray[np.bool_]:
    """Return one bool per bag member."""
    return as_column("witness", _array(values, np.bool_), "b", "True and False", length)


def as_borders(values: ArrayLike, exemplars: int | None = None) -> NDArray[np.int64]:
    """Return borders ``(E + 1,)`` that start at 0 and increase, so that no bag is empty."""
    ptr = columns.as_integers("ptr", _array(values, np.int64), None if exemplars is None else exemplars + 1)
    if len(ptr) == 0:
        raise MIVError("ptr is empty. Expected 0, the border before the first bag, and one border per bag.")
    columns.check_borders(ptr, int(ptr[-1]))
    return ptr


def _array(values: ArrayLike, of_empty: Any) -> NDArray[Any]:
    """An array; an empty list fits every kind."""
    array = np.asarray(values)
    return array.astype(of_empty) if array.ndim == 1 and array.size == 0 else array


def auroc(label: ArrayLike, score: ArrayLike) -> float:
    """Area under the ROC curve: how often a positive scores above a negative; ties count half.

    ``label`` and ``score`` are ``(E,)``. If all labels are the same, the result is NaN.

    >>> auroc([1, 1, 0, 0], [0.9, 0.4, 0.4, 0.1])
    0.875
    """
    score = as_scores("score", score)
    label = as_labels(label, len(score))
    return weighted_auroc(label, score, None)


def auroc_within_chance(label: ArrayLike) -> float:
    """The AUROC that random answers reach: 1/2 and two deviations, their variance being (n + 1) / (12 × yes × no).

    >>> round(auroc_within_chance([1] * 50 + [0] * 50), 2)
    0.62
    """
    label = as_labels(label)
    count, yes = len(label), int(label.sum())
    return 0.5 + 2 * math.sqrt((count + 1) / (12 * yes * (count - yes)))


def classification_metrics(label: ArrayLike, probability: ArrayLike, *, threshold: float = 0.5) -> dict[str, float]:
    """Return ``auroc``, ``accuracy``, and macro ``precision``, ``recall`` and ``f1``.

    ``label`` and ``probability`` are ``(E,)``. The answer is yes at ``threshold`` or above; for logits use 0. Precision
    of a class that is never predicted is 0, and so is recall of a class that never occurs.

    >>> classification_metrics([1, 1, 0, 0], [0.9, 0.4, 0.4, 0.1])["accuracy"]
    0.75
    """
    score = as_scores("probability", probability)
    label = as_labels(label, len(score))
    if len(label) == 0:
        raise MIVError("There are no exemplars. Expected at least one.")
    answer = (score >= threshold).astype(np.int8)
    precision, recall, f1, _ = precision_recall_fscore_support(label, answer, average="macro", zero_division=0.0)
    return {
        "auroc": auroc(label, score),
        "accuracy": float((answer == label).mean()),
        "precision": float(precision),
        "recall": float(recall),
        "f1": float(f1),
    }


# AUROC with exemplar weights.


def weighted_auroc(label: NDArray[np.int8], score: NDArray[np.float64], weight: NDArray[np.float64] | None) -> float:
    """The weighted share of pairs of a yes and a no in which the yes has the higher score; ties count half.

    The weight of a pair is the product of its two weights ``(E,)``; ``None`` is the plain AUROC. The result is NaN if
    all labels are the same.

    >>> weighted_auroc(np.array([1, 1, 0]), np.array([3.0, 1.0, 2.0]), np.array([3.0, 1.0, 5.0]))
    0.75
    """
    if len(label) == 0 or label.min() == label.max():
        return math.nan
    return float(roc_auc_score(label, score, sample_weight=weight))


def auroc_error(label: NDArray[np.int8], score: Floats, other: Floats) -> float:
    """The standard error of the difference between the AUROC of two scores ``(E,)`` of the same exemplars."""
    if label.min() == label.max():
        return math.nan  # there is no AUROC
    return float(np.linalg.norm(auroc_influence(label, score) - auroc_influence(label, other)))


def auroc_influence(label: NDArray[np.int8], score: Floats) -> Floats:
    """DeLong's structural components ``(E,)`` by ranks (Sun and Xu 2014), centred and scaled; see ``influence``."""
    from scipy.stats import rankdata  # takes a second to import

    positive, negative = score[label == 1], score[label == 0]
    together = rankdata(np.concatenate([positive, negative]))  # ties share their ranks
    # Of each positive the share of negatives below it, of each negative the share of positives above it.
    below = (together[: len(positive)] - rankdata(positive)) / len(negative)
    above = 1 - (together[len(positive) :] - rankdata(negative)) / len(positive)
    components = np.zeros(len(score))
    components[label == 1] = centred(below)
    components[label == 0] = centred(above)
    return components


def centred(values: Floats) -> Floats:
    """``(v - mean) / n``, scaled so that the squares add up to the variance of the mean without bias."""
    count = len(values)
    if count < 2:
        return np.full(count, np.nan)  # one exemplar says nothing of how exemplars vary
    return (values - values.mean()) / np.sqrt(count * (count - 1))


# Right and wrong answers by group, such as the digit.


def group_table(
    label: ArrayLike, probability: ArrayLike, group: ArrayLike, *, threshold: float = 0.5
) -> list[dict[str, Any]]:
    """True and false positives and negatives by group: ``label``, ``probability`` and ``group`` (strings) are ``(E,)``.

    Groups are sorted, numbers by value. The answer is yes at ``threshold`` or above; for logits use 0.

    >>> [row["accuracy"] for row in group_table([1, 0, 0], [0.9, 0.2, 0.7], ["3", "3", "7"])]
    [1.0, 0.0]
    """
    score = as_scores("probability", probability)
    label = as_labels(label, len(score))
    names, code = np.unique(as_strings("group", np.asarray(group), len(score)), return_inverse=True)
    kind = 2 * label + (score >= threshold)  # 0 TN, 1 FP, 2 FN, 3 TP
    counts = np.bincount(4 * code + kind, minlength=4 * len(names)).reshape(-1, 4).tolist()
    rows = [
        {"group": str(name), "tp": tp, "tn": tn, "fp": fp, "fn": fn, "exemplars": (of := tp + tn + fp + fn)}
        | {"accuracy": (tp + tn) / of}
        for name, (tn, fp, fn, tp) in zip(names, counts, strict=True)
    ]
    return sorted(rows, key=lambda row: _natural(row["group"]))


def _natural(name: str) -> tuple[bool, int, str]:
    is_number = name.isascii() and name.isdigit() and len(name) < 20
    return not is_number, int(name) if is_number else 0, name


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction: the chance that any of the comparisons is called real by accident stays below the level.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p_values, np.float64)
    order = np.argsort(values)  # NaN is last, and stays NaN
    steps = np.maximum((~np.isnan(values)).sum() - np.arange(len(values)), 1)
    corrected = np.empty(len(values))
    corrected[order] = np.minimum(np.maximum.accumulate(steps * values[order]), 1)
    return corrected.tolist()
