"""Exemplars from instances in memory: arrays, and rows such as those of Hugging Face ``datasets``."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image

from miv.data.exemplars import ExemplarSet
from miv.data.kinds import KINDS
from miv.data.pool import InstancePool, PoolBuilder
from miv.data.sources.table import Columns, Rows
from miv.errors import MIVError
from miv.files.tables import require_columns
from miv.runtime import from_options


class ValueInstances:
    """Collects instances in memory; the first one decides their kind, and equal ones are stored once."""

    def __init__(self) -> None:
        self._builder: PoolBuilder | None = None

    def index(self, value: Any, place: str) -> int:
        """Return the pool index of an instance."""
        if self._builder is None:
            shape = np.shape(value)
            kind = "text" if isinstance(value, str) else {1: "features", 2: "image", 3: "image"}.get(len(shape))
            if kind is None:
                raise MIVError(f"A query has the shape {shape}. Expected a vector (C,), an image or a text.")
            self._builder = PoolBuilder(kind)
        return self._builder.add(KINDS[self._builder.kind].check(value, place), place)

    def pool(self) -> InstancePool:
        """All instances so far."""
        if self._builder is None:
            raise MIVError("There are no exemplars. Expected at least one query and its bag.")
        return self._builder.pool()


class CellValues(ValueInstances):
    """The same for cells of a dataset, which hold images of Pillow and whole numbers too."""

    def index(self, value: Any, place: str) -> int:
        """Return the pool index of the instance in a cell."""
        if isinstance(value, str):
            return super().index(value, place)
        if isinstance(value, Image.Image):
            value = value if value.mode in ("L", "RGB") else value.convert("RGB")
        array = np.asarray(value)
        is_image = array.ndim in (2, 3) and array.dtype.kind in "iu" and array.size
        if is_image and array.min() >= 0 and array.max() <= 255:
            array = array.astype(np.uint8)
        return super().index(array, place)


def pool_of(
    queries: Any, bags: Sequence[Any], references: Sequence[Any] | None
) -> tuple[InstancePool, list[list[int]], list[list[int]]]:
    """Put all instances into one pool; also return the indices of the references of each exemplar, and of its bag."""
    if queries is None and references is None:
        raise MIVError("There are neither queries nor references. Expected one of them.")
    lists: list[list[Any]] = [[] for _ in references or ()] if queries is None else [[query] for query in queries]
    if references is not None:
        if len(references) != len(lists):
            raise MIVError(f"Got {len(lists)} queries and references of {len(references)}. Expected one list each.")
        for number, several in enumerate(references):
            if isinstance(several, str):
                raise MIVError(f"The references of exemplar {number} are one text. Expected a list of texts.")
            lists[number] += list(several)
    if len(lists) != len(bags):
        raise MIVError(f"Got {len(lists)} queries and {len(bags)} bags. Expected one bag per query.")
    source = ValueInstances()
    reference_rows, bag_rows = [], []
    for number, (asked, bag) in enumerate(zip(lists, bags, strict=True)):
        if isinstance(bag, str) or not len(bag):
            raise MIVError(f"Bag {number} is {'one text' if isinstance(bag, str) else 'empty'}. Expected a list.")
        if not asked:
            raise MIVError(f"Exemplar {number} has no references. Expected at least one.")
        places = [f"query {number}", *(f"query {number}, reference {place}" for place in range(1, len(asked)))]
        reference_rows.append(list(dict.fromkeys(map(source.index, asked, places))))
        bag_rows.append([source.index(value, f"bag {number}, instance {place}") for place, value in enumerate(bag)])
    return source.pool(), reference_rows, bag_rows


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
