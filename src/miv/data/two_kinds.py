"""Vectors of two kinds in one set: a query of one kind against a bag of another."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miv.errors import MIVError


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
