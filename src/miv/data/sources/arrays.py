"""Create exemplars from arrays in Python."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miv.data.exemplars import ExemplarSet
from miv.data.kinds import KINDS
from miv.data.pool import PoolBuilder
from miv.errors import MIVError
from miv.files.instances import InstanceKind


def from_arrays(
    queries: Any,
    bags: Sequence[Any],
    labels: Sequence[int],
    witnesses: Sequence[Sequence[bool]] | None = None,
    groups: Sequence[str] | None = None,
    *,
    references: Sequence[Any] | None = None,
    query_ids: Sequence[str] | None = None,
) -> ExemplarSet:
    """Create a set of ``E`` exemplars from arrays; equal instances are stored once.

    Args:
        queries: features ``(E, C)``, images ``(E, H, W)`` or ``(E, H, W, 3)`` uint8, or ``E`` texts. ``None`` if
            there are references.
        bags: ``E`` bags of the same kind: each features ``(N, C)``, ``N`` images of the same shape, or
            ``N`` texts.
        labels: ``E`` labels, 0 or 1.
        witnesses: for each bag, ``N`` values True or False, if known.
        groups: ``E`` strings to group results by.
        references: for each exemplar a list of instances of the same kind, any number of them: what is known of the
            class to look for. They are added to the query, if there is one; equal ones count once.
        query_ids: ``E`` strings; equivalent queries share an id.

    >>> exemplars = ExemplarSet.from_arrays(
    ...     queries=[[1.0, 0.0], [0.0, 1.0]],
    ...     bags=[[[0.9, 0.1], [0.0, 1.0]], [[0.9, 0.1]]],
    ...     labels=[1, 0],
    ...     witnesses=[[True, False], [False]],
    ... )
    >>> len(exemplars), len(exemplars.pool), exemplars.bag(0).tolist()
    (2, 3, [1, 2])
    """
    if queries is None and references is None:
        raise MIVError("There are neither queries nor references. Expected one of them.")
    asked = [[query] for query in queries] if queries is not None else [[] for _ in references or ()]
    if references is not None:
        if len(references) != len(asked):
            raise MIVError(f"Got {len(asked)} queries and references of {len(references)}. Expected one list each.")
        asked = [
            [*own, *_several(given, number)] for number, (own, given) in enumerate(zip(asked, references, strict=True))
        ]
    if len(asked) != len(bags):
        raise MIVError(f"Got {len(asked)} queries and {len(bags)} bags. Expected one bag per query.")
    builder, found, bag_index = collected(zip(asked, bags, strict=True))
    return ExemplarSet.from_lists(
        builder.pool(), None, bag_index, labels, witnesses, groups, references=found, query_ids=query_ids
    )


def collected(
    exemplars: Iterable[tuple[Sequence[Any], Any]],
) -> tuple[PoolBuilder, list[list[int]], list[list[int]]]:
    """Put the instances of pairs of references and bag into one pool; also return their indices."""
    builder: PoolBuilder | None = None
    references: list[list[int]] = []
    bag_index: list[list[int]] = []
    for number, (asked, bag) in enumerate(exemplars):
        if isinstance(bag, str) or not len(bag):
            raise MIVError(f"Bag {number} is {'one text' if isinstance(bag, str) else 'empty'}. Expected a list.")
        if not len(asked):
            raise MIVError(f"Exemplar {number} has no references. Expected at least one.")
        builder = builder or PoolBuilder(_kind_of(asked[0]))
        places = [f"query {number}", *(f"query {number}, reference {place}" for place in range(1, len(asked)))]
        added = (_added(builder, one, place) for one, place in zip(asked, places, strict=True))
        references.append(list(dict.fromkeys(added)))
        bag_index.append([_added(builder, value, f"bag {number}, instance {place}") for place, value in enumerate(bag)])
    if builder is None:
        raise MIVError("There are no exemplars. Expected at least one query and its bag.")
    return builder, references, bag_index


def _several(given: Any, number: int) -> list[Any]:
    if isinstance(given, str):
        raise MIVError(f"The references of exemplar {number} are one text. Expected a list of texts.")
    return list(given)


def _added(builder: PoolBuilder, value: Any, place: str) -> int:
    return builder.add(KINDS[builder.kind].check(value, place), place)


def _kind_of(first: Any) -> InstanceKind:
    if isinstance(first, str):
        return "text"
    shape = np.shape(first)
    if len(shape) in {2, 3}:
        return "image"
    if len(shape) == 1:
        return "features"
    raise MIVError(f"A query has the shape {shape}. Expected features (C,), images (H, W) or (H, W, 3), or a text.")


# Vectors of two kinds in one set: a query of one kind against a bag of another.


def query_side(vectors: ArrayLike, bag_channels: int) -> NDArray[Any]:
    r"""Put zeros after the vectors of queries, in place of the channels of the bag.

    Together with ``bag_side``, vectors :math:`q` of ``Q`` channels and :math:`t` of ``T`` become :math:`(q, 0)` and
    :math:`(0, t)` of ``Q + T``. A linear map of these is one map per kind,

    .. math:: (M_Q \; M_T) \binom{q}{0} = M_Q \, q, \qquad (M_Q \; M_T) \binom{0}{t} = M_T \, t,

    and the align stage of training learns both, so that queries and targets meet in one space.

    Args:
        vectors: ``(..., Q)``.
        bag_channels: ``T``, the length of a vector in the bag.

    >>> query_side([[1.0, 2.0]], bag_channels=3)
    array([[1., 2., 0., 0., 0.]])
    """
    return _padded(vectors, after=bag_channels)


def bag_side(vectors: ArrayLike, query_channels: int) -> NDArray[Any]:
    """Put zeros before the vectors of a bag, in place of the channels of the query; see ``query_side``.

    Args:
        vectors: ``(..., T)``.
        query_channels: ``Q``, the length of a query.

    >>> bag_side([[3.0, 4.0, 5.0]], query_channels=2)
    array([[0., 0., 3., 4., 5.]])
    """
    return _padded(vectors, before=query_channels)


def _padded(vectors: ArrayLike, before: int = 0, after: int = 0) -> NDArray[Any]:
    array = np.asarray(vectors)
    if array.dtype.kind not in "fiu" or array.ndim == 0 or not array.size:
        raise MIVError(f"vectors is {array.dtype} {array.shape}. Expected numbers (..., C).")
    if before + after < 1:
        raise MIVError(f"The other kind has {before + after} channels. Expected at least 1.")
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(before, after)])
