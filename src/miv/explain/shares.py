"""Shares: how the verdict of a bag is divided among its instances. Witness rules use them."""

import numpy as np
import torch
from numpy.typing import NDArray

from miv.data import csr
from miv.decisions.witness_rules import WitnessesBy
from miv.io.checked_values import Floats

# A drop of the logit below this many rounding errors counts as 0, relative to the logit if that is above 1.
_ROUNDINGS = 16


def as_shares(
    scores: Floats, method: WitnessesBy, logit: Floats, ptr: NDArray[np.int64], dtype: torch.dtype = torch.float32
) -> Floats:
    r"""Convert scores ``(T,)`` of ``explain_features`` to shares, which are not negative and sum to 1 in each bag.

    Attention and rollout are already shares. Scores :math:`\phi_n` in units of the logit become

    .. math:: a_n = \max(\phi_n, 0) \Big/ \sum_m \max(\phi_m, 0)

    and :math:`1 / N` each if none is positive. Scores of ``alone``, which are logits :math:`z_n`, become

    .. math:: a_n = \sigma(z_n) \Big/ \sum_m \sigma(z_m)

    so two instances that each suffice get equal shares, and instances still differ if none suffices.

    Args:
        scores: scores of the instances.
        method: the method that computed them.
        logit: ``(E,)`` of the bags.
        ptr: ``(E + 1,)``, the borders between the bags.
        dtype: dtype of the verifier, so that a score within rounding error counts as 0.

    >>> as_shares(np.array([3.0, -1.0, 1.0, -2.0, 0.0]), "leave_one_out", np.zeros(2), np.array([0, 3, 5])).tolist()
    [0.75, 0.0, 0.25, 0.5, 0.5]
    """
    if method in ("attention", "rollout"):
        return scores
    if method == "alone":
        from scipy.special import expit

        positive = expit(scores)
    else:
        rounding = _ROUNDINGS * torch.finfo(dtype).eps * np.maximum(1.0, np.abs(logit))  # (E,)
        positive = np.where(scores > csr.to_rows(rounding, ptr), scores, 0.0)
    total = csr.to_rows(csr.bag_sums(positive, ptr), ptr)  # (T,) of the bag of each instance
    even = 1 / csr.to_rows(np.diff(ptr), ptr)
    return np.divide(positive, total, out=even, where=total > 0)
