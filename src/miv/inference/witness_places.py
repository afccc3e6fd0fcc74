"""Where the witnesses of exemplars are in their bags, in the order in which they are named."""

from itertools import pairwise

import numpy as np

from miv.data import csr
from miv.files.json import Floats, Integers, Mask


def witness_places(witness: Mask | None, shares: Floats | None, ptr: Integers) -> list[list[int]]:
    """For each exemplar the places of its witnesses in the bag, largest share first, then the first in the bag.

    Args:
        witness: ``(T,)``, which instances are witnesses; ``None`` if there are none.
        shares: ``(T,)``, their shares.
        ptr: ``(E + 1,)``, the borders between the bags, from 0.

    >>> shares = np.array([0.2, 0.8, 0.3, 0.4, 0.3])
    >>> witness_places(np.array([True, True, True, False, True]), shares, csr.borders([2, 0, 3]))
    [[1, 0], [], [0, 2]]
    """
    if witness is None or shares is None:
        return [[] for _ in range(len(ptr) - 1)]
    rows = witness.nonzero()[0]
    owners = csr.owners(ptr)[rows]
    order = np.lexsort((-shares[rows], owners))  # by exemplar, which leaves the owners as they are, then by share
    places, borders = (rows[order] - ptr[owners]).tolist(), csr.borders(csr.bag_sums(witness, ptr))
    return [places[first:last] for first, last in pairwise(borders.tolist())]
