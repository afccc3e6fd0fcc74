"""Entropy of attention compared with log N, the entropy of even attention (the paper's Section 3.4)."""

import numpy as np
from numpy.typing import ArrayLike

from miv.data import csr
from miv.errors import MIVError
from miv.evaluation.metric_checks import as_borders, as_labels, as_scores
from miv.io.checked_values import Floats


def attention_entropy(ptr: ArrayLike, attention: ArrayLike) -> Floats:
    r"""Return the entropy of each bag's attention, in nats: ``(E + 1,)`` and ``(T,)`` to ``(E,)``.

    .. math:: H = - \sum_n a_n \ln a_n, \qquad 0 \le H \le \ln N

    0 means that one instance has all the attention, :math:`\ln N` that all ``N`` have the same.

    >>> attention_entropy([0, 1, 3], [1.0, 0.5, 0.5]).round(3).tolist()
    [0.0, 0.693]
    """
    ptr = as_borders(ptr)
    weight = as_scores("attention", attention, int(ptr[-1]))
    if (weight < 0).any():
        first = int((weight < 0).argmax())
        raise MIVError(f"attention[{first}] is {weight[first]:g}. Expected no number below 0.")
    totals = csr.bag_sums(weight, ptr)
    if (totals == 0).any():
        raise MIVError(f"The attention of exemplar {int((totals == 0).argmax())} is 0 everywhere. Expected a sum of 1.")
    weight = weight / csr.to_rows(totals, ptr)  # removes rounding errors, so that a bag sums to 1
    logarithm = np.log(weight, out=np.zeros_like(weight), where=weight > 0)  # 0 log 0 is 0
    return np.maximum(-csr.bag_sums(weight * logarithm, ptr), 0.0)


def entropy_metrics(ptr: ArrayLike, attention: ArrayLike, label: ArrayLike) -> dict[str, dict[str, float]]:
    """Return the means over ``all``, ``positive`` and ``negative`` exemplars.

    Each has ``entropy``; ``log_n``, the entropy of even attention; ``evenness``, the mean of their quotient, from 0
    (one instance has it all) to 1 (all the same); and ``exemplars``. Bags of one are excluded; the means are NaN if no
    exemplar is left.

    >>> entropy_metrics([0, 2, 4], [1.0, 0.0, 0.5, 0.5], label=[1, 0])["positive"]["evenness"]
    0.0
    """
    entropy = attention_entropy(ptr, attention)
    sizes = np.diff(as_borders(ptr))
    label = as_labels(label, len(entropy))
    several = sizes > 1
    even = np.log(sizes)
    means = {}
    for name, chosen in (("all", several), ("positive", several & (label == 1)), ("negative", several & (label == 0))):
        share = entropy[chosen] / even[chosen]
        columns = {"entropy": entropy[chosen], "log_n": even[chosen], "evenness": share}
        means[name] = {key: float(values.mean()) if len(values) else float("nan") for key, values in columns.items()}
        means[name]["exemplars"] = int(chosen.sum())
    return means
