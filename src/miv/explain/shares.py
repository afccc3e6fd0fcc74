"""Shares: how the instances of a bag divide its verdict among them. The rules that name witnesses work on these."""

import numpy as np
import torch
from numpy.typing import NDArray

from miv.data import csr
from miv.decisions.witness_rules import WitnessesBy
from miv.io.checked_values import Floats

# A fall of the logit that is less than so many roundings, relative to the logit where that is above 1, is none.
_ROUNDINGS = 16


def as_shares(
    scores: Floats, method: WitnessesBy, logit: Floats, ptr: NDArray[np.int64], dtype: torch.dtype = torch.float32
) -> Floats:
    r"""Turn the scores ``(T,)`` of ``explain_features`` into shares, which are not negative and sum to 1 in each bag.

    Attention and rollout are shares already. Scores :math:`\phi_n` in units of the logit become

    .. math:: a_n = \max(\phi_n, 0) \Big/ \sum_m \max(\phi_m, 0)

    and :math:`1 / N` each where none is positive. Those of ``alone``, logits :math:`z_n`, become

    .. math:: a_n = \sigma(z_n) \Big/ \sum_m \sigma(z_m)

    so that two instances that each suffice have as much, and a bag in which none does is still told apart.

    Args:
        scores: of the instances.
        method: that gave them.
        logit: ``(E,)`` of the bags.
        ptr: ``(E + 1,)``, the borders between the bags.
        dtype: the verifier computed in this, so that a score which is nothing but rounding counts as 0.

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
