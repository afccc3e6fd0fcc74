"""Folders and tables as sets, with the options of ``miv data from-folder`` and ``from-table`` as arguments."""

import os
from os import PathLike
from pathlib import Path
from typing import Any

from miv.data import ExemplarSet, InstanceKind
from miv.data.sources.drawing import Drawing
from miv.data.sources.from_folder import FromFolder, SplitFoldersBy
from miv.data.sources.from_table import FromTable, SplitBy
from miv.data.sources.pool_builder import ImageForm
from miv.data.sources.split_shares import Shares
from miv.data.sources.table_rows import Columns
from miv.errors import MIVError, unknown_name
from miv.io.image_files import Fit
from miv.runtime.progress import SilentProgress

Size = tuple[int, int] | int | None


def folder_source(
    root: str | PathLike[str],
    *,
    exemplars: int = 1000,
    bag_mean: float = 10.0,
    bag_min: int | None = None,
    bag_max: int | None = None,
    witness_rate: float = 0.2,
    witness_count: int | None = None,
    hard_negatives: float = 0.0,
    hard_classes: int = 5,
    validation: float = 0.1,
    test: float = 0.1,
    split_by: SplitFoldersBy = "class",
    size: Size = None,
    colour: bool = False,
    resize: Fit = "stretch",
    seed: int = 0,
    round: int = 0,  # noqa: A002 - the name of the option
) -> FromFolder:
    """Say how exemplars are drawn from a folder per class; ``build`` draws them, and returns them by split.

    Args:
        root: holds one folder for each class; or ``train``, ``validation`` and ``test`` folders that do.
        exemplars: number of exemplars, all splits together.
        bag_mean: mean size of a bag.
        bag_min: smallest bag; by default half the mean.
        bag_max: largest bag; by default twice the mean.
        witness_rate: share of a positive bag that shows the query's class; at least one does.
        witness_count: exactly this many witnesses in a positive bag, instead of a rate.
        hard_negatives: share of the other instances that comes from the classes most like the query's.
        hard_classes: how many classes count as most like it.
        validation: share of validation; 0 leaves it out.
        test: share of test; 0 leaves it out.
        split_by: what must never be in two splits: a ``class``, or the ``parent`` in ``root/<parent>/<class>/``.
        size: height and width of all images, or one number for both. Without it all must have one size.
        colour: keep colours instead of making images grey.
        resize: how an image of another shape becomes that size: ``stretch``, ``crop`` or ``pad``.
        seed: start of the random numbers.
        round: which draw; rounds are independent.
    """
    drawing = Drawing(exemplars, bag_mean, bag_min, bag_max, witness_rate, witness_count, hard_negatives, hard_classes)
    images, shares = ImageForm(_both(size), colour, resize), Shares(validation, test)
    return FromFolder(Path(root), images, drawing, shares, seed, round, split_by)


def table_source(
    table: str | PathLike[str],
    *,
    instances: str | PathLike[str] | None = None,
    kind: InstanceKind | None = None,
    query_column: str = "query",
    bag_column: str = "bag",
    label_column: str = "label",
    witnesses_column: str = "witnesses",
    split_column: str = "split",
    group_column: str = "group",
    query_id_column: str = "query_id",
    split_by: SplitBy = "instances",
    validation: float = 0.1,
    test: float = 0.1,
    size: Size = None,
    colour: bool = False,
    resize: Fit = "stretch",
    seed: int = 0,
) -> FromTable:
    """Say how exemplars are read from a table with one per row; ``build`` reads them, and returns them by split.

    Args:
        table: a file ``.csv``, ``.tsv``, ``.jsonl`` or ``.parquet``.
        instances: a table with ``id`` and one of ``path``, ``text`` and ``vector``; queries and bags then hold ids.
        kind: what an instance is; by default what the first one looks like.
        query_column: column with the query.
        bag_column: column with the bag.
        label_column: column with the label, 0 or 1.
        witnesses_column: column with the positions of witnesses in the bag, from 0; may be missing.
        split_column: column with train, validation or test; may be missing.
        group_column: column to break results down by; may be missing.
        query_id_column: column that says which queries ask for the same; may be missing.
        split_by: without a split column, what must never be in two splits: ``instances``, ``query`` or ``group``.
        validation: share of validation; 0 leaves it out.
        test: share of test; 0 leaves it out.
        size: height and width of all images, or one number for both. Without it all must have one size.
        colour: keep colours instead of making images grey.
        resize: how an image of another shape becomes that size: ``stretch``, ``crop`` or ``pad``.
        seed: start of the random numbers.
    """
    columns = Columns(
        query_column, bag_column, label_column, witnesses_column, split_column, group_column, query_id_column
    )
    return FromTable(
        Path(table),
        None if instances is None else Path(instances),
        kind,
        ImageForm(_both(size), colour, resize),
        columns,
        Shares(validation, test),
        split_by,
        seed,
    )


def splits_from_folder(root: str | PathLike[str], **options: Any) -> dict[str, ExemplarSet]:
    """Draw exemplars from a folder per class, by split; the options are those of ``folder_source``."""
    return folder_source(root, **options).build(SilentProgress())


def splits_from_table(table: str | PathLike[str], **options: Any) -> dict[str, ExemplarSet]:
    """Read exemplars from a table, by split; the options are those of ``table_source``."""
    return table_source(table, **options).build(SilentProgress())


def set_from_folder(root: str | PathLike[str], split: str | None, **options: Any) -> ExemplarSet:
    """Draw one set, from all classes or from those of a split."""
    if split is not None:
        return _one_of(splits_from_folder(root, **options), split)
    sets = splits_from_folder(root, **options | {"validation": 0.0, "test": 0.0})
    if len(sets) > 1:
        raise MIVError(f"{os.fspath(root)} holds the splits {', '.join(sets)}. Say which one: split='train'.")
    return next(iter(sets.values()))


def set_from_table(table: str | PathLike[str], split: str | None, **options: Any) -> ExemplarSet:
    """Read one set: all rows, or those of a split."""
    source = table_source(table, **options)
    return source.read(SilentProgress())[0] if split is None else _one_of(source.build(SilentProgress()), split)


def _one_of(sets: dict[str, ExemplarSet], split: str) -> ExemplarSet:
    if split not in sets:
        raise unknown_name("split", split, sets)
    return sets[split]


def _both(size: Size) -> tuple[int, int] | None:
    """Height and width, of one number for both."""
    return (size, size) if isinstance(size, int) else size
