"""What the targets of a cell can score at most, from its centre and its radius, without a look at them."""

import numpy as np

from miv.io.checked_values import Floats
from miv.kept.cross_attention_queries import CrossAttentionQueries
from miv.kept.similarity_of_query import Rows, as_rows
from miv.streaming.key_cells import Cells

_SLACK = 1e-4  # relative; float32 sums are off by less


class CellBounds:
    r"""Bounds of the scores in each of ``n`` cells, separately for ``h`` heads.

    A key in a cell with the centre :math:`c` and the radius :math:`r` scores at most

    .. math:: s \le k - \max(0, \lVert q - c \rVert_w - r)^2, \qquad s \le q \cdot c + \lVert q \rVert \, r

    for distances :math:`s = k - \lVert q - z \rVert_w^2` and for products. The mean score of a cell is
    :math:`s(c) - \overline{\lVert z - c \rVert_w^2}` and :math:`s(c)`, so by Jensen's inequality the cell holds at
    least its size times the exponential of that.

    Args:
        rows: ``(N, K)``, all keys.
        cells: the cells.
        heads: ``h``.
        weight: ``(K,)``, weights of squared distances; ``None`` for products.
    """

    def __init__(self, rows: Rows, cells: Cells, heads: int, weight: Rows | None) -> None:
        count = len(cells.ptr) - 1
        self.radii: Floats = np.zeros((heads, count))
        self._spread: Floats = np.zeros((heads, count))
        self._longest: Floats = np.zeros(heads)
        self._log_sizes = np.log(np.diff(cells.ptr))
        self.weight = None if weight is None else weight.astype(np.float64)
        for cell in range(count):
            members = rows[cells.order[cells.ptr[cell] : cells.ptr[cell + 1]]]
            longest = np.linalg.norm(members.reshape(len(members), heads, -1), axis=2).max(axis=0)
            self._longest = np.maximum(self._longest, longest * (1 + _SLACK))
            gap = members - cells.centres[cell]
            squares = np.square(gap, dtype=np.float64) * (1.0 if self.weight is None else self.weight)
            distances = squares.reshape(len(gap), heads, -1).sum(axis=2)  # (n, h), squared
            self.radii[:, cell] = np.sqrt(distances.max(axis=0)) * (1 + _SLACK)
            self._spread[:, cell] = distances.mean(axis=0)

    def best(self, query: CrossAttentionQueries, centres: Floats) -> Floats:
        """The greatest possible score ``(h, n)`` in each cell, given the scores ``(h, n)`` of the centres."""
        heads = len(self.radii)
        if self.weight is None:
            length = np.linalg.norm(query.score_directions[0].astype(np.float64).reshape(heads, -1), axis=1)  # (h,)
            return np.asarray(centres + _SLACK * np.abs(centres) + length[:, None] * self.radii)
        peak = (self.weight * np.square(query.projected[0], dtype=np.float64)).reshape(heads, -1).sum(axis=1)[:, None]
        slack = _SLACK * (np.abs(centres) + peak)
        distance = np.sqrt(np.maximum(peak - centres - slack, 0))
        return np.asarray(peak - np.square(np.maximum(distance - self.radii, 0)))

    def greatest_values(self, query: CrossAttentionQueries) -> Floats:
        """A number ``(h,)`` that no value exceeds in size; a normed key of ``D`` channels is at most as long as √D."""
        heads, pre_norm = len(self.radii), query.pooling.pre_norm
        if pre_norm is None:
            directions = query.value_directions[0].astype(np.float64).reshape(heads, -1)
            return np.asarray(np.linalg.norm(directions, axis=1) * self._longest)
        scaled = (query.similarity.factors[0] * as_rows(pre_norm.weight)).astype(np.float64).reshape(heads, -1)
        centred = scaled - scaled.mean(axis=1, keepdims=True)
        return np.asarray(np.linalg.norm(centred, axis=1) * np.sqrt(query.size))

    def least_log_sums(self, centres: Floats) -> Floats:
        """A number ``(h,)`` below the logarithm of the sum of all exponentials of scores."""
        least = centres + self._log_sizes - (0 if self.weight is None else self._spread)
        top = least.max(axis=1)
        return np.asarray(top + np.log(np.exp(least - top[:, None]).sum(axis=1)))
