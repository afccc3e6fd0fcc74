"""The plain answer through every door: trained, evaluated, calibrated, verified with."""

import json
from pathlib import Path

import numpy as np
import pytest

from miv import Verifier
from miv.data import save_splits
from miv.evaluation import auroc
from miv.evaluation.baselines import cosines
from tests.cli.running import run_command as run
from tests.training.tiny import tiny_sets


def test_nearest_through_every_door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    sets = tiny_sets("features")
    save_splits(sets, tmp_path / "data", builder="test", options={}, seed=0)
    trained = json.loads(run("train", "data", "--out", "run", "--pooling", "nearest", "--json"))

    test = sets["test"]
    expected = auroc(test.label, cosines(test, test.pool.values).nearest)
    assert trained["test"]["classification"]["auroc"] == pytest.approx(expected, abs=0.01)  # it may be standardised
    assert trained["test"]["classification"]["accuracy"] > 0.9  # scale and intercept are fitted
    assert json.loads(Path("run/run.json").read_text())["best"] == {"stage": "nearest", "epoch": 0}
    assert json.loads(run("evaluate", "run", "data", "--json")) == trained["test"]
    run("calibrate", "run", "data")

    np.save("query.npy", test.pool.values[test.query[1]])
    np.save("bag.npy", test.pool.values[test.bag(1)])
    verdict = json.loads(run("verify", "run", "--query", "query.npy", "--bag", "bag.npy", "--json"))
    assert verdict["verdict"] is True
    verifier = Verifier.from_pretrained("run")
    again = verifier.verify(test.pool.values[test.query[1]], test.pool.values[test.bag(1)])
    shown = test.bag_witness(1)
    assert shown is not None
    assert [witness.index for witness in again.witnesses][:1] == [int(np.flatnonzero(shown)[0])]
