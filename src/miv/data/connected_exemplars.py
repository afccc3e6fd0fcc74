"""Which exemplars hang together, and must therefore stay in one split."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray


def connected(links: Sequence[Iterable[int]], nodes: int) -> NDArray[np.int64]:
    """Number the connected parts of a graph: ``links[e]`` are nodes that exemplar ``e`` ties together.

    The number of a part is its smallest node, in whatever order the links name them.

    >>> connected([[0, 1], [2, 3], [4, 1]], nodes=5).tolist()
    [0, 2, 0]
    """
    parent = list(range(nodes))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    firsts = []
    for link in links:
        first, *others = link
        firsts.append(first)
        for other in others:
            one, two = root(first), root(other)
            parent[max(one, two)] = min(one, two)
    return np.array([root(first) for first in firsts], dtype=np.int64)
