"""Bags of one digit by several writers, all drawn with arrays.

A *cell* is one writer's instances of one digit. Some of each cell are held out as queries and leave the pool, so
a query is never in a bag. Each query then gets bags to which a few writers lend some instances of its digit:
with its own writer among them the exemplar is positive, without it is negative.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from miv.data import ExemplarSet, InstancePool, csr
from miv.errors import MIVError
from miv.files.arrays import Integers

Draw = Literal["geometric", "uniform"]

GEOMETRIC_P = 0.565
"""With it, and at most 5 a writer, QMNIST's bags have the paper's mean of 6.9 and variance of 6.4."""

_NOBODY = -1
_PAIRS_A_CHUNK = 1 << 18


@dataclass(frozen=True)
class Recipe:
    """How exemplars are made."""

    queries: int  # per cell
    fewest: int  # writers per bag
    most: int
    lent: int  # instances per writer at most
    draw: Draw  # of the instances per writer: from 1 to the maximum, or truncated geometric


@dataclass(frozen=True, eq=False)
class Stock:
    """The ``G`` cells once the ``Q`` queries are held out."""

    query: Integers  # (Q,)
    query_cell: Integers  # (Q,)
    digit: Integers  # (G,)
    start: Integers  # (G,) where the rest of a cell begins in `instances`
    left: Integers  # (G,) how many they are
    instances: Integers  # what can be lent, cell by cell
    more_ptr: Integers  # (G + 1,) borders between the further references of the cells
    more: Integers  # further references, cell by cell; never lent

    def references_of(self, query: Integers) -> tuple[Integers, Integers]:
        """Return borders ``(E + 1,)`` and references of exemplars with these queries ``(E,)``, each query first."""
        order = np.argsort(self.query)
        cell = self.query_cell[order[np.searchsorted(self.query, query, sorter=order)]]
        ptr, rows = csr.take_bags(self.more_ptr, cell)
        return ptr + np.arange(len(ptr)), np.insert(self.more[rows], ptr[:-1], query)


@dataclass(frozen=True, eq=False)
class ExemplarPlan:
    """Exemplars with the number of instances per lender, before the instances are drawn."""

    query: Integers  # (E,)
    label: NDArray[np.int8]  # (E,) 1 if the query's writer is a lender
    lender: Integers  # (E, L) cells; -1 if a bag has fewer than L
    lends: Integers  # (E, L) how many instances each lends; 0 without a lender

    def __len__(self) -> int:
        return len(self.query)

    @property
    def bag_sizes(self) -> Integers:
        """``(E,)`` the size of each bag."""
        return np.asarray(self.lends.sum(axis=1))

    def take(self, rows: Integers) -> "ExemplarPlan":
        """The exemplars at these rows, in this order."""
        return ExemplarPlan(self.query[rows], self.label[rows], self.lender[rows], self.lends[rows])


def hold_out(rng: np.random.Generator, writer: Integers, digit: Integers, queries: int, references: int = 1) -> Stock:
    """Hold out ``queries`` random instances of every cell, or all of a smaller cell, and more for its references."""
    cells, cell = np.unique(writer * 10 + digit, return_inverse=True)
    shuffled = rng.permutation(len(cell))
    in_cells = shuffled[np.argsort(cell[shuffled], kind="stable")]
    size = np.bincount(cell)
    rank = csr.places(csr.borders(size))  # place within the cell
    left = np.maximum(size - queries, 0)
    query = in_cells[rank < queries]
    more = np.clip(left - 1, 0, references - 1)
    left = left - more
    is_more = (rank >= queries) & (rank < queries + np.repeat(more, size))
    lent = in_cells[(rank >= queries) & ~is_more]
    further = csr.borders(more), in_cells[is_more]
    return Stock(query, cell[query], cells % 10, csr.borders(left)[:-1], left, lent, *further)


def plan_exemplars(rng: np.random.Generator, stock: Stock, recipe: Recipe) -> ExemplarPlan:
    """Plan a negative exemplar for every query, and a positive one if its writer has instances left."""
    plans = []
    for digit in np.unique(stock.digit):
        rows = np.flatnonzero(stock.digit[stock.query_cell] == digit)
        lenders = np.flatnonzero((stock.digit == digit) & (stock.left > 0))
        if len(lenders) <= recipe.most:
            raise MIVError(
                f"Digit {digit}: {len(lenders)} writers have more than the {recipe.queries} held "
                f"out as queries, but a bag may need {recipe.most} besides the query's own writer."
            )
        matched = rows[stock.left[stock.query_cell[rows]] > 0]
        plans.append(_plan(rng, stock, recipe, matched, lenders, positive=True))
        plans.append(_plan(rng, stock, recipe, rows, lenders, positive=False))
    columns: list[Any] = [np.concatenate(parts) for parts in zip(*(vars(plan).values() for plan in plans), strict=True)]
    return ExemplarPlan(*columns)


def _plan(
    rng: np.random.Generator, stock: Stock, recipe: Recipe, rows: Integers, lenders: Integers, *, positive: bool
) -> ExemplarPlan:
    """Plan one exemplar for each of the queries at ``rows``, all of one digit."""
    own = stock.query_cell[rows]
    most = recipe.most - positive  # others than the query's writer
    # Taking the smallest of independent random numbers draws without replacement.
    chance = rng.random((len(rows), len(lenders)), dtype=np.float32)  # (E, W)
    chance[lenders == own[:, None]] = np.inf
    smallest = np.argpartition(chance, most - 1, axis=1)[:, :most]
    in_order = np.take_along_axis(chance, smallest, axis=1).argsort(axis=1)
    lender = lenders[np.take_along_axis(smallest, in_order, axis=1)]  # (E, most)
    others = rng.integers(recipe.fewest - positive, most, size=len(rows), endpoint=True)
    lender[np.arange(most) >= others[:, None]] = _NOBODY
    if positive:
        lender = np.column_stack([own, lender])
    limit = np.where(lender == _NOBODY, 1, np.minimum(recipe.lent, stock.left[lender]))
    if recipe.draw == "uniform":
        lends = rng.integers(1, limit, endpoint=True)
    else:
        lends = np.minimum(rng.geometric(GEOMETRIC_P, limit.shape), limit)
    label = np.full(len(rows), positive, np.int8)
    return ExemplarPlan(stock.query[rows], label, lender, np.where(lender == _NOBODY, 0, lends))


def draw_bags(rng: np.random.Generator, stock: Stock, plan: ExemplarPlan) -> tuple[Integers, Integers]:
    """Draw the instances, without replacement; return ``bag_ptr`` ``(E + 1,)`` and ``bag_index`` ``(T,)``."""
    exemplar, column = np.nonzero(plan.lends)
    cell, count = plan.lender[exemplar, column], plan.lends[exemplar, column]
    chunks = range(0, len(cell), _PAIRS_A_CHUNK)
    drawn = np.concatenate(
        [_draw(rng, stock, cell[at : at + _PAIRS_A_CHUNK], count[at : at + _PAIRS_A_CHUNK]) for at in chunks]
    )
    order = np.lexsort((rng.random(len(drawn)), np.repeat(exemplar, count)))
    return csr.borders(plan.bag_sizes), drawn[order]


def _draw(rng: np.random.Generator, stock: Stock, cell: Integers, count: Integers) -> Integers:
    """Draw ``count[i]`` different instances of ``cell[i]``, for all ``i``, one after the other."""
    places = np.arange(stock.left[cell].max())
    chance = rng.random((len(cell), len(places)), dtype=np.float32)
    chance[places >= stock.left[cell][:, None]] = np.inf
    place = chance.argsort(axis=1)[places < count[:, None]]
    return np.asarray(stock.instances[np.repeat(stock.start[cell], count) + place])


def draw_exemplars(
    rng: np.random.Generator,
    pool: InstancePool,
    writer: Integers,
    digit: Integers,
    parts: list[tuple[Stock, ExemplarPlan]],
) -> ExemplarSet:
    """Draw the exemplars of several plans, grouped by digit; a witness is a digit by the query's writer."""
    bags = [draw_bags(rng, stock, plan) for stock, plan in parts]
    references = [stock.references_of(plan.query) for stock, plan in parts]
    query = np.concatenate([plan.query for _, plan in parts])
    bag_ptr = csr.borders(np.concatenate([np.diff(ptr) for ptr, _ in bags]))
    bag_index = np.concatenate([index for _, index in bags])
    return ExemplarSet(
        pool,
        query,
        bag_ptr,
        bag_index,
        label=np.concatenate([plan.label for _, plan in parts]),
        witness=writer[bag_index] == csr.to_rows(writer[query], bag_ptr),
        group=digit[query].astype(str),
        reference_ptr=csr.borders(np.concatenate([np.diff(ptr) for ptr, _ in references])),
        reference_index=np.concatenate([index for _, index in references]),
    )
