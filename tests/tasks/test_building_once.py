"""Sets in the cache: checked when they are opened, and built again if they are damaged."""

import errno
import shutil
from pathlib import Path
from typing import Any

import pytest

from miv.data import ExemplarSet
from miv.errors import MissingLibrary, MIVWarning
from miv.runtime import SilentProgress
from miv.tasks import build_once

SMALL: dict[str, Any] = {"writers": 12, "held_out_writers": 6, "copies": 2}


def digits(folder: Path) -> dict[str, str]:
    found = build_once("digits-twin", SMALL, folder, SilentProgress())
    return {split: exemplars.fingerprint for split, exemplars in found.items()}


@pytest.mark.parametrize("damage", ["cut array", "zeros", "cut table", "no manifest", "no test", "a file instead"])
def test_a_damaged_set_is_built_again(tmp_path: Path, damage: str) -> None:
    first = digits(tmp_path)
    built = next(tmp_path.glob("digits-twin-*"))
    array = built / "train" / "pool.npy"
    whole = array.read_bytes()
    if damage == "cut array":
        array.write_bytes(whole[:-1000])
    elif damage == "zeros":
        array.write_bytes(whole[:1000] + bytes(5000) + whole[6000:])
    elif damage == "cut table":
        (built / "test" / "exemplars.parquet").write_bytes(b"PAR1")
    elif damage == "no manifest":
        (built / "validation" / "manifest.json").unlink()
    elif damage == "no test":
        shutil.rmtree(built / "test")
    else:
        shutil.rmtree(built)
        built.write_text("?")
    with pytest.warns(MIVWarning, match="damaged.*built again"):
        assert digits(tmp_path) == first
    assert array.read_bytes() == whole
    assert (built / "test" / "manifest.json").is_file()


@pytest.mark.parametrize("failure", [OSError(errno.EMFILE, "Too many open files"), MissingLibrary("needs pyarrow")])
def test_sets_that_cannot_be_read_now_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    first = digits(tmp_path)
    array = next(tmp_path.glob("digits-twin-*")) / "train" / "pool.npy"
    written = array.stat().st_ino

    def fail(*_: object) -> str:
        raise failure

    monkeypatch.setattr("miv.data.folder.sha256_of", fail)
    with pytest.warns(MIVWarning, match="cannot be read .*goes on without"):
        assert digits(tmp_path) == first
    assert array.stat().st_ino == written


def test_sets_in_the_cache_are_not_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = digits(tmp_path)

    def built_again(*_: object) -> dict[str, ExemplarSet]:
        raise AssertionError("built again")

    monkeypatch.setattr("miv.tasks.digits_twin.SyntheticDigits.build", built_again)
    assert digits(tmp_path) == first


def test_sets_that_cannot_be_stored_are_used_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.warns(MIVWarning, match="cannot be written"):
        found = digits(tmp_path / "file" / "cache")
    assert found == digits(tmp_path / "cache")
