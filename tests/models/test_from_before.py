"""What version 0.1 wrote is still read: a run folder, its exemplars, its answers, and cached features."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from miv import ExemplarSet, InstancePool, MIVError, Verifier
from miv.backbones import create_backbone
from miv.backbones.feature_cache import embed_pool
from miv.cli.app import app
from miv.evaluation import Predictions
from miv.inference.prediction import predict
from miv.runtime.progress import SilentProgress

FOLDER = Path(__file__).parents[1] / "golden" / "run_0_1"
CACHED = "951db541192915fec0f3090ed9e3493655f1d456ee8a840cdd8941605b991986.npy"  # with torch 2.13.0


@pytest.mark.parametrize("split", ["validation", "test"])
def test_a_run_answers_as_it_did(split: str) -> None:
    verifier = Verifier.from_pretrained(FOLDER / "run")
    now = predict(verifier, ExemplarSet.load(FOLDER / "exemplars" / split))
    before = Predictions.load(FOLDER / "run" / "predictions" / f"{split}.parquet")
    np.testing.assert_allclose(now.logit, before.logit, rtol=1e-5)
    np.testing.assert_allclose(now.attention, before.attention, rtol=1e-4)  # type: ignore[arg-type]


def test_a_finished_run_is_listed_and_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(FOLDER, tmp_path / "tests" / "golden" / "run_0_1")  # as its record names it
    monkeypatch.chdir(tmp_path)
    data, run = "tests/golden/run_0_1/exemplars", "tests/golden/run_0_1/run"
    assert "cap_dba_l2" in CliRunner().invoke(app, ["runs", "list", "tests/golden/run_0_1"]).stdout
    again = ["train", data, "--out", run, "--resume", "--max-epochs", "2", "--align-epochs", "2", "--cache", "cache"]
    done = CliRunner().invoke(app, again)
    assert done.exit_code == 0, done.output
    now, before = (json.loads((one / "evaluation.json").read_text()) for one in (Path(run), FOLDER / "run"))
    assert Path(run, "evaluation.json").stat().st_mtime > (FOLDER / "run" / "evaluation.json").stat().st_mtime
    for split in ("validation", "test"):  # measured again, with what the run saved
        assert now[split]["classification"] == pytest.approx(before[split]["classification"], abs=1e-6)
        assert now[split]["witnesses"]["i_ap"] == pytest.approx(before[split]["witnesses"]["i_ap"], abs=1e-6)


def test_an_interrupted_run_is_not_resumed_but_named(tmp_path: Path) -> None:
    shutil.copytree(FOLDER / "run", tmp_path / "run")
    about = tmp_path / "run" / "run.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "done": False}))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    again = ["train", str(FOLDER / "exemplars"), "--out", str(tmp_path / "run"), "--resume", "--max-epochs", "2"]
    stopped = CliRunner().invoke(app, again)
    assert isinstance(stopped.exception, MIVError)
    assert re.search(r"unfinished run of miv 0\.1\.0, .* Train again in another folder", str(stopped.exception))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_cached_features_keep_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.13.0+cpu")
    pool = InstancePool("image", np.arange(4 * 12 * 12, dtype=np.uint8).reshape(4, 12, 12))
    embed_pool(create_backbone("hog"), pool, tmp_path, SilentProgress())
    assert [path.name for path in tmp_path.iterdir()] == [CACHED]
