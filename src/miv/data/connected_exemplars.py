"""Find exemplars that must stay together when a set is divided."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from miv.data import csr
from miv.data.exemplar_set import ExemplarSet
from miv.io.checked_values import Integers


def kept_together(exemplars: ExemplarSet) -> Integers:
    """``(E,)`` the unit, from 0, that no division of a set for training divides.

    It is the class of the query if classes are known, else the query id if there are ids, else the query: exemplars
    that share a reference, directly or through others, have the same query.
    """
    return units_of_queries(exemplars)[0]


def units_of_queries(exemplars: ExemplarSet) -> list[Integers]:
    """What ``kept_together`` chooses from, each ``(E,)``: by class and by query id, if known, and by query."""
    keys: list[ArrayLike] = []
    if exemplars.pool.classes is not None:
        keys.append(exemplars.pool.classes[exemplars.query].astype(str))
    if exemplars.query_id is not None:
        keys.append(exemplars.query_id.astype(str))
    linked = _connected(*exemplars.all_references, len(exemplars.pool)) if exemplars.has_references else exemplars.query
    return [np.unique(key, return_inverse=True)[1] for key in (*keys, linked)]


def connected(links: Sequence[Iterable[int]], nodes: int) -> Integers:
    """Number the connected parts of a graph: exemplar ``e`` connects the nodes ``links[e]``.

    The number of a part is its smallest node, whatever the order of the links.

    >>> connected([[0, 1], [2, 3], [4, 1]], nodes=5).tolist()
    [0, 2, 0]
    """
    tied = [list(link) for link in links]
    ptr = csr.borders([len(link) for link in tied])
    return _connected(ptr, np.array([one for link in tied for one in link], np.int64), nodes)


def _connected(ptr: Integers, node: Integers, nodes: int) -> Integers:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    first = node[ptr[:-1]]  # first node of each link; the others connect to it
    graph = csr_array((np.ones(len(node), bool), (csr.to_rows(first, ptr), node)), shape=(nodes, nodes))
    _, part = connected_components(graph, directed=False)
    _, smallest = np.unique(part, return_index=True)  # the parts are numbered from 0
    return np.asarray(smallest[part[first]], np.int64)
