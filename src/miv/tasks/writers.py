"""Exemplars of handwritten digits: did the writer of the query write something in the bag?"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from miv.errors import MivError
from miv.exemplars import ExemplarSet, InstancePool

Loan = Literal["geometric", "uniform"]

_LOAN_SHARE = 0.565  # gives the bags of the paper: mean 6.9, variance 6.4
_MOST_LENT = 5


def draw_exemplars(
    pool: InstancePool,
    digit: NDArray[np.int64],
    queries: int,
    rng: np.random.Generator,
    loan: Loan = "geometric",
) -> ExemplarSet:
    """Make the exemplars of the QMNIST task.

    For every writer and digit some images are held out as queries, so that a query is in no bag. Each query
    gives a positive exemplar (its writer and 2-4 others), where its writer has images left, and a negative one
    (3-5 others). All images of an exemplar show the same digit.

    Args:
        pool: the images, ``P`` of them, with the writers as classes.
        digit: ``(P,)`` what the images show.
        queries: how many images of each writer and digit to hold out; where there are fewer, all.
        rng: source of all choices.
        loan: how many images each writer lends to a bag: a geometric number, or any with equal chance; at
            most 5.

    Returns:
        The exemplars, the witnesses marked, the digit as the group.
    """
    if pool.classes is None:
        raise ValueError("The pool does not name the writers.")
    held: list[tuple[int, str, str]] = []  # query, writer, digit
    shelf: dict[str, dict[str, NDArray[np.int64]]] = {}  # digit, writer → images that bags may hold
    for value in np.unique(digit):
        group = str(value)
        shelf[group] = {}
        shown = np.flatnonzero(digit == value)
        for writer in np.unique(pool.classes[shown]):
            images = rng.permutation(shown[pool.classes[shown] == writer])
            held += [(int(query), writer, group) for query in images[:queries]]
            if len(images) > queries:
                shelf[group][writer] = images[queries:]
    bags, labels, witnesses, asked, groups = [], [], [], [], []
    for query, writer, group in held:
        lenders = shelf[group]
        others = [name for name in lenders if name != writer]
        for label in (1, 0) if writer in lenders else (0,):
            count = min(int(rng.integers(2, 5)) + (1 - label), len(others))
            if count + label == 0:
                continue  # nobody else wrote this digit
            chosen = [others[i] for i in rng.choice(len(others), size=count, replace=False)]
            names = [writer, *chosen] if label else chosen
            lent = [_lend(lenders[name], loan, rng) for name in names]
            bag = np.concatenate(lent)
            order = rng.permutation(len(bag))
            asked.append(query)
            bags.append(bag[order])
            labels.append(label)
            witnesses.append(order < (len(lent[0]) if label else 0))
            groups.append(group)
    if not bags:
        raise MivError(
            f"No exemplar can be made of {len(pool)} images by {len(set(pool.classes))} writers. Expected writers "
            f"with more than {queries} images of the same digit."
        )
    return ExemplarSet(
        pool,
        np.array(asked, np.int64),
        np.cumsum([0, *map(len, bags)], dtype=np.int64),
        np.concatenate(bags),
        np.array(labels, np.int8),
        np.concatenate(witnesses),
        np.array(groups, dtype=object),
    )


def _lend(images: NDArray[np.int64], loan: Loan, rng: np.random.Generator) -> NDArray[np.int64]:
    most = min(_MOST_LENT, len(images))
    count = min(int(rng.geometric(_LOAN_SHARE)), most) if loan == "geometric" else int(rng.integers(1, most + 1))
    return rng.choice(images, size=count, replace=False)
