"""Written whole or not at all: a full disk, Ctrl-C, older sets, foreign files."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from miv import ExemplarSet, MIVError
from miv.data import load_splits, save_splits
from tests.data.example_sets import example_set

ORIGIN: dict[str, Any] = {"builder": "test", "options": {}, "seed": None}


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def break_half_way(monkeypatch: pytest.MonkeyPatch, place: str, error: BaseException) -> None:
    """Let the step write some bytes and then fail, as a full disk does."""

    def fail(*arguments: Any, **options: Any) -> None:
        path = next(value for value in arguments if isinstance(value, Path))
        path.write_bytes(b"half")
        raise error

    steps = {"pool": "numpy.save", "table": "pyarrow.parquet.write_table", "manifest": "pathlib.Path.write_text"}
    monkeypatch.setattr(steps[place], fail)


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("place", ["table", "pool", "manifest"])
@pytest.mark.parametrize(
    ("error", "expected", "message"),
    [
        (FULL, MIVError, "No space left on device"),
        (KeyboardInterrupt(), KeyboardInterrupt, None),
    ],
)
@pytest.mark.parametrize("older", [False, True])
def test_what_goes_wrong_half_way_leaves_nothing_and_damages_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    error: BaseException,
    expected: type[BaseException],
    message: str | None,
    older: bool,
) -> None:
    if older:
        example_set("features").save(tmp_path / "set", **ORIGIN)
    before = content(tmp_path)
    break_half_way(monkeypatch, place, error)
    with pytest.raises(expected, match=message):
        example_set("grey").save(tmp_path / "set", **ORIGIN, overwrite=True)
    assert content(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == (["set"] if older else [])


def test_a_rename_that_fails_brings_the_older_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example_set("text").save(tmp_path / "set", **ORIGIN)
    before = content(tmp_path)
    rename: Callable[[Path, Path], Path] = Path.rename

    def fail_for_the_new(self: Path, target: Path) -> Path:
        if self.name.endswith(".part"):
            raise FULL
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail_for_the_new)
    with pytest.raises(MIVError, match="No space left"):
        example_set("grey").save(tmp_path / "set", **ORIGIN, overwrite=True)
    monkeypatch.undo()
    assert content(tmp_path) == before


def test_an_older_set_is_replaced_only_when_asked(tmp_path: Path) -> None:
    example_set("text").save(tmp_path / "set", **ORIGIN)
    with pytest.raises(MIVError, match=r"already contains a set. Choose another folder, or use --overwrite"):
        example_set("grey").save(tmp_path / "set", **ORIGIN)
    assert ExemplarSet.load(tmp_path / "set").pool.kind == "text"
    example_set("grey").save(tmp_path / "set", **ORIGIN, overwrite=True)
    assert ExemplarSet.load(tmp_path / "set", verify=True).fingerprint == example_set("grey").fingerprint
    save_splits({"train": example_set("text")}, tmp_path / "set", **ORIGIN, overwrite=True)
    assert list(load_splits(tmp_path / "set")) == ["train"]
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


@pytest.mark.parametrize(("inside", "out"), [("here", "."), ("here", "../here"), ("here/train", "..")])
def test_the_current_folder_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: str, out: str
) -> None:
    save_splits({"train": example_set("text")}, tmp_path / "here", **ORIGIN)
    before = content(tmp_path)
    monkeypatch.chdir(tmp_path / inside)
    with pytest.raises(MIVError, match=r"is the current folder or contains it.*Choose a new name"):
        save_splits({"train": example_set("grey")}, out, **ORIGIN, overwrite=True)
    assert content(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["here"]


def test_a_mapped_set_can_be_saved_over_itself(tmp_path: Path) -> None:
    example_set("grey").save(tmp_path / "set", **ORIGIN)
    ExemplarSet.load(tmp_path / "set").save(tmp_path / "set", **ORIGIN, overwrite=True)
    assert ExemplarSet.load(tmp_path / "set", verify=True).fingerprint == example_set("grey").fingerprint


def test_never_replaces_what_is_not_a_set(tmp_path: Path) -> None:
    holiday = tmp_path / "home" / "train" / "holiday.jpg"
    holiday.parent.mkdir(parents=True)
    holiday.write_bytes(b"sun")
    with pytest.raises(MIVError, match=r"contains 'train/holiday.jpg', which is not part of a set"):
        save_splits({"train": example_set("text")}, tmp_path / "home", **ORIGIN, overwrite=True)
    with pytest.raises(MIVError, match="contains 'train', which is not part of a set"):
        example_set("text").save(tmp_path / "home", **ORIGIN, overwrite=True)
    with pytest.raises(MIVError, match="is not a folder"):
        example_set("text").save(holiday, **ORIGIN, overwrite=True)
    assert holiday.read_bytes() == b"sun"


def test_an_empty_folder_is_used_and_missing_parents_are_made(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    example_set("text").save(tmp_path / "empty", **ORIGIN)
    example_set("text").save(tmp_path / "a" / "b", **ORIGIN)
    assert len(ExemplarSet.load(tmp_path / "a" / "b")) == len(ExemplarSet.load(tmp_path / "empty")) == 3
