from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from miv import ExemplarSet, InstancePool, MIVError
from miv.evaluation import Predictions
from tests.evaluation.examples import example_predictions

FIELDS = tuple(column.name for column in fields(Predictions))


def assert_equal(one: Predictions, other: Predictions) -> None:
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def test_the_probability_is_the_sigmoid_without_overflow() -> None:
    found = Predictions([0.0, 1.0, -1.0, 1000.0, -1000.0], [0] * 5, np.arange(6)).probability
    assert found.tolist() == pytest.approx([0.5, 1 / (1 + np.exp(-1)), 1 / (1 + np.exp(1)), 1.0, 0.0])


def test_of_takes_the_truth_from_the_set() -> None:
    pool = InstancePool("features", np.zeros((3, 2), np.float32), np.array(["a", "b", "a"], object))
    exemplars = ExemplarSet.from_lists(pool, [0], [[1, 2]], [1], [[False, True]], groups=["x"], query_ids=["q"])
    predictions = Predictions.of(exemplars, logit=[0.3], attention=[0.5, 0.5])
    queries: dict[str, Any] = {"query": [0], "query_class": ["a"], "query_id": ["q"]}
    assert_equal(predictions, Predictions([0.3], [1], [0, 2], [0.5, 0.5], [False, True], ["x"], **queries))


@pytest.mark.parametrize("lacking", [(), ("attention",), ("query",), FIELDS[3:]])
def test_saved_and_loaded_is_the_same(lacking: tuple[str, ...], tmp_path: Path) -> None:
    whole = example_predictions()
    columns: dict[str, Any] = {name: getattr(whole, name) for name in FIELDS} | {"query": np.arange(60) // 3}
    columns |= {"score": np.log(columns["attention"])}
    columns |= {name: columns["query"].astype(str) for name in ("query_class", "query_id")}
    predictions = Predictions(**columns | dict.fromkeys(lacking))
    predictions.save(tmp_path / "predictions.parquet")
    assert_equal(Predictions.load(tmp_path / "predictions.parquet"), predictions)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"logit": [1.0, float("nan")]}, r"logit\[1\] is nan"),
        ({"label": [1]}, "label has 1 entry. Expected 2"),
        ({"ptr": [0, 2]}, "ptr has 2 entries. Expected 3"),
        ({"ptr": [0, 3, 2]}, "decreases at exemplar 1"),
        ({"attention": [0.5, 0.5, 0.9]}, "exemplar 1 sums to 0.9"),
        ({"attention": [-0.5, 1.5, 1.0]}, r"attention\[0\] is -0.5"),
        ({"witness": [1, 0, 1]}, "Expected True and False"),
        ({"group": [1, 2]}, "Expected an array of strings"),
        ({"query": [0.5, 1.0]}, "query is float64"),
        ({"query": [0]}, "query has 1 entry. Expected 2"),
        ({"score": [0.5, 1.0]}, "score has 2 entries. Expected 3"),
        ({"score": [0.5, 1.0, float("inf")]}, r"score\[2\] is inf"),
    ],
)
def test_wrong_input_is_refused(change: dict[str, Any], message: str) -> None:
    right = {"logit": [1.0, 2.0], "label": [1, 0], "ptr": [0, 2, 3], "attention": [0.5, 0.5, 1.0]}
    Predictions(**right)  # type: ignore[arg-type]
    with pytest.raises(MIVError, match=message):
        Predictions(**{**right, **change})


def test_files_of_another_kind_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "predictions.parquet"
    with pytest.raises(MIVError, match="There is no file"):
        Predictions.load(path)
    path.write_bytes(b"no table")
    with pytest.raises(MIVError, match="cannot be read as Parquet"):
        Predictions.load(path)
    right = {"logit": pa.array([1.0]), "label": pa.array([1], pa.int8()), "bag_size": pa.array([2])}
    for change, message in (
        ({"logit": pa.array(["a"])}, "has the columns logit"),
        ({"logit": pa.array([None], pa.float64())}, "1 empty cells in 'logit'"),
        ({"witness": pa.array([[True]], pa.large_list(pa.bool_()))}, "row 0: the length of 'witness' is not bag_size"),
        ({"attention": pa.array([[0.5, None]], pa.large_list(pa.float64()))}, "1 empty entries in 'attention'"),
        ({"bag_size": pa.array([-2])}, "does not contain predictions"),
        ({"label": pa.array([3], pa.int8())}, "label of exemplar 0 is 3"),
    ):
        pq.write_table(pa.table({**right, **change}), path)
        with pytest.raises(MIVError, match=message):
            Predictions.load(path)


def test_a_group_that_no_file_can_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MIVError, match="surrogate"):
        Predictions([1.0], [1], [0, 1], group=["\ud800"]).save(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []
