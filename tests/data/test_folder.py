import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from miv import ExemplarSet, InstancePool, MIVError
from miv.data import load_splits, save_splits
from miv.files.atomic import sha256_of
from tests.data.example_sets import KINDS, example_set

ORIGIN: dict[str, Any] = {"builder": "test", "options": {"size": 3, "name": "é"}, "seed": 7}


def rehash(folder: Path) -> None:
    """Make the manifest agree with files that a test has changed, so that later checks are reached."""
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    for name in manifest["files"]:
        path = folder / name
        manifest["files"][name] = {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
    (folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")


def change_manifest(folder: Path, **changes: Any) -> None:
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    (folder / "manifest.json").write_text(json.dumps({**manifest, **changes}), "utf-8")


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verify", [False, True])
def test_what_is_saved_is_loaded(tmp_path: Path, kind: str, bare: bool, verify: bool) -> None:
    exemplars = example_set(kind, bare=bare)
    exemplars.save(tmp_path / "sät", **ORIGIN)
    loaded = ExemplarSet.load(tmp_path / "sät", verify=verify)
    assert loaded.fingerprint == exemplars.fingerprint
    assert loaded.pool.is_mapped == (kind != "text")


def test_the_folder_is_what_the_documents_say(tmp_path: Path) -> None:
    example_set("grey").save(tmp_path / "set", **ORIGIN)
    folder = tmp_path / "set"
    assert sorted(path.name for path in folder.iterdir()) == [
        "exemplars.parquet",
        "manifest.json",
        "pool.npy",
        "pool.parquet",
    ]
    assert pq.read_table(folder / "exemplars.parquet").to_pylist() == [
        {"query": 0, "bag": [1, 2], "label": 1, "witness": [True, False], "group": "3"},
        {"query": 1, "bag": [3], "label": 0, "witness": [False], "group": "sieben"},
        {"query": 2, "bag": [5, 4, 0], "label": 1, "witness": [False, True, True], "group": "é"},
    ]
    assert pq.read_table(folder / "pool.parquet").column_names == ["class"]
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    files = manifest.pop("files")
    assert manifest == {
        "format": "miv-exemplars",
        "version": 2,
        **ORIGIN,
        "kind": "image",
        "image_steps": None,
        "miv": manifest["miv"],
    }
    for name, entry in files.items():
        assert entry == {"bytes": (folder / name).stat().st_size, "sha256": sha256_of(folder / name)}


def test_splits_are_saved_together(tmp_path: Path) -> None:
    sets = {"train": example_set("text"), "test": example_set("text", bare=True)}
    save_splits(sets, tmp_path / "splits", **ORIGIN)
    loaded = load_splits(tmp_path / "splits")
    assert list(loaded) == ["train", "test"]
    assert all(loaded[name].fingerprint == sets[name].fingerprint for name in sets)
    with pytest.raises(MIVError, match=r"no split 'valid'. Did you mean 'validation'"):
        save_splits({"valid": sets["test"]}, tmp_path / "other", **ORIGIN)
    with pytest.raises(MIVError, match="no splits to save"):
        save_splits({}, tmp_path / "other", **ORIGIN)
    with pytest.raises(MIVError, match="Save one set per split"):
        load_splits(tmp_path / "splits" / "train")
    assert [path.name for path in tmp_path.iterdir()] == ["splits"]


def test_refuses_what_cannot_be_written(tmp_path: Path) -> None:
    half = InstancePool("text", np.array(["fine", "é", "\ud83d"], dtype=object))
    with pytest.raises(MIVError, match=r"text\[2\] is '\\ud83d', which has a lone surrogate"):
        ExemplarSet.from_lists(half, [0], [[1]], [1]).save(tmp_path / "set", **ORIGIN)
    with pytest.raises(MIVError, match="cannot become JSON"):
        example_set("text").save(tmp_path / "set", builder="test", options={"a": object()}, seed=None)
    with pytest.raises(MIVError, match="cannot become JSON"):
        example_set("text").save(tmp_path / "set", builder="test", options={"a": float("nan")}, seed=None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "zip"}, "not the manifest of a set"),
        ({"version": 3}, "has format version 3. Expected at most 2"),
        ({"kind": "features"}, "values of kind 'features' is uint8"),
        ({"kind": "sound"}, "There is no kind of instance 'sound'"),
        ({"files": {}}, "does not list exemplars.parquet"),
        ({"files": {"exemplars.parquet": {"bytes": 1}}}, "has no 'files.exemplars.parquet.sha256'"),
    ],
)
def test_refuses_a_manifest_that_does_not_fit(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    example_set("grey").save(tmp_path / "set", **ORIGIN)
    change_manifest(tmp_path / "set", **changes)
    with pytest.raises(MIVError, match=message):
        ExemplarSet.load(tmp_path / "set")


def test_names_the_file_that_is_missing_short_or_exchanged(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    with pytest.raises(MIVError, match="There is no folder"):
        ExemplarSet.load(folder)
    example_set("features").save(folder, **ORIGIN)
    pool = (folder / "pool.npy").read_bytes()

    (folder / "pool.npy").write_bytes(pool[:-1])
    with pytest.raises(MIVError, match=f"pool.npy has {len(pool) - 1} bytes. Expected {len(pool)}"):
        ExemplarSet.load(folder)

    (folder / "pool.npy").write_bytes(pool[:-1] + b"\x00")
    ExemplarSet.load(folder)  # the values of a mapped pool are not read when it is opened
    with pytest.raises(MIVError, match=r"pool.npy does not match its hash"):
        ExemplarSet.load(folder, verify=True)

    (folder / "pool.npy").unlink()
    with pytest.raises(MIVError, match=r"pool.npy is missing"):
        ExemplarSet.load(folder)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("query", pa.array([0, 1, 6], pa.int32()), r"query\[2\] is 6. Expected an index from 0 to 5"),
        ("query", pa.array([0, None, 2], pa.int32()), "1 empty cells in 'query'"),
        ("query", pa.array([0, 1, 2], pa.int64()), "Expected one 'query' of type int32"),
        ("label", pa.array([0, 1, 2], pa.int8()), "label of exemplar 2 is 2. Expected 0 or 1"),
        ("bag", pa.array([[1, 2], [], [5, 4, 0]], pa.list_(pa.int32())), "Exemplar 1 has an empty bag"),
        ("bag", pa.array([[1, 2], None, [5]], pa.list_(pa.int32())), "1 empty cells in 'bag'"),
        ("bag", pa.array([[1, 2], [None], [5]], pa.list_(pa.int32())), "1 empty entries in 'bag'"),
        (
            "witness",
            pa.array([[True], [True], [True]], pa.list_(pa.bool_())),
            "row 0: 'witness' and 'bag' have different lengths",
        ),
        ("group", pa.array(["a", None, "b"]), "1 empty cells in 'group'"),
    ],
)
def test_refuses_a_table_that_does_not_fit(tmp_path: Path, column: str, values: Any, message: str) -> None:
    folder = tmp_path / "set"
    example_set("grey", bare=column in ("query", "bag", "label")).save(folder, **ORIGIN)
    table = pq.read_table(folder / "exemplars.parquet")
    place = table.column_names.index(column)
    pq.write_table(table.set_column(place, column, values), folder / "exemplars.parquet")
    rehash(folder)
    with pytest.raises(MIVError, match=message):
        ExemplarSet.load(folder)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_manifest_that_is_no_file_does_not_hang(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "manifest.json")
    with pytest.raises(MIVError, match=r"manifest.json is not a file"):
        ExemplarSet.load(tmp_path)


