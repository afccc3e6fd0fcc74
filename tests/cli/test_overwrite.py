"""No command replaces a file unless it is told to."""

from pathlib import Path

import pytest
import torch

from miv.data import save_splits
from miv.errors import MIVError
from miv.verifier.network import Verifier
from tests.cli.running import run_command
from tests.training.tiny import tiny_sets

REPORT = ["reproduce", "qmnist", "per_digit", "--tier", "smoke", "--report-only", "--results", "results"]
COMMANDS = {
    "answers.parquet": ["evaluate", "model", "data", "--predictions", "answers.parquet"],
    "report.md": [*REPORT, "--out", "report.md"],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MIV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    save_splits(tiny_sets("features", 40), tmp_path / "data", builder="test", options={}, seed=0)
    torch.manual_seed(0)
    Verifier("baseline", channels=8).save_pretrained("model")
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_is_replaced_only_when_asked(folder: Path, name: str) -> None:
    path = folder / name
    path.write_text("mine")
    before = sorted(folder.rglob("*"))
    with pytest.raises(MIVError, match=f"{name} already exists. Choose another name, or use --overwrite"):
        run_command(*COMMANDS[name])
    assert path.read_text() == "mine"
    assert sorted(folder.rglob("*")) == before  # nor was anything else written
    run_command(*COMMANDS[name], "--overwrite")
    assert path.read_bytes() != b"mine"
