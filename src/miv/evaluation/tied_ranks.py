"""What a random order of instances gives in the mean: the rank of the first witness, and average precision."""

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


def expected_average_precision(sizes: Integers, witnesses: Integers) -> Floats:
    r"""Return ``(E,)``, the mean of average precision over all orders of a bag.

    With :math:`N` instances, :math:`k` witnesses and :math:`H_N = \sum_{j=1}^N 1 / j`, place :math:`j` has a witness
    with probability :math:`k / N`, and each of the :math:`j - 1` before it is then one with :math:`(k - 1) / (N - 1)`:

    .. math:: \frac{1}{N} \Big( H_N + \frac{k - 1}{N - 1} (N - H_N) \Big)

    It is more than the share :math:`k / N`, which all instances tied would get.

    >>> expected_average_precision(np.array([2, 2, 3]), np.array([1, 2, 1])).round(4).tolist()
    [0.75, 1.0, 0.6111]
    """
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, sizes.max(initial=1) + 1))])[sizes]  # (E,) H_N
    others = (witnesses - 1) / np.maximum(sizes - 1, 1)
    return np.asarray((harmonic + others * (sizes - harmonic)) / sizes)
