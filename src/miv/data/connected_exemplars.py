"""Find connected exemplars, which must stay in one split."""

from collections.abc import Iterable, Sequence

import numpy as np

from miv.data import csr
from miv.io.checked_values import Integers


def connected(links: Sequence[Iterable[int]], nodes: int) -> Integers:
    """Number the connected parts of a graph: exemplar ``e`` connects the nodes ``links[e]``.

    The number of a part is its smallest node, whatever the order of the links.

    >>> connected([[0, 1], [2, 3], [4, 1]], nodes=5).tolist()
    [0, 2, 0]
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    tied = [list(link) for link in links]
    ptr = csr.borders([len(link) for link in tied])
    node = np.array([one for link in tied for one in link], np.int64)
    first = node[ptr[:-1]]  # first node of each link; the others connect to it
    graph = csr_array((np.ones(len(node), bool), (csr.to_rows(first, ptr), node)), shape=(nodes, nodes))
    _, part = connected_components(graph, directed=False)
    _, smallest = np.unique(part, return_index=True)  # the parts are numbered from 0
    return np.asarray(smallest[part[first]], np.int64)
