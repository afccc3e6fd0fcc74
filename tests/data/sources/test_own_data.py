"""``ExemplarSet.from_folder`` and ``from_table``: one set; the splits come from functions beside them."""

from pathlib import Path
from typing import Any

import pytest
from tests.data.sources.test_folder import make_vectors

from miv import ExemplarSet, MIVError
from miv.data.sources import splits_from_folder, splits_from_table

TABLE = """claim,bag,label,split
a,b|c,1,train
d,e,0,train
f,g|h,1,test
"""


def test_a_table_as_one_set_as_a_split_and_as_splits(tmp_path: Path) -> None:
    table = tmp_path / "claims.csv"
    table.write_text(TABLE)
    whole = ExemplarSet.from_table(table, query_column="claim")
    assert (len(whole), whole.pool.values[whole.query].tolist()) == (3, ["a", "d", "f"])
    test = ExemplarSet.from_table(str(table), split="test", query_column="claim")
    assert test.pool.values[test.bag(0)].tolist() == ["g", "h"]
    splits = splits_from_table(table, query_column="claim")
    assert {split: len(one) for split, one in splits.items()} == {"train": 2, "test": 1}
    with pytest.raises(MIVError, match="no split 'validation'"):
        ExemplarSet.from_table(table, split="validation", query_column="claim")


def test_a_folder_as_one_set_as_a_split_and_as_splits(tmp_path: Path) -> None:
    root = make_vectors(tmp_path / "flat", dict.fromkeys("abcdefgh", 6))
    few: dict[str, Any] = {"exemplars": 20, "bag_mean": 3, "bag_max": 5}
    whole = ExemplarSet.from_folder(root, **few)
    assert (len(whole), set(whole.pool.classes)) == (20, set("abcdefgh"))
    splits = splits_from_folder(root, **few)
    assert list(splits) == ["train", "validation", "test"]
    assert ExemplarSet.from_folder(root, split="test", **few).fingerprint == splits["test"].fingerprint
    make_vectors(tmp_path / "given", {f"{split}/{name}": 6 for split in ("train", "test") for name in "abc"})
    with pytest.raises(MIVError, match=r"contains the splits train, test\. Choose one"):
        ExemplarSet.from_folder(tmp_path / "given", **few)
