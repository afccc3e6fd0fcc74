"""``miv demo``, on fewer writers and with one epoch a stage."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from miv.cli import demo_command
from miv.cli.app import app
from miv.data import ExemplarSet
from miv.training.config import TrainingConfig


def test_it_verifies_then_trains_and_ends_with_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = demo_command.settings

    def short(sets: dict[str, ExemplarSet], pooling: str) -> TrainingConfig:
        return full(sets, pooling).changed({"max_epochs": 1, "contrast_batch_size": 8})

    monkeypatch.setattr(demo_command, "settings", short)
    monkeypatch.setattr(demo_command, "TASK", {"writers": 12, "held_out_writers": 12, "copies": 3})
    shown = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "demo")])
    assert shown.exit_code == 0, shown.output
    before, after = shown.output.split("Two models trained just now")
    assert "miv/digits ships with the package" in before
    assert "baseline" in after
    assert "cap_dba_l2" in after
    assert (tmp_path / "demo" / "report.html").read_text().startswith("<!doctype html>")
