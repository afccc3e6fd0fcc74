"""A damaged cache is discarded and made again; one that cannot be written is left out. A run never fails for it."""

import errno
import shutil
from pathlib import Path

import numpy as np
import pytest

import miv
from miv.errors import MissingLibrary, MIVError, MIVWarning
from miv.training.run import Machine, train
from tests.training.tiny import IMAGES, assert_same_run, run_tiny, tiny_sets

CONTRAST = {"contrast_epochs": 1, "contrast_batch_size": 8, "max_epochs": 1}


@pytest.fixture(scope="module")
def contrast_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("reference") / "run"
    run_tiny("image", run, **CONTRAST)
    return run


@pytest.mark.parametrize(
    ("name", "damage"), [("last.ckpt", "cut"), ("last.ckpt", "changed"), ("best/model.safetensors", "cut")]
)
def test_a_damaged_contrast_stage_is_made_again(contrast_run: Path, tmp_path: Path, name: str, damage: str) -> None:
    shutil.copytree(contrast_run.parent / "cache", tmp_path / "cache")
    kept = next(path for path in (tmp_path / "cache" / "contrast").iterdir() if path.is_dir())
    whole = (kept / name).read_bytes()
    middle = len(whole) // 2
    changed = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    (kept / name).write_bytes(whole[:middle] if damage == "cut" else changed)
    with pytest.warns(MIVWarning, match="contrast.*is damaged .*computed again"):
        run_tiny("image", tmp_path / "run", **CONTRAST)
    assert_same_run(contrast_run, tmp_path / "run")
    assert (kept / "best/model.safetensors").read_bytes() == (
        contrast_run / "checkpoints/contrast/best/model.safetensors"
    ).read_bytes()


@pytest.mark.parametrize("failure", [OSError(errno.EIO, "Input/output error"), MissingLibrary("needs timm")])
def test_a_contrast_stage_that_cannot_be_read_now_is_kept(
    contrast_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    shutil.copytree(contrast_run.parent / "cache", tmp_path / "cache")
    kept = next(path for path in (tmp_path / "cache" / "contrast").iterdir() if path.is_dir())
    written = (kept / "last.ckpt").stat().st_ino

    def fail(*_: object) -> str:
        raise failure

    monkeypatch.setattr("miv.training.planned_stages.sha256_of", fail)
    with pytest.warns(MIVWarning, match="contrast.*cannot be read .*goes on without"):
        run_tiny("image", tmp_path / "run", **CONTRAST)
    assert_same_run(contrast_run, tmp_path / "run")
    assert (kept / "last.ckpt").stat().st_ino == written


def test_an_unwritable_cache_warns_and_is_left_out(contrast_run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    machine = Machine(tmp_path / "file" / "cache")
    with pytest.warns(MIVWarning, match="cannot be written"):
        train(tiny_sets("image"), IMAGES.changed(CONTRAST), tmp_path / "run", machine)
    assert_same_run(contrast_run, tmp_path / "run")


def test_damaged_exemplars_are_not_trained_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    miv.data.save_splits(tiny_sets("features"), "data", builder="test", options={}, seed=0)
    values = np.load("data/train/pool.npy")
    values[3:9] = 0
    np.save("data/train/pool.npy", values)
    with pytest.raises(MIVError, match=r"pool.npy does not match its hash"):
        miv.train("data", out="run", verbose=False)
    assert not Path("run").exists()
    verifier = miv.Verifier("baseline", channels=8)
    np.save("data/test/pool.npy", values)
    with pytest.raises(MIVError, match=r"pool.npy does not match its hash"):
        miv.evaluate(verifier, "data")
    assert miv.evaluate(verifier, "data", split="validation").exemplars == 400  # needs no other split


def test_a_split_that_was_saved_with_the_others_is_required(tmp_path: Path) -> None:
    miv.data.save_splits(tiny_sets("features"), tmp_path / "data", builder="test", options={}, seed=0)
    shutil.rmtree(tmp_path / "data" / "test")
    with pytest.raises(MIVError, match=r"saved with the splits train, validation, test.*test is missing"):
        miv.train(tmp_path / "data", out=tmp_path / "run", verbose=False)
