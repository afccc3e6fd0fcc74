"""Whatever a file holds, the readers give sound sets or one ``MIVError`` that names the file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from miv.data import ExemplarSet
from miv.data.sources import Drawing, FromFolder, FromTable, Shares
from miv.errors import MIVError
from miv.runtime import SilentProgress

fuzz = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=6,
)
likely_instance = st.sampled_from(["a", "b", "a.png", "v.npy", "[1, 2]", "", "0", 1]) | st.lists(
    st.floats(width=32) | st.integers(-3, 3), max_size=3
)
likely_row = st.fixed_dictionaries(
    {
        "query": likely_instance | anything,
        "bag": st.lists(likely_instance, max_size=4) | st.sampled_from(["a|b", "a||b", '["a"]', "["]) | anything,
        "label": st.sampled_from([0, 1, "0", "1", True, 2]) | anything,
    },
    optional={
        "witnesses": st.lists(st.integers(-1, 3) | st.booleans(), max_size=3) | st.just("0|1") | anything,
        "split": st.sampled_from(["train", "test", "tset"]) | anything,
        "group": st.text(max_size=3) | anything,
        "query_id": st.integers(0, 3) | anything,
        "id": st.integers(0, 3) | anything,
        "text": st.text(max_size=3) | anything,
        "class": st.text(max_size=3) | anything,
    },
)


def sets_or_one_error(build: Callable[[], dict[str, ExemplarSet]], tmp_path: Path, *options: str) -> None:
    try:
        sets = build()
    except MIVError as error:
        message = str(error)
        assert str(tmp_path) in message or any(option in message for option in options)
        return
    assert sets
    for exemplars in sets.values():
        assert len(exemplars) >= 1
        assert exemplars.bag_sizes.min() >= 1
        assert set(exemplars.label.tolist()) <= {0, 1}


def build_table(path: Path, tmp_path: Path, **options: Any) -> None:
    options.setdefault("shares", Shares(0, 0))
    sets_or_one_error(lambda: FromTable(path, **options).build(SilentProgress()), tmp_path)


@fuzz
@given(content=st.binary(max_size=80), suffix=st.sampled_from(["csv", "tsv", "jsonl", "parquet"]))
def test_random_bytes(tmp_path: Path, content: bytes, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(content)
    build_table(path, tmp_path)


@fuzz
@given(content=st.text(alphabet='abq,|"[]{}:01\n\r\t\0 \ufeffü', max_size=60))
def test_random_text_under_a_good_header(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(("query,bag,label\n" + content).encode())
    build_table(path, tmp_path)


@fuzz
@given(rows=st.lists(likely_row, max_size=4), split_by=st.sampled_from(["instances", "query", "group"]))
def test_json_lines_that_are_almost_right(tmp_path: Path, rows: list[Any], split_by: Any) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    for shares in (Shares(0, 0), Shares(0.3, 0.3)):
        build_table(path, tmp_path, split_by=split_by, shares=shares)


@fuzz
@given(rows=st.lists(likely_row, max_size=4), instances=st.lists(likely_row, max_size=4))
def test_instance_tables_that_are_almost_right(tmp_path: Path, rows: list[Any], instances: list[Any]) -> None:
    path, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    second.write_text("\n".join(json.dumps(row) for row in instances))
    build_table(path, tmp_path, instances=second)


@fuzz
@given(
    query=st.sampled_from([pa.string(), pa.binary(), pa.float64(), pa.list_(pa.float32()), pa.timestamp("s")]),
    bag=st.sampled_from([pa.string(), pa.list_(pa.string()), pa.list_(pa.list_(pa.float64())), pa.int8()]),
    rows=st.integers(0, 3),
    values=st.booleans(),
)
def test_parquet_columns_of_every_type(tmp_path: Path, query: Any, bag: Any, rows: int, values: bool) -> None:
    samples = {
        pa.string(): "a", pa.binary(): b"\xff", pa.float64(): 1.5, pa.list_(pa.float32()): [1.0, 2.0],
        pa.timestamp("s"): 0, pa.list_(pa.string()): ["a", "b"],
        pa.list_(pa.list_(pa.float64())): [[1.0, 2.0]], pa.int8(): 1,
    }  # fmt: skip
    table = pa.table(
        {
            "query": pa.array([samples[query] if values else None] * rows, query),
            "bag": pa.array([samples[bag] if values else None] * rows, bag),
            "label": pa.array([1] * rows),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    build_table(tmp_path / "a.parquet", tmp_path)


@fuzz
@given(
    files=st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.sampled_from(["1.txt", "2.txt", "1.npy", "2.npy", "1.png", "x.md"]),
            st.binary(max_size=20) | st.just("text") | st.lists(st.floats(width=32), min_size=1, max_size=3),
        ),
        max_size=10,
    )
)
def test_folders_of_anything(tmp_path: Path, files: list[tuple[str, str, Any]]) -> None:
    root = tmp_path / f"root{len(list(tmp_path.iterdir()))}"
    root.mkdir()
    for name, file, content in files:
        (root / name).mkdir(exist_ok=True)
        if isinstance(content, list):
            with (root / name / file).open("wb") as opened:
                np.save(opened, np.array(content))
        else:
            (root / name / file).write_bytes(content.encode() if isinstance(content, str) else content)
    builder = FromFolder(root, drawing=Drawing(4, 1, 1, 1), shares=Shares(0, 0))
    sets_or_one_error(lambda: builder.build(SilentProgress()), tmp_path, "classes", "class", "split")
