"""Convert exemplars from and to Hugging Face ``datasets``."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from miv.data.exemplars import ExemplarSet
from miv.data.kinds import KINDS
from miv.data.pool import InstancePool
from miv.data.sources.arrays import collected
from miv.errors import MIVError, needs_extra, unknown_name
from miv.files.tables import parse_label, parse_witnesses

# Columns of rows that say something about each instance: its class, its name.


def of_instances(
    count: int,
    references: list[list[int]],
    bags: list[list[int]],
    column: str,
    of_references: list[Any],
    bag_column: str,
    of_bags: list[Any],
) -> list[str] | None:
    """One string per instance of a pool, or ``None`` if the rows do not have both columns.

    Args:
        count: number of instances.
        references: per row, the instances to ask with.
        bags: per row, the instances of its bag.
        column: name of the column about the references, for messages.
        of_references: per row, one string per reference, or one string for a single query.
        bag_column: name of the column about the bags.
        of_bags: per row, one string per instance of the bag.
    """
    if not of_references or not of_bags:
        return None
    found: list[str | None] = [None] * count
    for number, (asked, bag) in enumerate(zip(references, bags, strict=True)):
        given = of_references[number]
        given = list(given) if isinstance(given, list | tuple) else [given]
        rows = ((column, given, asked, "query"), (bag_column, list(of_bags[number]), bag, "bag"))
        for name, said, known, what in rows:
            if len(said) != len(known):
                raise MIVError(
                    f"Row {number}: {len(said)} {name} for a {what} of {len(known)}. Expected one per instance."
                )
            for index, word in zip(known, map(str, said), strict=True):
                if found[index] not in (None, word):
                    raise MIVError(
                        f"Row {number}: an instance has {word!r} in {name}, but {found[index]!r} in an earlier row."
                    )
                found[index] = word
    return ["" if one is None else one for one in found]


def from_dataset(
    dataset: Iterable[Mapping[str, Any]],
    *,
    query_column: str = "query",
    bag_column: str = "bag",
    label_column: str = "label",
    witnesses_column: str = "witnesses",
    group_column: str = "group",
    query_id_column: str = "query_id",
    references_column: str = "references",
) -> ExemplarSet:
    """Create a set from a ``datasets.Dataset`` or any rows that are dicts; equal instances are stored once.

    Args:
        dataset: one row per exemplar. An instance is an image (Pillow, or an array of whole numbers from 0 to 255), a
            text, or a vector. ``query_class``, ``bag_classes`` and the other columns per instance that
            ``to_dataset`` writes are read if they exist.
        query_column: column with the query.
        bag_column: column with the bag, a list of instances.
        label_column: column with the label, 0 or 1.
        witnesses_column: column with one true or false per instance of the bag, or with the positions of witnesses
            from 0; optional.
        group_column: column to group results by; optional.
        query_id_column: column with an id shared by equivalent queries; optional.
        references_column: column with a list of instances to ask with, besides the query or instead of it; optional.

    >>> rows = [{"query": "sky?", "bag": ["The sky is blue.", "Grass is green."], "label": 1, "witnesses": [0]}]
    >>> exemplars = ExemplarSet.from_dataset(rows)
    >>> exemplars.bag_witness(0).tolist()
    [True, False]
    """
    if isinstance(dataset, Mapping):
        names = ", ".join(map(str, dataset))
        raise MIVError(f"The dataset has the splits or columns {names}. Pass one split, such as dataset['train'].")
    labels: list[int] = []
    further = (witnesses_column, group_column, query_id_column, *_OF_REFERENCES, *_OF_BAGS)
    optional: dict[str, list[Any]] = {name: [] for name in further}

    def exemplars() -> Iterator[tuple[list[Any], list[Any]]]:
        for number, row in enumerate(dataset):
            place = f"Row {number}"
            if not isinstance(row, Mapping):
                raise MIVError(f"{place} is a {type(row).__name__}. Expected a dict with query, bag and label.")
            asked = row.get(references_column)
            for name in (*([query_column] if asked is None else []), bag_column, label_column):
                if name not in row:
                    raise MIVError(f"{place}: {unknown_name('column', name, map(str, row))}")
            bag = [_plain(value) for value in row[bag_column]]
            labels.append(parse_label(row[label_column], place))
            for name, values in optional.items():
                if row.get(name) is not None:
                    values.append(row[name])
                if len(values) not in (0, number + 1):
                    raise MIVError(f"{place}: the column {name!r} is empty in some rows. Fill it in every row.")
            queries = [] if row.get(query_column) is None else [row[query_column]]
            yield [_plain(value) for value in [*queries, *(asked or [])]], bag

    builder, references, bags = collected(exemplars())
    witnesses = [
        parse_witnesses(list(cell), len(bag), f"Row {number}")
        for number, (cell, bag) in enumerate(zip(optional[witnesses_column], bags, strict=False))
    ]
    classes, called = (
        of_instances(len(builder), references, bags, name, optional[name], of_bags, optional[of_bags])
        for name, of_bags in zip(_OF_REFERENCES, _OF_BAGS, strict=True)
    )
    pool = builder.pool(classes)
    if called is not None:
        pool = replace(pool, names=np.array(called, dtype=object))
    groups, query_ids = ([str(one) for one in optional[name]] for name in (group_column, query_id_column))
    return ExemplarSet.from_lists(
        pool,
        None,
        bags,
        labels,
        witnesses or None,
        groups or None,
        references=references,
        query_ids=query_ids or None,
    )


def to_dataset(exemplars: ExemplarSet) -> Any:
    """Return a ``datasets.Dataset`` with one row per exemplar.

    The columns are ``query``, ``bag``, ``label`` and, if known, ``witnesses`` (one true or false per instance of the
    bag), ``group``, ``query_id``, ``references`` (all instances to ask with, the query first), and per instance
    ``query_class``, ``bag_classes``, ``query_name`` and ``bag_names``. If there are references, ``query_class`` and
    ``query_name`` are lists with one entry per reference. An instance in several bags is written in each.
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
    if exemplars.query_id is not None:
        columns["query_id"] = text, exemplars.query_id.tolist()
    asked = [exemplars.references(number) for number in range(len(exemplars))]
    several = exemplars.has_references
    if several:
        columns["references"] = datasets.Sequence(instance), [[values[i] for i in one.tolist()] for one in asked]
    for of_references, of_bags, strings in zip(_OF_REFERENCES, _OF_BAGS, (pool.classes, pool.names), strict=True):
        if strings is not None:
            cells = [strings[one].tolist() for one in asked]
            columns[of_references] = (datasets.Sequence(text), cells) if several else (text, [one[0] for one in cells])
            columns[of_bags] = datasets.Sequence(text), [strings[bag].tolist() for bag in _each_bag(exemplars)]
    features = datasets.Features({name: kind for name, (kind, _) in columns.items()})
    return datasets.Dataset.from_dict({name: cells for name, (_, cells) in columns.items()}, features=features)


_OF_REFERENCES, _OF_BAGS = ("query_class", "query_name"), ("bag_classes", "bag_names")


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


def _each_bag(exemplars: ExemplarSet) -> list[NDArray[np.int64]]:
    return [exemplars.bag(number) for number in range(len(exemplars))]


def _cells(pool: InstancePool, used: NDArray[np.int64]) -> dict[int, Any]:
    """The instances as ``datasets`` stores them, each converted once."""
    return {index: KINDS[pool.kind].plain(pool.values[index]) for index in used.tolist()}
