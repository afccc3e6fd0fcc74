import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from miv.data import ExemplarSet
from miv.data.sources import Columns, FromTable, ImageForm, Shares
from miv.errors import MIVError
from miv.runtime import SilentProgress

ALL_TRAIN = Shares(0, 0)
ROWS: list[dict[str, Any]] = [
    {"query": "blue?", "bag": ["The sky is blue.", "Grass is green."], "label": 1, "witnesses": [0]},
    {"query": "red?", "bag": ["Grass is green."], "label": 0, "witnesses": []},
]


def write_json_lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def build(path: Path, **options: Any) -> dict[str, ExemplarSet]:
    options.setdefault("shares", ALL_TRAIN)
    return FromTable(path, **options).build(SilentProgress())


def as_lists(exemplars: ExemplarSet) -> list[tuple[Any, list[Any], int]]:
    values = exemplars.pool.values
    return [
        (values[exemplars.query[e]], values[exemplars.bag(e)].tolist(), int(exemplars.label[e]))
        for e in range(len(exemplars))
    ]


EXPECTED = [("blue?", ["The sky is blue.", "Grass is green."], 1), ("red?", ["Grass is green."], 0)]


COMMAS = """\ufeffquery,bag,label,witnesses\r
blue?,The sky is blue. | Grass is green.,1,0\r
red?,"[""Grass is green.""]",0,"""
SEMICOLONS = """query;bag;label;witnesses
blue?;"[""The sky is blue."", ""Grass is green.""]";1;0
red?;Grass is green.;0;
"""


@pytest.mark.parametrize(
    ("suffix", "content"),
    [
        ("jsonl", "\n".join(map(json.dumps, ROWS))),
        ("parquet", ""),
        ("csv", COMMAS),
        ("tsv", COMMAS.replace(",", "\t")),
        ("csv", SEMICOLONS),
    ],
)
def test_every_format_of_texts(tmp_path: Path, suffix: str, content: str) -> None:
    path = tmp_path / f"a.{suffix}"
    if content:
        path.write_bytes(content.encode())
    else:
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    exemplars = build(path)["train"]
    assert as_lists(exemplars) == EXPECTED
    assert len(exemplars.pool) == 4  # the shared sentence is stored once
    assert exemplars.witness.tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("given", "positions"),
    [
        ([0, 1], [0, 1]),
        ([1, 0], [0, 1]),
        ("0|1", [0, 1]),
        ("[2, 0]", [0, 2]),
        ([True, False, True], [0, 2]),
        ("2", [2]),
    ],
)
def test_numbers_are_positions_of_witnesses(tmp_path: Path, given: Any, positions: list[int]) -> None:
    row = {"query": "q", "bag": ["a", "b", "c"][: max(2, positions[-1] + 1)], "label": 1, "witnesses": given}
    witness = build(write_json_lines(tmp_path / "a.jsonl", [row]))["train"].witness
    assert np.flatnonzero(witness).tolist() == positions


def test_image_paths_are_relative_to_the_table(tmp_path: Path) -> None:
    folder = tmp_path / "фото"
    folder.mkdir()
    for number in range(3):
        Image.fromarray(np.full((5, 4), number, dtype=np.uint8)).save(folder / f"ж{number}.png")
    Image.fromarray(np.full((5, 4), 1, dtype=np.uint8)).save(folder / "copy of 1.png")
    row = {"query": "ж0.png", "bag": ["ж1.png", "ж2.png", "copy of 1.png"], "label": 1}
    exemplars = build(write_json_lines(folder / "a.jsonl", [row]))["train"]
    assert exemplars.pool.values[:, 0, 0].tolist() == [0, 1, 2]
    assert exemplars.bag(0).tolist() == [1, 2, 1]
    small = build(folder / "a.jsonl", images=ImageForm((2, 3), colour=True))["train"]
    assert small.pool.values.shape == (3, 2, 3, 3)


def test_vectors_in_cells_and_in_files(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.array([3.0, 4.0]))
    (tmp_path / "a.csv").write_text('query,bag,label\n"[1, 2]","[[3, 4], [5, 6.5]]",1\nv.npy,"[[1, 2]]",0\n')
    exemplars = build(tmp_path / "a.csv")["train"]
    assert exemplars.pool.values.tolist() == [[1, 2], [3, 4], [5, 6.5]]
    assert exemplars.query.tolist() == [0, 1]


