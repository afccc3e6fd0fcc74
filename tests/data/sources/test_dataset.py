"""Rows as Hugging Face ``datasets`` gives them."""

from typing import Any

import numpy as np
import pytest
from PIL import Image

from miv import ExemplarSet, MIVError

ROWS: list[dict[str, Any]] = [
    {"query": [1.0, 0.0], "bag": [[0.9, 0.1], [0.0, 1.0]], "label": 1, "witnesses": [True, False], "group": "x"},
    {"query": [1.0, 0.0], "bag": [[0.0, 1.0]], "label": 0, "witnesses": [False], "group": "y"},
]


def test_rows_become_exemplars() -> None:
    exemplars = ExemplarSet.from_dataset(ROWS)
    assert exemplars.pool.values.tolist() == [[1.0, 0.0], [pytest.approx(0.9), pytest.approx(0.1)], [0.0, 1.0]]
    assert exemplars.query.tolist() == [0, 0]
    assert [exemplars.bag(row).tolist() for row in (0, 1)] == [[1, 2], [2]]
    assert exemplars.witness.tolist() == [True, False, False]
    assert exemplars.group.tolist() == ["x", "y"]


def test_columns_may_have_other_names_and_witnesses_may_be_positions() -> None:
    rows = [{"claim": "a", "sentences": ["b", "c"], "label": np.int64(1), "evidence": [1]}]
    exemplars = ExemplarSet.from_dataset(
        rows, query_column="claim", bag_column="sentences", witnesses_column="evidence"
    )
    assert exemplars.pool.values[exemplars.bag(0)].tolist() == ["b", "c"]
    assert exemplars.witness.tolist() == [False, True]
    assert exemplars.group is None


@pytest.mark.parametrize("form", ["pillow", "lists", "arrays"])
def test_images_come_as_pillow_or_as_numbers(form: str) -> None:
    grey = np.arange(12, dtype=np.uint8).reshape(3, 4)
    other: Any = Image.fromarray(grey[::-1]) if form == "pillow" else grey[::-1].tolist()
    query: Any = Image.fromarray(grey) if form == "pillow" else grey.tolist()
    if form == "arrays":
        query, other = grey, grey[::-1]
    exemplars = ExemplarSet.from_dataset([{"query": query, "bag": [other, query], "label": 1}])
    assert exemplars.pool.kind == "image"
    assert exemplars.pool.values.tolist() == [grey.tolist(), grey[::-1].tolist()]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"train": ROWS}, r"the splits or columns train\. Pass one split"),
        (["query"], "Row 0 is a str. Expected a dict"),
        ([{"query": "a", "bags": ["b"], "label": 1}], "Row 0: There is no column 'bag'. Did you mean 'bags'"),
        ([{**ROWS[0], "label": 2}], "Row 0: the label is 2"),
        ([ROWS[0], {**ROWS[1], "group": None}], "Row 1: the column 'group' is empty here"),
        ([{**ROWS[0], "witnesses": [5]}], "Row 0: the witness 5 is not a position"),
        ([{**ROWS[0], "bag": []}], "Row 0: the bag is empty"),
        ([], "no rows"),
    ],
)
def test_mistakes_are_named(rows: Any, message: str) -> None:
    with pytest.raises(MIVError, match=message):
        ExemplarSet.from_dataset(rows)
