"""The expected rank of the first witness with tied scores, over all orders of the tied instances."""

import numpy as np

from miv.io.checked_values import Floats, Integers


def expected_reciprocal_rank(before: Integers, tied: Integers, witnesses: Integers) -> Floats:
    r"""Return ``(E,)``, the mean of 1 / rank of the first witness when tied instances are in random order.

    Of a bag, ``before`` :math:`b` instances without a witness come first, then :math:`m` ``tied`` ones of which
    :math:`k \ge 1` are ``witnesses``, all three ``(E,)``. With :math:`h_j = k / (m - j + 1)`, the probability that the
    :math:`j`-th of them is a witness where none before it was:

    .. math:: \sum_{j=1}^{m-k+1} \frac{h_j}{b + j} \prod_{i < j} (1 - h_i)

    >>> expected_reciprocal_rank(np.array([0, 1]), np.array([2, 1]), np.array([1, 1])).tolist()
    [0.75, 0.5]
    """
    found = np.zeros(len(before))
    left = np.arange(len(before))  # bags that may have no witness so far
    none_yet = np.ones(len(before))  # the probability of that
    place = 1
    while len(left):
        hit = witnesses[left] / (tied[left] - place + 1)
        found[left] += none_yet * hit / (before[left] + place)
        open_still = hit < 1
        none_yet, left = (none_yet * (1 - hit))[open_still], left[open_still]
        place += 1
    return found
