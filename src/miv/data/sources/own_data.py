"""Folders and tables as sets, with the options of ``miv data from-folder`` and ``from-table`` as arguments."""

import os
from os import PathLike
from pathlib import Path
from typing import Any

from miv.data.exemplars import ExemplarSet
from miv.data.sources.drawing import Drawing
from miv.data.sources.folder import FromFolder, SplitFoldersBy
from miv.data.sources.table import Columns, FromTable, SplitBy
from miv.data.splits import Shares
from miv.errors import MIVError, unknown_name
from miv.files.images import Fit, ImageForm
from miv.files.instances import InstanceKind
from miv.runtime import SilentProgress

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
    references_per_query: int = 1,
    validation: float = 0.1,
    test: float = 0.1,
    split_by: SplitFoldersBy = "class",
    together_by: str | None = None,
    forgeries: str | None = None,
    size: Size = None,
    colour: bool = False,
    resize: Fit = "stretch",
    binarise: bool = False,
    invert: bool = False,
    seed: int = 0,
    round: int = 0,  # noqa: A002 - the name of the option
) -> FromFolder:
    """Describe how to draw exemplars from one folder per class; ``build`` draws them and returns them by split.

    Args:
        root: folder with one subfolder per class, or with ``train``, ``validation`` and ``test`` above them.
        exemplars: total number of exemplars over all splits.
        bag_mean: mean bag size.
        bag_min: minimum bag size; default: half the mean.
        bag_max: maximum bag size; default: twice the mean.
        witness_rate: share of witnesses in a positive bag; there is always at least one.
        witness_count: exact number of witnesses per positive bag, instead of a rate.
        hard_negatives: share of the other instances drawn from the classes most like the query's.
        hard_classes: number of classes to draw hard negatives from.
        references_per_query: number of instances of the query's class to ask with; fewer if the class is small.
        validation: share for validation; 0 for no validation split.
        test: share for test; 0 for no test split.
        split_by: what to keep within one split: each ``class``, or each ``parent`` in ``root/<parent>/<class>/``.
        together_by: a regular expression; folders whose names have the same match stay in one split.
        forgeries: the ending of folders that hold forgeries, such as ``_forg``; see ``FromFolder``.
        size: height and width of all images, or one number for both. Without it, all must have the same size.
        colour: keep colours instead of converting images to grey.
        resize: how to fit images of another shape: ``stretch``, ``crop`` or ``pad``.
        binarise: make scans black and white, by Otsu's threshold.
        invert: swap black and white.
        seed: random seed.
        round: index of the random draw; draws are independent.
    """
    drawing = Drawing(
        exemplars,
        bag_mean,
        bag_min,
        bag_max,
        witness_rate,
        witness_count,
        hard_negatives,
        hard_classes,
        references_per_query,
    )
    images, shares = ImageForm(_both(size), colour, resize, binarise, invert), Shares(validation, test)
    return FromFolder(Path(root), images, drawing, shares, seed, round, split_by, together_by, forgeries)


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
    references_column: str = "references",
    split_by: SplitBy = "instances",
    validation: float = 0.1,
    test: float = 0.1,
    size: Size = None,
    colour: bool = False,
    resize: Fit = "stretch",
    binarise: bool = False,
    invert: bool = False,
    seed: int = 0,
) -> FromTable:
    """Describe how to read exemplars from a table with one per row; ``build`` reads them and returns them by split.

    Args:
        table: a file ``.csv``, ``.tsv``, ``.jsonl`` or ``.parquet``.
        instances: a table with ``id`` and one of ``path``, ``text`` and ``vector``; queries and bags then contain ids.
        kind: kind of instance; inferred from the first one by default.
        query_column: column with the query.
        bag_column: column with the bag.
        label_column: column with the label, 0 or 1.
        witnesses_column: column with the positions of witnesses in the bag, from 0; optional.
        split_column: column with train, validation or test; optional.
        group_column: column to group results by; optional.
        query_id_column: column with an id shared by equivalent queries; optional.
        references_column: column with a list of instances to ask with, besides the query or instead of it; optional.
        split_by: without a split column, what to keep within one split: ``instances``, ``query`` or ``group``.
        validation: share for validation; 0 for no validation split.
        test: share for test; 0 for no test split.
        size: height and width of all images, or one number for both. Without it, all must have the same size.
        colour: keep colours instead of converting images to grey.
        resize: how to fit images of another shape: ``stretch``, ``crop`` or ``pad``.
        binarise: make scans black and white, by Otsu's threshold.
        invert: swap black and white.
        seed: random seed.
    """
    columns = Columns(
        query_column,
        bag_column,
        label_column,
        witnesses_column,
        split_column,
        group_column,
        query_id_column,
        references_column,
    )
    return FromTable(
        Path(table),
        None if instances is None else Path(instances),
        kind,
        ImageForm(_both(size), colour, resize, binarise, invert),
        columns,
        Shares(validation, test),
        split_by,
        seed,
    )


def splits_from_folder(root: str | PathLike[str], **options: Any) -> dict[str, ExemplarSet]:
    """Draw exemplars from one folder per class, by split; same options as ``folder_source``."""
    return folder_source(root, **options).build(SilentProgress())


def splits_from_table(table: str | PathLike[str], **options: Any) -> dict[str, ExemplarSet]:
    """Read exemplars from a table, by split; same options as ``table_source``."""
    return table_source(table, **options).build(SilentProgress())


def set_from_folder(root: str | PathLike[str], split: str | None, **options: Any) -> ExemplarSet:
    """Draw one set from all classes or from those of a split."""
    if split is not None:
        return _one_of(splits_from_folder(root, **options), split)
    sets = splits_from_folder(root, **options | {"validation": 0.0, "test": 0.0})
    if len(sets) > 1:
        raise MIVError(f"{os.fspath(root)} contains the splits {', '.join(sets)}. Choose one, such as split='train'.")
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
    """Height and width; one number means both."""
    return (size, size) if isinstance(size, int) else size
