"""``miv.calibrate``, ``miv.audit`` and ``miv.report`` from Python; the commands are tested in ``tests/cli``."""

from pathlib import Path

import pytest
import torch

import miv
from miv.data import save_splits
from tests.training.tiny import run_tiny, tiny_sets


def test_sets_in_memory_calibrate_and_audit_a_verifier(tmp_path: Path) -> None:
    sets = tiny_sets("features", 60)
    torch.manual_seed(0)
    miv.Verifier("baseline", channels=8).save_pretrained(tmp_path)
    found = miv.calibrate(tmp_path, sets, goal="frr=0.3", out_of_distribution=0.2, cache=tmp_path / "cache")
    verifier = miv.Verifier.from_pretrained(tmp_path)
    assert verifier.operating_point.document() == found.point.document()
    assert verifier.unlike is not None
    assert verifier.unlike.rate == found.document()["unlike"]["rate"] == 0.2
    assert "false-alarm rate of at most 0.2" in str(found)
    with pytest.raises(miv.MIVError, match="already exists"):
        miv.calibrate(tmp_path, sets["validation"])
    with pytest.raises(miv.MIVError, match="train split"):
        miv.calibrate(tmp_path, sets["validation"], out_of_distribution=0.2, overwrite=True)
    audit = miv.audit({"ours": verifier}, sets)
    assert audit.models["ours"]["goal"] == "false-reject rate <= 0.3"


def test_a_report_of_one_run(tmp_path: Path) -> None:
    run_tiny("features", tmp_path / "run", pooling="baseline", max_epochs=1)
    save_splits(tiny_sets("features"), tmp_path / "sets", builder="tiny", options={}, seed=0)
    page = miv.report(tmp_path / "run", tmp_path / "page.html", data=tmp_path / "sets", title="One run")
    assert "<h1>One run</h1>" in page.read_text()
    with pytest.raises(miv.MIVError, match="already exists"):
        miv.report([tmp_path / "run"], page, data=tmp_path / "sets")