def test_a_text_that_looks_like_a_path_needs_the_kind_said(tmp_path: Path) -> None:
    path = write_json_lines(tmp_path / "a.jsonl", [{"query": "open a.png", "bag": ["yes"], "label": 0}])
    with pytest.raises(MIVError, match=r"a\.jsonl, line 1, query: .*open a\.png: this image does not exist"):
        build(path)
    assert build(path, kind="text")["train"].pool.kind == "text"


def test_an_instance_table(tmp_path: Path) -> None:
    (tmp_path / "instances.csv").write_text("id,text,class\n1,one,odd\n2,two,even\n3,three,odd\n4,four,even\n")
    path = write_json_lines(tmp_path / "a.jsonl", [{"query": 1, "bag": ["2", 3], "label": True}])
    exemplars = build(path, instances=tmp_path / "instances.csv")["train"]
    assert as_lists(exemplars) == [("one", ["two", "three"], 1)]
    assert exemplars.pool.classes.tolist() == ["odd", "even", "odd"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,text\n1,a\n2,b\n1,c\n", r"instances\.csv, line 4: the id '1' is already in .*line 2"),
        ("idd,text\n1,a\n", r"line 1: There is no column 'id'\. Did you mean 'idd'\?"),
        ("id,text,class\n1,a,x\n2,b,\n", "some do not"),
        ("id,text,class\n1,a,x\n2,a,y\n", r"line 3: the class is 'y', but .*line 2 says 'x'"),
        ("id,text\n", "no rows"),
        ("id,vector\n1,[1]\n2,[NaN]\n", r"line 3: NaN is not a number"),
        ('id,vector\n1,[1]\n2,"[1, 2]"\n', r"line 3: a vector of 2 numbers, but .*line 2 has a vector of 1"),
    ],
)
def test_bad_instance_tables(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "instances.csv").write_text(content)
    path = write_json_lines(tmp_path / "a.jsonl", [{"query": 1, "bag": [2], "label": 1}])
    with pytest.raises(MIVError, match=message):
        build(path, instances=tmp_path / "instances.csv")


@pytest.mark.parametrize("column", ["witnesses", "split", "group", "query_id"])
def test_a_column_that_was_named_must_be_there(tmp_path: Path, column: str) -> None:
    row = {"query": "a", "bag": ["b"], "label": 1, "gold": [0] if column == "witnesses" else "train"}
    path = write_json_lines(tmp_path / "a.jsonl", [{**row, "gold": ""} if column == "witnesses" else row, row])
    assert len(build(path, columns=Columns(**{column: "gold"}))["train"]) == 2
    with pytest.raises(MIVError, match=r"a\.jsonl, line 1: There is no column 'golds'\. Did you mean 'gold'"):
        build(path, columns=Columns(**{column: "golds"}))


def test_a_split_column_decides(tmp_path: Path) -> None:
    rows = [{**ROWS[0], "split": split, "group": split[0]} for split in ("test", "train", "test")]
    sets = build(write_json_lines(tmp_path / "a.jsonl", rows))
    assert {split: len(exemplars) for split, exemplars in sets.items()} == {"train": 1, "test": 2}
    assert sets["test"].group.tolist() == ["t", "t"]


def texts(row: int, bag: list[int]) -> dict[str, Any]:
    return {"query": f"q{row}", "bag": [f"t{number}" for number in bag], "label": row % 2}


