"""Convert exemplars from and to Hugging Face ``datasets``."""

from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from miv.data import ExemplarSet, InstancePool
from miv.data.sources.exemplars_from_arrays import collected
from miv.errors import MIVError, needs_extra, unknown_name
from miv.io.instance_files import InstanceKind
from miv.io.table_cells import parse_label, parse_witnesses


def from_dataset(
    dataset: Iterable[Mapping[str, Any]],
    *,
    query_column: str = "query",
    bag_column: str = "bag",
    label_column: str = "label",
    witnesses_column: str = "witnesses",
    group_column: str = "group",
) -> ExemplarSet:
    """Create a set from a ``datasets.Dataset`` or any rows that are dicts; equal instances are stored once.

    Args:
        dataset: one row per exemplar. An instance is an image (Pillow, or an array of whole numbers from 0 to 255), a
            text, or a vector. ``query_class`` and ``bag_classes``, which ``to_dataset`` writes, are read if they
            exist.
        query_column: column with the query.
        bag_column: column with the bag, a list of instances.
        label_column: column with the label, 0 or 1.
        witnesses_column: column with one true or false per instance of the bag, or with the positions of witnesses
            from 0; optional.
        group_column: column to group results by; optional.

    >>> rows = [{"query": "sky?", "bag": ["The sky is blue.", "Grass is green."], "label": 1, "witnesses": [0]}]
    >>> exemplars = ExemplarSet.from_dataset(rows)
    >>> exemplars.bag_witness(0).tolist()
    [True, False]
    """
    if isinstance(dataset, Mapping):
        names = ", ".join(map(str, dataset))
        raise MIVError(f"The dataset has the splits or columns {names}. Pass one split, such as dataset['train'].")
    labels: list[int] = []
    optional: dict[str, list[Any]] = {name: [] for name in (witnesses_column, group_column, _QUERY_CLASS, _BAG_CLASSES)}

    def exemplars() -> Iterator[tuple[Any, list[Any]]]:
        for number, row in enumerate(dataset):
            place = f"Row {number}"
            if not isinstance(row, Mapping):
                raise MIVError(f"{place} is a {type(row).__name__}. Expected a dict with query, bag and label.")
            for name in (query_column, bag_column, label_column):
                if name not in row:
                    raise MIVError(f"{place}: {unknown_name('column', name, map(str, row))}")
            bag = [_plain(value) for value in row[bag_column]]
            labels.append(parse_label(row[label_column], place))
            for name, values in optional.items():
                if row.get(name) is not None:
                    values.append(row[name])
                if len(values) not in (0, number + 1):
                    raise MIVError(f"{place}: the column {name!r} is empty in some rows. Fill it in every row.")
            yield _plain(row[query_column]), bag

    builder, queries, bags = collected(exemplars())
    witnesses = [
        parse_witnesses(list(cell), len(bag), f"Row {number}")
        for number, (cell, bag) in enumerate(zip(optional[witnesses_column], bags, strict=False))
    ]
    classes = _classes(len(builder), queries, bags, optional[_QUERY_CLASS], optional[_BAG_CLASSES])
    groups = [str(group) for group in optional[group_column]]
    return ExemplarSet.from_lists(builder.pool(classes), queries, bags, labels, witnesses or None, groups or None)


def to_dataset(exemplars: ExemplarSet) -> Any:
    """Return a ``datasets.Dataset`` with one row per exemplar.

    The columns are ``query``, ``bag``, ``label`` and, if known, ``witnesses`` (one true or false per instance of the
    bag), ``group``, ``query_class`` and ``bag_classes``. An instance in several bags is written in each.
    """
    with needs_extra("datasets", "A Hugging Face dataset", "datasets"):
        import datasets
    if exemplars.weight is not None:
        raise MIVError("The exemplars have weights, which a dataset does not hold. Save them as a folder instead.")
    pool = exemplars.pool
    instance = {"image": datasets.Image(), "text": datasets.Value("string")}.get(
        pool.kind, datasets.Sequence(datasets.Value("float32"))
    )
    columns: dict[str, tuple[Any, list[Any]]] = {}
    values = _cells(pool, exemplars.used)
    columns["query"] = instance, [values[index] for index in exemplars.query.tolist()]
    columns["bag"] = datasets.Sequence(instance), [[values[i] for i in bag.tolist()] for bag in _each_bag(exemplars)]
    columns["label"] = datasets.Value("int8"), exemplars.label.tolist()
    if exemplars.witness is not None:
        flags = [part.tolist() for part in np.split(exemplars.witness, exemplars.bag_ptr[1:-1])]
        columns["witnesses"] = datasets.Sequence(datasets.Value("bool")), flags
    text = datasets.Value("string")
    if exemplars.group is not None:
        columns["group"] = text, exemplars.group.tolist()
    if pool.classes is not None:
        columns[_QUERY_CLASS] = text, pool.classes[exemplars.query].tolist()
        columns[_BAG_CLASSES] = datasets.Sequence(text), [pool.classes[bag].tolist() for bag in _each_bag(exemplars)]
    features = datasets.Features({name: kind for name, (kind, _) in columns.items()})
    return datasets.Dataset.from_dict({name: cells for name, (_, cells) in columns.items()}, features=features)


_QUERY_CLASS, _BAG_CLASSES = "query_class", "bag_classes"


def _plain(value: Any) -> Any:
    """Convert an instance to the form that ``from_arrays`` takes."""
    if isinstance(value, str):
        return value
    if isinstance(value, Image.Image):
        return np.asarray(value if value.mode in ("L", "RGB") else value.convert("RGB"))
    array = np.asarray(value)
    is_image = array.ndim in (2, 3) and array.dtype.kind in "iu" and array.size
    if is_image and array.min() >= 0 and array.max() <= 255:
        return array.astype(np.uint8)
    return array


def _classes(
    count: int, queries: list[int], bags: list[list[int]], of_queries: list[Any], of_bags: list[Any]
) -> list[str] | None:
    """The class of each instance of the pool, if the rows have both columns."""
    if not of_queries or not of_bags:
        return None
    found: list[str] = [""] * count
    for number, (query, bag) in enumerate(zip(queries, bags, strict=True)):
        named = list(of_bags[number])
        if len(named) != len(bag):
            raise MIVError(
                f"Row {number}: {len(named)} bag_classes for a bag of {len(bag)}. Expected one per instance."
            )
        for index, name in zip([query, *bag], [of_queries[number], *named], strict=True):
            if found[index] not in ("", str(name)):
                raise MIVError(
                    f"Row {number}: an instance has the class {name!r}, but {found[index]!r} in an earlier row."
                )
            found[index] = str(name)
    return found


def _each_bag(exemplars: ExemplarSet) -> list[NDArray[np.int64]]:
    return [exemplars.bag(number) for number in range(len(exemplars))]


def _cells(pool: InstancePool, used: NDArray[np.int64]) -> dict[int, Any]:
    """The instances as ``datasets`` stores them, each converted once."""
    return {index: _cell(pool.kind, pool.values[index]) for index in used.tolist()}


def _cell(kind: InstanceKind, value: Any) -> Any:
    if kind != "image":
        return value if kind == "text" else value.tolist()
    file = BytesIO()
    Image.fromarray(np.asarray(value)).save(file, "PNG")
    return {"bytes": file.getvalue(), "path": None}
