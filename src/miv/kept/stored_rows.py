"""Kept rows in fewer bytes: half precision, or whole numbers with one scale per row."""

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from miv.errors import MIVError
from miv.kept.similarity_of_query import Rows

RowType = Literal["float32", "float16", "int8"]
_LARGEST = 127
_LARGEST_HALF = 65504.0


def check_row_type(given: str) -> None:
    """Raise an error for a type that rows cannot be stored in."""
    if given not in get_args(RowType):
        raise MIVError(f"The type of kept rows is {given!r}. Expected {', '.join(get_args(RowType))}.")


def store_rows(rows: Rows, kind: RowType) -> tuple[NDArray[Any], NDArray[np.float32] | None]:
    r"""Rows ``(N, K)`` as they are stored, and their scales ``(N,)`` if they are whole numbers.

    .. math:: z \approx s \cdot round(z / s), \qquad s = \max_i |z_i| / 127

    >>> stored, scales = store_rows(np.array([[254.0, -127.6], [0.0, 0.0]], np.float32), "int8")
    >>> stored.tolist(), scales.tolist()
    ([[127, -64], [0, 0]], [2.0, 0.0])
    """
    if kind == "float32":
        return rows, None
    if kind == "float16":
        return np.clip(rows, -_LARGEST_HALF, _LARGEST_HALF).astype(np.float16), None
    scales = np.abs(rows).max(axis=1) / np.float32(_LARGEST)
    return np.rint(rows / np.where(scales > 0, scales, 1)[:, None]).astype(np.int8), scales


def restore_rows(stored: NDArray[Any], scales: NDArray[np.float32] | None) -> Rows:
    """Rows ``(N, K)`` in single precision."""
    rows = np.asarray(stored, np.float32)
    return rows if scales is None else np.multiply(rows, scales[:, None], out=rows)