def test_a_column_that_unpacks_to_far_more_than_its_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "set"
    pool = InstancePool("text", np.array(["a" * 5_000_000, "b"], dtype=object))
    ExemplarSet.from_lists(pool, [0], [[1]], [0]).save(folder, **ORIGIN)
    ExemplarSet.load(folder)
    monkeypatch.setattr("miv.files.parquet._FREE_BYTES", 1_000_000)
    with pytest.raises(MIVError, match=r"pool.parquet has .* bytes and unpacks to"):
        ExemplarSet.load(folder)


@pytest.mark.parametrize(
    "array",
    [
        np.array([[1], ["x"]], dtype=object),  # would need pickle
        np.full((6, 2), np.nan, np.float32),
        np.zeros((6, 2), np.float64),
        np.zeros((2, 6), np.float32),
    ],
)
def test_refuses_a_pool_that_does_not_fit(tmp_path: Path, array: Any) -> None:
    folder = tmp_path / "set"
    example_set("features").save(folder, **ORIGIN)
    np.save(folder / "pool.npy", array, allow_pickle=True)
    rehash(folder)
    with pytest.raises(MIVError, match=r"NumPy array|NaN or infinite|float64|class has|classes has"):
        ExemplarSet.load(folder, verify=True)


def test_folders_of_instances_are_not_sets(tmp_path: Path) -> None:
    """Somebody who trains on images in train/ and test/ is told how to build sets from them."""
    for split in ("train", "test"):
        (tmp_path / "digits" / split / "seven").mkdir(parents=True)
    with pytest.raises(MIVError, match=r"miv data from-folder .*digits --out .*digits-sets"):
        load_splits(tmp_path / "digits")
