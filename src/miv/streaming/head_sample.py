"""Which targets of one head are read for a query, and what they say about all of them."""

import numpy as np

from miv.io.checked_values import Floats, Integers
from miv.streaming.head_cells import HeadCells
from miv.streaming.head_query import ComparedKeys, HeadQuery

_ROUNDS = 4
_NEAREST = 0.25  # of the budget, for the cells with the largest shares, where the leading targets are
_LEAST = 2  # read of every cell, so that the variance in it can be estimated
_WIDEST = 3.0  # variance of the scores in a cell that is believed
_NEGLIGIBLE = 1e-9


class HeadCentres:
    """A first guess at attention, from the centres of the ``n`` cells of one head.

    Args:
        cells: the cells.
        query: the query in this head.
    """

    def __init__(self, cells: HeadCells, query: HeadQuery) -> None:
        self.cells, self.query = cells, query
        self.compared = ComparedKeys(query, cells.centres)
        variance = (np.square(query.slopes(cells.centres)) * cells.variances) @ np.ones(query.channels, np.float32)
        self._variance = np.minimum(variance, _WIDEST)  # of the scores in each cell
        self._guess = guess = self.compared.scores - (cells.spread if query.power == 2 else 0) + self._variance / 2
        self._weights = np.exp(guess - guess.max())
        weights = self._weights * cells.sizes
        self.mean: Floats = self.compared.sum(weights / weights.sum())  # (D,)

    def counts(self, slope: Floats, budget: int) -> Integers:
        """How many targets to read of each cell, ``(n,)``, about ``budget`` in all.

        A quarter goes to the nearest cells, the rest to where it makes the error least (Neyman 1934).

        Args:
            slope: ``(D,)``, how the logit changes with the mean.
            budget: number of targets.
        """
        sizes = self.cells.sizes
        values = self.compared.values(slope) - float(self.mean @ slope)
        moved = np.square(values) * np.expm1(self._variance) + np.var(values)
        nearest = np.argsort(-self._guess)
        before = np.cumsum(sizes[nearest]) - sizes[nearest]
        least = np.minimum(sizes, _LEAST)
        least[nearest] = np.maximum(least[nearest], np.clip(int(_NEAREST * budget) - before, 0, sizes[nearest]))
        return _allocated(sizes * (self._weights * np.sqrt(moved) + _NEGLIGIBLE), sizes, least, budget)


def _allocated(priority: Floats, sizes: Integers, least: Integers, budget: int) -> Integers:
    """Shares of the budget by priority ``(n,)``, from ``least`` to all of each cell."""
    counts, full = least, np.zeros(len(sizes), bool)
    for _ in range(_ROUNDS):
        left = budget - sizes[full].sum() - least[~full].sum()
        if left <= 0:
            break
        wanted = least + priority * (left / priority[~full].sum())
        new = ~full & (wanted >= sizes)
        counts = np.where(full | new, sizes, wanted.astype(np.int64))
        if not new.any():
            break
        full |= new
        if full.all():
            break
    return np.asarray(counts)


class HeadSample:
    r"""What the targets that are read say about one head.

    With :math:`N_k` targets in cell :math:`k`, of which :math:`n_k` are read, a read one stands for
    :math:`f_k = N_k / n_k`. The attention :math:`a` and the mean are

    .. math:: \hat Z = \sum_k f_k \sum_i e^{s_{ki}}, \qquad
        \hat m = \frac{1}{\hat Z} \sum_k f_k \sum_i e^{s_{ki}} x_{ki}

    Args:
        centres: the first guess.
        counts: ``(n,)``, how many targets of each cell to read, from its first on.
    """

    def __init__(self, centres: HeadCentres, counts: Integers) -> None:
        self.cells, self.query, self.counts = centres.cells, centres.query, counts
        self.at, self._first = self.cells.first_members(counts)
        self.compared = ComparedKeys(self.query, self.cells.rows(self.at))
        self.top = float(self.compared.scores.max())
        self.weights: Floats = np.exp(self.compared.scores - np.float32(self.top)).astype(np.float64)  # (r,)
        stand_for = np.repeat(self.cells.sizes / counts, counts) * self.weights
        self.total = float(stand_for.sum())  # Z, relative to the greatest weight
        self.mean: Floats = self.compared.sum(stand_for / self.total)  # (D,)

    @property
    def log_sum(self) -> float:
        """The logarithm of the sum of all exponentials of scores, as estimated."""
        return self.top + float(np.log(self.total))

    def read(self) -> tuple[Floats, Floats]:
        """What was read of each cell: the sums ``(n,)`` of weights, and the sum ``(D,)`` of weighted vectors."""
        return np.add.reduceat(self.weights, self._first), self.compared.sum(self.weights)

    def variance(self, slope: Floats) -> float:
        r"""The variance of :math:`slope \cdot \hat m` by the differences within cells (Cochran 1977, section 6.11).

        .. math:: \sum_k N_k^2 \Big(1 - \frac{n_k}{N_k}\Big) \frac{S_k^2}{n_k}, \qquad
            u_{ki} = \frac{e^{s_{ki}}}{\hat Z} \, slope \cdot (x_{ki} - \hat m)
        """
        values = self.compared.values(slope) - float(self.mean @ slope)
        moved = self.weights * values / self.total
        sums, squares = (np.add.reduceat(part, self._first) for part in (moved, np.square(moved)))
        sizes, counts = self.cells.sizes, self.counts
        within = np.maximum(squares - np.square(sums) / counts, 0) / np.maximum(counts - 1, 1)
        return float((sizes * (sizes - counts) * within / counts).sum())
