"""`miv evaluate`, `audit` and `calibrate` take features from the cache, and run the backbone only where it has none."""

from pathlib import Path

import pytest

from miv import Verifier
from miv.backbones.cnn import CompactCNN
from miv.data import save_splits
from tests.cli.running import run_command as run
from tests.training.tiny import tiny_sets


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    save_splits(tiny_sets("image"), tmp_path / "data", builder="test", options={}, seed=0)
    return tmp_path


def refuse_to_embed(monkeypatch: pytest.MonkeyPatch) -> None:
    def embedded_again(*_: object) -> None:
        raise AssertionError("the backbone was run again")

    monkeypatch.setattr(CompactCNN, "forward", embedded_again)


@pytest.mark.parametrize("option", [(), ("--cache", "elsewhere")])
def test_after_one_evaluation_nothing_is_embedded_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, option: tuple[str, ...]
) -> None:
    Verifier("mi_net", "compact_cnn").save_pretrained("model")
    first = run("evaluate", "model", "data", "--json", *option)
    assert len(list(folder.glob("*/features/*.npy"))) == 1
    assert (folder / "elsewhere").exists() == bool(option)
    refuse_to_embed(monkeypatch)
    assert run("evaluate", "model", "data", "--json", *option) == first
    run("evaluate", "model", "data", "--witnesses", "leave_one_out", *option)
    run("audit", "model", "data", "--exemplars", "10", *option)
    with pytest.raises(AssertionError, match="run again"):
        run("evaluate", "model", "data", "--split", "validation", *option)  # another pool