def test_without_a_split_column_no_instance_is_in_two_splits(tmp_path: Path, warned: list[str]) -> None:
    rows = [texts(row, [row // 3, 1000 + row]) for row in range(60)]  # 20 clusters of 3
    sets = build(write_json_lines(tmp_path / "a.jsonl", rows), shares=Shares(0.2, 0.1))
    assert {split: len(exemplars) for split, exemplars in sets.items()} == {"train": 42, "validation": 12, "test": 6}
    used = [set(exemplars.pool.values) for exemplars in sets.values()]
    assert sum(map(len, used)) == len(set.union(*used)) == 60 + 60 + 20
    assert "split by instances: 42 train, 12 validation, 6 test" in " ".join(warned)
    assert "more than one split" not in " ".join(warned)
    assert "Shared values" not in " ".join(warned)


def test_query_ids_stay_together_too(tmp_path: Path) -> None:
    rows = [{**texts(row, [row]), "query_id": row % 10} for row in range(40)]
    sets = build(write_json_lines(tmp_path / "a.jsonl", rows), shares=Shares(0.2, 0.2))
    ids = [{int(text[1:]) % 10 for text in exemplars.pool.values} for exemplars in sets.values()]
    assert [len(group) for group in ids] == [6, 2, 2]
    assert len(set.union(*ids)) == 10


def test_where_everything_is_shared_the_remedy_is_named(tmp_path: Path, warned: list[str]) -> None:
    rows = [{**texts(row % 10, [0, row]), "group": f"g{row % 5}"} for row in range(40)]
    path = write_json_lines(tmp_path / "a.jsonl", rows)
    with pytest.raises(MIVError, match=r"cannot be split by instances.*--split-by query"):
        build(path, shares=Shares(0.1, 0.1))
    by_query = build(path, shares=Shares(0.2, 0.2), split_by="query")
    queries = [{e[0] for e in as_lists(exemplars)} for exemplars in by_query.values()]
    assert [len(group) for group in queries] == [6, 2, 2]
    assert len(set.union(*queries)) == 10
    assert "instances in more than one split" in " ".join(warned)
    by_group = build(path, shares=Shares(0.2, 0.2), split_by="group")
    groups = [set(exemplars.group) for exemplars in by_group.values()]
    assert sum(map(len, groups)) == len(set.union(*groups)) == 5


@pytest.mark.parametrize("unknown", [{}, {"witnesses": None}])
def test_witnesses_may_be_known_in_one_split_only(tmp_path: Path, warned: list[str], unknown: dict[str, None]) -> None:
    rows: list[dict[str, Any]] = [
        {"query": "a", "bag": ["b", "c"], "label": 1, "split": "train", **unknown},
        {"query": "d", "bag": ["e", "f"], "label": 1, "split": "test", "witnesses": [1]},
        {"query": "g", "bag": ["h"], "label": 0, "split": "test", **unknown},
    ]
    sets = build(write_json_lines(tmp_path / "a.jsonl", rows))
    assert sets["train"].witness is None
    assert sets["test"].witness.tolist() == [False, True, False]
    assert "contradicts" not in " ".join(warned)


def test_doubtful_rows_are_told(tmp_path: Path, warned: list[str]) -> None:
    rows = [
        {"query": "a", "bag": ["b"], "label": 1, "witness": [0], "witnesses": [0]},
        {"query": "a", "bag": ["b"], "label": 0, "witnesses": [0]},
        {"query": "a", "bag": ["a"], "label": 1, "witnesses": [True]},
    ]
    build(write_json_lines(tmp_path / "a.jsonl", rows))
    assert "1 row with a label that contradicts their witnesses, first" in " ".join(warned)
    assert "a.jsonl, line 2; see" in " ".join(warned)
    assert "1 row with their query in their own bag, first" in " ".join(warned)
    rows = [{"query": "a", "bag": ["b"], "label": 1, "witneses": [0]}]
    build(write_json_lines(tmp_path / "b.jsonl", rows))
    assert "the column 'witneses' is not used. Did you mean 'witnesses'?" in " ".join(warned)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bag": []}, "line 2: the bag is empty"),
        ({"bag": {"a": 1}}, "line 2: the bag must be a list"),
        ({"bag": ["a", ""]}, "line 2, bag: the text is empty"),
        ({"bag": ["a", None]}, "line 2, bag: expected a text, got None"),
        ({"bag": '["a", '}, "line 2, bag: broken JSON"),
        ({"label": 2}, "line 2: the label is 2. Expected 0"),
        ({"label": 0.5}, "line 2: the label is 0.5"),
        ({"witnesses": [1]}, "line 2: the witness 1 is not a position in the bag, 0 to 0"),
        ({"witnesses": [True, False]}, "line 2: got 2 true or false"),
        ({"witnesses": 0}, "line 2: the witnesses must be a list"),
        ({"bag": ["a", "b"], "witnesses": [0, 0]}, r"line 2: the witness 0 is given twice"),
        ({"bag": ["a", "b"], "witnesses": [True, 1]}, "line 2: the witness True is not a position"),
        ({"query": [1.0]}, "line 2, query: expected a text"),
        ({"query": "\ud800"}, "line 2, query: the text has a lone surrogate"),
        ({"split": "trian"}, r"line 2: the column 'split' is empty in earlier rows"),
    ],
)
def test_bad_cells_are_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = write_json_lines(tmp_path / "a.jsonl", [ROWS[0], {**ROWS[1], **change}])
    with pytest.raises(MIVError, match=message):
        build(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b"[1]\n", "line 1: expected one JSON object"),
        ("a.jsonl", b"", "no rows"),
        ("a.jsonl", b'{"query": "a", "bags": ["b"]}', r"There is no column 'bag'\. Did you mean 'bags'"),
        ("a.jsonl", b'{"query": [1e999], "bag": [[1]], "label": 1}', "line 1, query: number 0 .* infinite"),
        ("a.jsonl", b'{"query": [1], "bag": [[1, 2]], "label": 1}', "bag: a vector of 2 num.*, but .*query"),
        ("a.jsonl", b'{"query": ["1"], "bag": [[1]], "label": 1}', "a list of numbers; it contains '1'"),
        ("a.jsonl", b'{"query": 1' + b"0" * 5000 + b"}", "line 1: could not read the JSON"),
        ("a.jsonl", b'{"query": "caf\xe9"}', r"line 1: not UTF-8 text \(byte 0xe9\)"),
        ("a.jsonl", b'{"split": "trian", "query": "a", "bag": "b", "label": 1}', "line 1: .*mean 'train'"),
        ("a.csv", b"query,bag,label\na,b\n", "line 2: 2 cells, but the header has 3"),
        ("a.csv", b'query,bag,label\na,"b\nc",1\nx,"y\n', r"line 4: broken CSV: unexpected end"),
        ("a.csv", b'query,bag,label\na,"b\nc",1\nx,y,3\n', r"line 4: the label is '3'"),
        ("a.csv", b"query,bag,bag\na,b,1\n", "line 1: the header has the column 'bag' twice"),
        ("a.csv", b"\nquery;bag\na;b\n", r"line 2: There is no column 'label'"),
        ("a.csv", b"cl,p0,p1\n1,0,0\n", r"Columns: 'cl', 'p0', 'p1'\. Expected one row per exemplar.*from-folder"),
        ("a.csv", b"query;bag;label\na;b;c;1\n", r"line 2: 4 cells.* contain semicolons"),
        ("a.csv", b"query,bag,label\nv.npy,b,1\n", r"line 2, query: .*v\.npy: the features file does not exist"),
        ("a.parquet", b"PAR1 not really", "not a Parquet file, or damaged"),
        ("a.xlsx", b"x", "unknown table format"),
    ],
)  # fmt: skip
def test_bad_tables_are_refused_with_their_line(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(MIVError, match=message) as caught:
        build(tmp_path / name)
    assert name in str(caught.value)


def test_a_missing_image_names_its_row(tmp_path: Path) -> None:
    Image.fromarray(np.zeros((4, 4), dtype=np.uint8)).save(tmp_path / "a.png")
    rows = [{"query": "a.png", "bag": ["a.png"], "label": 1}, {"query": "a.png", "bag": ["b.png"], "label": 1}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    with pytest.raises(MIVError, match=r"a\.parquet, row 2, bag: .*b\.png: this image does not exist") as caught:
        build(tmp_path / "a.parquet")
    assert "'|'" not in str(caught.value)
    (tmp_path / "b.csv").write_text("query,bag,label\na.png,a.png;a.png,1\n")
    with pytest.raises(MIVError, match=r"b\.csv, line 2, bag: .*does not exist.*parts of a list with '\|'"):
        build(tmp_path / "b.csv")


def test_a_vector_in_a_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "v.npy")
    path = write_json_lines(tmp_path / "a.jsonl", [{"query": "v.npy", "bag": [[1.0]], "label": 0}])
    with pytest.raises(MIVError, match=r"line 1, query: .*v\.npy: not a file"):
        build(path)


TABLE = """claim,bag,label,split
a,b|c,1,train
d,e,0,train
f,g|h,1,test
"""


def test_an_exemplar_in_two_splits_is_told(tmp_path: Path, warned: list[str]) -> None:
    rows = [
        {"query": "a", "bag": ["b", "c"], "label": 1, "split": "train"},
        {"query": "d", "bag": ["e"], "label": 0, "split": "train"},
        {"query": "a", "bag": ["c", "b"], "label": 1, "split": "test"},  # in another order
        {"query": "a", "bag": ["b"], "label": 0, "split": "test"},
    ]
    build(write_json_lines(tmp_path / "a.jsonl", rows))
    assert "1 exemplar in more than one split, such as row 1 (train) and row 3 (test)" in " ".join(warned)


def test_a_column_that_differs_in_case_is_told(tmp_path: Path, warned: list[str]) -> None:
    build(write_json_lines(tmp_path / "a.jsonl", [{**row, "Label": 1 - row["label"]} for row in ROWS]))
    assert "there are the columns 'label' and 'Label'. Only 'label' is used" in " ".join(warned)
