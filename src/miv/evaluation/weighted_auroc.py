"""AUROC with exemplar weights."""

import math

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from miv.evaluation.classification import auroc


def weighted_auroc(label: NDArray[np.int8], score: NDArray[np.float64], weight: NDArray[np.float64] | None) -> float:
    """The weighted share of pairs of a yes and a no in which the yes has the higher score; ties count half.

    Args:
        label: ``(E,)`` 0 or 1; the result is NaN if all are the same.
        score: ``(E,)``.
        weight: ``(E,)`` above 0; the weight of a pair is the product of its two weights. ``None`` is the plain AUROC.

    >>> weighted_auroc(np.array([1, 1, 0]), np.array([3.0, 1.0, 2.0]), np.array([3.0, 1.0, 5.0]))
    0.75
    """
    if weight is None:
        return auroc(label, score)
    if label.min() == label.max():
        return math.nan
    return float(roc_auc_score(label, score, sample_weight=weight))
