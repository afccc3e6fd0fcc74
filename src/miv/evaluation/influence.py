r"""The influence of each exemplar on a metric, for the standard errors of figures, differences and gaps.

For a metric :math:`m` of ``E`` exemplars the influence :math:`\psi` is ``(E,)``, of sum near 0, with

.. math:: SE(m)^2 = \sum_i \psi_i^2, \qquad SE(m - m')^2 = \sum_i (\psi_i - \psi'_i)^2

where :math:`m'` is measured on the same exemplars: the test is paired. For AUROC this is DeLong's variance (DeLong et
al. 1988), for means the usual one, for figures of the confusion table the jackknife's.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from miv.errors import MIVError
from miv.evaluation.predictions import Predictions
from miv.evaluation.witnesses import RANKED_METRICS, rank_instances, witness_scores
from miv.files.json import Floats


def influence(predictions: Predictions, metric: str) -> Floats:
    """The influence ``(E,)`` of each exemplar on a metric, by the metric's name."""
    if metric == "auroc":
        return _auroc(predictions.label, predictions.logit)
    if metric in RANKED_METRICS:
        by, name = RANKED_METRICS[metric]
        ranked = rank_instances(predictions, by)
        if ranked is None or predictions.witness is None:
            needed = "attention" if by == "one_hot" else by
            raise MIVError(f"{metric} needs {needed} and witnesses, which these predictions lack.")
        scores = witness_scores(predictions.ptr, predictions.witness, ranked)
        return _mean(getattr(scores, name), (predictions.label == 1) & scores.defined)
    return _confusion(predictions.label, predictions.yes, metric)


def auroc_error(label: NDArray[np.int8], score: Floats, other: Floats) -> float:
    """The standard error of the difference between the AUROC of two scores ``(E,)`` of the same exemplars."""
    if label.min() == label.max():
        return float("nan")  # there is no AUROC
    return float(np.linalg.norm(_auroc(label, score) - _auroc(label, other)))


def _auroc(label: NDArray[np.int8], score: Floats) -> Floats:
    """DeLong's structural components by ranks (Sun and Xu 2014), centred and scaled."""
    positive, negative = score[label == 1], score[label == 0]
    together = rankdata(np.concatenate([positive, negative]))  # ties share their ranks
    # Of each positive the share of negatives below it, of each negative the share of positives above it.
    below = (together[: len(positive)] - rankdata(positive)) / len(negative)
    above = 1 - (together[len(positive) :] - rankdata(negative)) / len(positive)
    found = np.zeros(len(score))
    found[label == 1] = _centred(below)
    found[label == 0] = _centred(above)
    return found


def _mean(values: Floats, counted: NDArray[np.bool_]) -> Floats:
    found = np.zeros(len(values))
    found[counted] = _centred(values[counted])
    return found


def _centred(values: Floats) -> Floats:
    """``(v - mean) / n``, scaled so that the squares add up to the variance of the mean without bias."""
    count = len(values)
    if count < 2:
        return np.full(count, np.nan)  # one exemplar says nothing of how exemplars vary
    return (values - values.mean()) / np.sqrt(count * (count - 1))


def _confusion(label: NDArray[np.int8], answer: NDArray[np.bool_], metric: str) -> Floats:
    """The jackknife: the effect of leaving out an exemplar depends only on which of four kinds it is."""
    kind = 2 * label.astype(np.int64) + answer  # 0 TN, 1 FP, 2 FN, 3 TP
    counts = np.bincount(kind, minlength=4)
    without = np.array([_figure(counts - np.eye(4, dtype=np.int64)[one], metric) for one in range(4)])
    left_out = without[kind]  # (E,)
    return -(left_out - left_out.mean()) * np.sqrt((len(kind) - 1) / len(kind))


def _figure(counts: NDArray[np.int64], metric: str) -> float:
    """Accuracy, or the mean over both labels of precision, recall or F1; 0 where nothing is divided by nothing."""
    tn, fp, fn, tp = (float(count) for count in np.maximum(counts, 0))
    if metric == "accuracy":
        return _share(tp + tn, tn + fp + fn + tp)
    parts = {
        "precision": (_share(tp, tp + fp), _share(tn, tn + fn)),
        "recall": (_share(tp, tp + fn), _share(tn, tn + fp)),
        "f1": (_share(2 * tp, 2 * tp + fp + fn), _share(2 * tn, 2 * tn + fn + fp)),
    }
    if metric not in parts:
        raise MIVError(f"There is no standard error of {metric!r}.")
    return sum(parts[metric]) / 2


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
