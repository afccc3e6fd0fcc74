"""Create the columns of a set from Python lists."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.data import csr
from miv.data.array_checks import check_length, list_of
from miv.data.reference_columns import joined_references
from miv.errors import MIVError

Row = Sequence[int] | NDArray[Any]


def columns_from_lists(
    queries: Row | None,
    bags: Sequence[Row],
    labels: Row,
    witnesses: Sequence[Sequence[bool] | NDArray[Any]] | None,
    groups: Sequence[str] | NDArray[Any] | None,
    references: Sequence[Row] | None,
    query_ids: Sequence[str] | NDArray[Any] | None,
) -> dict[str, Any]:
    """The arguments of ``ExemplarSet`` after ``pool``; the lists are those of ``ExemplarSet.from_lists``."""
    members = [list_of(f"bag {number}", bag, "iu") for number, bag in enumerate(bags)]
    columns: dict[str, Any] = {
        "bag_ptr": csr.borders([len(bag) for bag in members]),
        "bag_index": np.concatenate(members).astype(np.int64) if members else np.zeros(0, np.int64),
        "label": list_of("labels", labels, "iub"),
    }
    query = None if queries is None else list_of("queries", queries, "iu").astype(np.int64)
    if references is not None:
        columns["reference_ptr"], columns["reference_index"] = joined_references(query, references)
        query = columns["reference_index"][columns["reference_ptr"][:-1]]
    if query is None:
        raise MIVError("There are neither queries nor references. Expected one of them.")
    columns["query"] = query
    if witnesses is not None:
        columns["witness"] = _witness(witnesses, members)
    for name, texts in (("group", groups), ("query_id", query_ids)):
        if texts is not None:
            columns[name] = np.array(texts, dtype=object)
    return columns


def _witness(witnesses: Sequence[Sequence[bool] | NDArray[Any]], members: list[NDArray[Any]]) -> NDArray[np.bool_]:
    shown = [list_of(f"witnesses of bag {number}", row, "b") for number, row in enumerate(witnesses)]
    if len(shown) != len(members):
        raise MIVError(f"Got witnesses for {len(shown)} bags. Expected {len(members)}.")
    for number, (row, bag) in enumerate(zip(shown, members, strict=True)):
        check_length(f"witnesses of bag {number}", row, len(bag))
    return np.concatenate(shown).astype(bool) if shown else np.zeros(0, bool)
