"""Exemplars from arrays in Python, and from and to Hugging Face ``datasets``."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from miv.data.exemplars import ExemplarSet
from miv.data.kinds import KINDS
from miv.data.pool import PoolBuilder
from miv.errors import MIVError, needs_extra, unknown_name
from miv.files.tables import parse_label, parse_witnesses


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
    builder, reference_rows, bag_rows = _collect(zip(lists, bags, strict=True))
    return ExemplarSet.from_lists(
        builder.pool(), None, bag_rows, labels, witnesses, groups, references=reference_rows, query_ids=query_ids
    )


def _collect(exemplars: Iterable[tuple[Sequence[Any], Any]]) -> tuple[PoolBuilder, list[list[int]], list[list[int]]]:
    """Put the instances of pairs of references and bag into one pool; also return their indices."""
    builder: PoolBuilder | None = None
    references: list[list[int]] = []
    bags: list[list[int]] = []

    def add(value: Any, place: str) -> int:
        assert builder is not None  # noqa: S101 - for the type checker
        return builder.add(KINDS[builder.kind].check(value, place), place)

    for number, (queries, bag) in enumerate(exemplars):
        if isinstance(bag, str) or not len(bag):
            raise MIVError(f"Bag {number} is {'one text' if isinstance(bag, str) else 'empty'}. Expected a list.")
        if not len(queries):
            raise MIVError(f"Exemplar {number} has no references. Expected at least one.")
        if builder is None:
            shape = np.shape(queries[0])
            kind = "text" if isinstance(queries[0], str) else {1: "features", 2: "image", 3: "image"}.get(len(shape))
            if kind is None:
                raise MIVError(f"A query has the shape {shape}. Expected a vector (C,), an image or a text.")
            builder = PoolBuilder(kind)
        places = [f"query {number}", *(f"query {number}, reference {place}" for place in range(1, len(queries)))]
        references.append(list(dict.fromkeys(map(add, queries, places))))
        bags.append([add(value, f"bag {number}, instance {place}") for place, value in enumerate(bag)])
    if builder is None:
        raise MIVError("There are no exemplars. Expected at least one query and its bag.")
    return builder, references, bags


# Hugging Face datasets.

_OF_REFERENCES, _OF_BAGS = ("query_class", "query_name"), ("bag_classes", "bag_names")


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
        parts = ", ".join(map(str, dataset))
        raise MIVError(f"The dataset has the splits or columns {parts}. Pass one split, such as dataset['train'].")
    labels: list[int] = []
    further = (witnesses_column, group_column, query_id_column, *_OF_REFERENCES, *_OF_BAGS)
    optional: dict[str, list[Any]] = {name: [] for name in further}

    def exemplars() -> Iterator[tuple[list[Any], list[Any]]]:
        for number, row in enumerate(dataset):
            place = f"Row {number}"
            if not isinstance(row, Mapping):
                raise MIVError(f"{place} is a {type(row).__name__}. Expected a dict with query, bag and label.")
            listed = row.get(references_column)
            for name in (*([query_column] if listed is None else []), bag_column, label_column):
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
            yield [_plain(value) for value in [*queries, *(listed or [])]], bag

    builder, references, bags = _collect(exemplars())
    witnesses = [
        parse_witnesses(list(cell), len(bag), f"Row {number}")
        for number, (cell, bag) in enumerate(zip(optional[witnesses_column], bags, strict=False))
    ]
    classes, names = (
        _instance_column(len(builder), references, bags, name, of_bags, optional)
        for name, of_bags in zip(_OF_REFERENCES, _OF_BAGS, strict=True)
    )
    pool = replace(builder.pool(), classes=classes, names=names)
    groups, query_ids = ([*map(str, optional[name])] for name in (group_column, query_id_column))
    return ExemplarSet.from_lists(
        pool, None, bags, labels, witnesses or None, groups or None, references=references, query_ids=query_ids or None
    )


def _instance_column(
    count: int, references: list[list[int]], bags: list[list[int]], column: str, bag_column: str, cells: dict[str, Any]
) -> NDArray[Any] | None:
    """One string per instance of a pool of ``count``, from a column about queries and one about bags, if any."""
    if not cells[column] or not cells[bag_column]:
        return None
    words: list[str] = [""] * count
    known: set[int] = set()
    for number, instances in enumerate(zip(references, bags, strict=True)):
        for name, rows in zip((column, bag_column), instances, strict=True):
            cell = cells[name][number]
            listed = list(cell) if isinstance(cell, list | tuple) else [cell]
            if len(listed) != len(rows):
                raise MIVError(f"Row {number}: {len(listed)} {name} for {len(rows)} instances. Expected one each.")
            for row, word in zip(rows, map(str, listed), strict=True):
                if row in known and words[row] != word:
                    raise MIVError(f"Row {number}: {name} of an instance is {word!r}, but was {words[row]!r} earlier.")
                known.add(row)
                words[row] = word
    return np.array(words, dtype=object)


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
    values = {index: KINDS[pool.kind].plain(pool.values[index]) for index in exemplars.used.tolist()}
    bags = [exemplars.bag(number) for number in range(len(exemplars))]
    columns["query"] = instance, [values[index] for index in exemplars.query.tolist()]
    columns["bag"] = datasets.Sequence(instance), [[values[i] for i in bag.tolist()] for bag in bags]
    columns["label"] = datasets.Value("int8"), exemplars.label.tolist()
    if exemplars.witness is not None:
        flags = [part.tolist() for part in np.split(exemplars.witness, exemplars.bag_ptr[1:-1])]
        columns["witnesses"] = datasets.Sequence(datasets.Value("bool")), flags
    text = datasets.Value("string")
    if exemplars.group is not None:
        columns["group"] = text, exemplars.group.tolist()
    if exemplars.query_id is not None:
        columns["query_id"] = text, exemplars.query_id.tolist()
    references = [exemplars.references(number) for number in range(len(exemplars))]
    several = exemplars.has_references
    if several:
        columns["references"] = datasets.Sequence(instance), [[values[i] for i in row.tolist()] for row in references]
    for of_references, of_bags, strings in zip(_OF_REFERENCES, _OF_BAGS, (pool.classes, pool.names), strict=True):
        if strings is not None:
            cells = [strings[row].tolist() for row in references]
            columns[of_references] = (datasets.Sequence(text), cells) if several else (text, [row[0] for row in cells])
            columns[of_bags] = datasets.Sequence(text), [strings[bag].tolist() for bag in bags]
    features = datasets.Features({name: kind for name, (kind, _) in columns.items()})
    return datasets.Dataset.from_dict({name: cells for name, (_, cells) in columns.items()}, features=features)


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
