"""Exemplars from rows in memory, such as those of Hugging Face ``datasets``."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from PIL import Image

from miv.data.exemplars import ExemplarSet
from miv.data.pool import PoolBuilder
from miv.data.sources.table import Columns, Rows
from miv.errors import MIVError
from miv.files.tables import require_columns
from miv.registry import from_options


class CellValues(PoolBuilder):
    """Collects the instances in cells of a dataset, which hold images of Pillow and whole numbers too."""

    def index(self, value: Any, place: str) -> int:
        if isinstance(value, str):
            return super().index(value, place)
        if isinstance(value, Image.Image):
            value = value if value.mode in ("L", "RGB") else value.convert("RGB")
        array = np.asarray(value)
        is_image = array.ndim in (2, 3) and array.dtype.kind in "iu" and array.size
        if is_image and array.min() >= 0 and array.max() <= 255:
            array = array.astype(np.uint8)
        return super().index(array, place)


def from_dataset(dataset: Iterable[Mapping[str, Any]], **columns: str) -> ExemplarSet:
    """Create a set from a ``datasets.Dataset`` or any rows that are dicts; equal instances are stored once.

    Args:
        dataset: one row per exemplar, with the columns of a table (see ``Columns``). An instance is an image (Pillow,
            or an array of whole numbers from 0 to 255), a text, or a vector.
        columns: other names of columns, such as ``query_column="claim"``.

    >>> rows = [{"query": "sky?", "bag": ["The sky is blue.", "Grass is green."], "label": 1, "witnesses": [0]}]
    >>> exemplars = ExemplarSet.from_dataset(rows)
    >>> exemplars.bag_witness(0).tolist()
    [True, False]
    """
    if isinstance(dataset, Mapping):
        parts = ", ".join(map(str, dataset))
        raise MIVError(f"The dataset has the splits or columns {parts}. Pass one split, such as dataset['train'].")
    names, source = from_options(Columns, columns), CellValues()
    rows = Rows("The dataset", names)
    for number, row in enumerate(dataset):
        if not isinstance(row, Mapping):
            raise MIVError(f"Row {number} is a {type(row).__name__}. Expected a dict with query, bag and label.")
        require_columns(row, names.required, f"Row {number}")
        rows.read({name: _plain(cell) for name, cell in row.items()}, f"Row {number}", source)
    return rows.exemplars(source)


def _plain(cell: Any) -> Any:
    """A cell with lists and numbers of Python in place of those of NumPy."""
    if isinstance(cell, np.ndarray | np.generic):
        return cell.tolist()
    return [_plain(part) for part in cell] if isinstance(cell, list | tuple) else cell
