"""References, query ids and names from arrays, tables and folders."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from miv import ExemplarSet, MIVError
from miv.data.sources import splits_from_folder, splits_from_table

WHOLE: Any = {"validation": 0.0, "test": 0.0}  # one split


def test_arrays_take_references_with_or_without_queries() -> None:
    bags = [[[0.9, 0.1], [0.0, 1.0]], [[0.9, 0.1]]]
    both = ExemplarSet.from_arrays(
        [[1.0, 0.0], [0.0, 1.0]], bags, [1, 0], references=[[[0.8, 0.2], [1.0, 0.0]], []], query_ids=["a", "b"]
    )
    assert both.pool.values[both.references(0)].tolist() == np.array([[1.0, 0.0], [0.8, 0.2]], np.float32).tolist()
    assert not both.subset([1]).has_references
    alone = ExemplarSet.from_arrays(None, bags, [1, 0], references=[[[1.0, 0.0], [0.8, 0.2]], [[0.0, 1.0]]])
    assert [len(alone.references(0)), len(alone.references(1))] == [2, 1]
    with pytest.raises(MIVError, match="neither queries nor references"):
        ExemplarSet.from_arrays(None, bags, [1, 0])
    with pytest.raises(MIVError, match="Exemplar 1 has no references"):
        ExemplarSet.from_arrays(None, bags, [1, 0], references=[[[1.0, 0.0]], []])
    with pytest.raises(MIVError, match="are one text"):
        ExemplarSet.from_arrays(None, [["a"]], [1], references=["a text"])


def test_a_table_has_references_and_query_ids(tmp_path: Path) -> None:
    rows = [
        {"query": "sky?", "references": ["heaven?", "sky?"], "bag": ["The sky is blue."], "label": 1, "query_id": 7},
        {"query": None, "references": ["grass?"], "bag": ["It rains."], "label": 0, "query_id": 8},
    ]
    path = tmp_path / "claims.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    exemplars = splits_from_table(path, **WHOLE)["train"]
    assert exemplars.pool.values[exemplars.references(0)].tolist() == ["sky?", "heaven?"]
    assert exemplars.pool.values[exemplars.references(1)].tolist() == ["grass?"]
    assert exemplars.query_id.tolist() == ["7", "8"]
    assert exemplars.pool.names is None  # texts have no file


def test_a_table_without_any_query_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "claims.csv"
    path.write_text("references,bag,label\nsky?|heaven?,blue|red,1\n,blue,0\n")
    with pytest.raises(MIVError, match=r"line 3: there is no query"):
        splits_from_table(path, **WHOLE)["train"]


def test_references_keep_exemplars_in_one_split(tmp_path: Path) -> None:
    """All exemplars here share an instance through their references, so nothing can be divided."""
    path = tmp_path / "claims.jsonl"
    rows = [{"references": [f"q{n}", f"q{n + 1}"], "bag": [f"b{n}"], "label": n % 2} for n in range(20)]
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(MIVError, match="would be empty, because shared values link nearly all exemplars"):
        splits_from_table(path)


def test_names_are_the_files_of_the_instances(tmp_path: Path) -> None:
    for name in ("anna", "bo", "cy"):
        (tmp_path / "faces" / name).mkdir(parents=True)
        for number in range(4):
            pixels = np.full((4, 4), 60 * "abc".index(name[0]) + number, np.uint8)
            Image.fromarray(pixels).save(tmp_path / "faces" / name / f"{number}.png")
    drawn = splits_from_folder(tmp_path / "faces", exemplars=6, bag_mean=2, bag_max=3, **WHOLE)["train"]
    for name, kind, value in zip(drawn.pool.names, drawn.pool.classes, drawn.pool.values, strict=True):
        assert name.startswith(f"{kind}/")
        assert (np.asarray(Image.open(tmp_path / "faces" / name)) == value).all()
    (tmp_path / "pairs.csv").write_text("query,bag,label\nfaces/bo/1.png,faces/bo/2.png|faces/cy/0.png,1\n")
    read = splits_from_table(tmp_path / "pairs.csv", **WHOLE)["train"]
    assert read.pool.names[read.query[0]] == "faces/bo/1.png"
