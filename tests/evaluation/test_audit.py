"""The audit of verifiers that are made by hand, so that every figure is known beforehand."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import miv
from miv import Verifier
from miv.data import ExemplarSet, InstancePool, save_splits
from miv.errors import MIVError, collect_warnings
from miv.evaluation import Predictions
from miv.evaluation.verifier_audit import audit_verifier as audit, reasons
from miv.files.weights import hash_of_weights
from miv.verifier.decisions import OperatingPoint
from tests.cli.running import run_command
from tests.training.tiny import tiny_sets

GIVEN = 60


def perfect_verifier() -> Verifier:
    """The greatest likeness in the bag decides, and instances of one class are alike: right for the right reason."""
    return Verifier("baseline", channels=8).eval()  # cosines are about 0.9 with a witness, and below 0.5 without


def yes_to_all() -> Verifier:
    verifier = Verifier("mi_net", channels=8, start="paper")
    verifier.pooling.similarity.weight.data.zero_()  # the logit is always 0
    return verifier.eval()


@pytest.fixture(scope="module")
def exemplars() -> ExemplarSet:
    return tiny_sets("features", GIVEN)["test"]


def test_a_perfect_verifier_is_right_for_the_right_reason(exemplars: ExemplarSet) -> None:
    found = audit(perfect_verifier(), exemplars)
    table = found["reasons"]
    assert table["verdict_right_witness_right"] == table["positives"] == GIVEN / 2
    assert (table["right_reason"]["share"], table["negatives_right"]["share"]) == (1, 1)
    assert found["delete_witnesses"]["turned_to_no"]["share"] == 1
    assert found["delete_witnesses"]["logit_change"] < 0
    assert found["delete_others"]["turned_to_no"]["share"] == 0
    assert abs(found["delete_others"]["logit_change"]) < 1e-5
    assert found["swap_query"]["turned_to_no"]["share"] == 1


def test_a_verifier_that_always_says_yes_follows_nothing(exemplars: ExemplarSet) -> None:
    found = audit(yes_to_all(), exemplars)
    assert found["witnesses_by"] == "leave_one_out"
    table = found["reasons"]
    # All instances have the same score, so it never points at a witness.
    assert table["verdict_right_witness_wrong"] == table["positives"] == GIVEN / 2
    assert table["negatives_right"]["share"] == 0
    for change in ("delete_witnesses", "delete_others", "swap_query"):
        assert found[change]["turned_to_no"]["share"] == 0


def test_the_verdict_is_that_of_the_operating_point(exemplars: ExemplarSet) -> None:
    verifier = perfect_verifier()
    verifier.operating_point = OperatingPoint(threshold=float(np.nextafter(1, 2)))  # always no
    found = audit(verifier, exemplars)
    assert found["reasons"]["verdict_wrong_witness_right"] == GIVEN / 2
    assert found["delete_witnesses"] is None
    assert found["swap_query"] is None


def test_the_four_cells_by_eye() -> None:
    """Yes for a witness, yes for another, no for a witness, no for another, a tie, a bag of witnesses, a negative."""
    answers = Predictions([1, 1, -1, -1, 1, 1, 1], label=[1, 1, 1, 1, 1, 1, 0], ptr=range(0, 15, 2))
    witness = np.array([True, False] * 5 + [True, True, False, False])
    scores = np.array([2.0, 1, 1, 2, 2, 1, 1, 2, 2, 2, 2, 1, 2, 1])
    found = reasons(answers, answers.logit > 0, witness, scores)
    assert found["positives"] == 5
    assert found["verdict_right_witness_right"] == 1
    assert found["verdict_right_witness_wrong"] == 2  # the tie is not a witness found
    assert found["verdict_wrong_witness_right"] == 1
    assert found["verdict_wrong_witness_wrong"] == 1
    assert found["right_reason"]["count"] == 1
    assert found["right_reason"]["of"] == 3
    assert found["right_reason_chance"] == 0.5
    assert found["negatives_right"]["share"] == 0


@pytest.mark.parametrize("leaks", [False, True])
def test_a_label_that_the_query_tells_is_warned_of(leaks: bool) -> None:
    random, labels = np.random.default_rng(0), [0, 1] * 100
    queries = random.normal(size=(200, 8)) + 2 * leaks * np.array(labels)[:, None]
    values = np.concatenate([queries, random.normal(size=(400, 8))]).astype(np.float32)
    bags, witnesses = [[200 + e, 400 + e] for e in range(200)], [[bool(label), False] for label in labels]
    pool = InstancePool("features", values)
    exemplars = ExemplarSet.from_lists(pool, list(range(200)), bags, labels, witnesses=witnesses)
    with collect_warnings() as warned:
        controls = audit(perfect_verifier(), exemplars)["controls"]
    assert controls["query_only"] == pytest.approx(1.0 if leaks else 0.5, abs=0.12)
    assert controls["bag_only"] == pytest.approx(0.5, abs=0.12)
    assert ["query_only" in text for text in warned] == [True] * leaks


def test_it_needs_witnesses(exemplars: ExemplarSet) -> None:
    blind = ExemplarSet(exemplars.pool, exemplars.query, exemplars.bag_ptr, exemplars.bag_index, exemplars.label)
    with pytest.raises(MIVError, match="witnesses of these exemplars are unknown"):
        audit(perfect_verifier(), blind)


def without_classes(exemplars: ExemplarSet) -> ExemplarSet:
    pool = InstancePool(exemplars.pool.kind, exemplars.pool.values)
    e = exemplars
    return ExemplarSet(pool, e.query, e.bag_ptr, e.bag_index, e.label, e.witness, e.group)


@pytest.mark.parametrize("known", [True, False])
def test_what_is_not_known_of_the_classes_is_not_said(exemplars: ExemplarSet, known: bool) -> None:
    given = exemplars if known else without_classes(exemplars)
    page = miv.audit({"good": perfect_verifier()}, given).text()
    assert ("with a query of another class" in page) == known
    assert ("with another query (whose class is not known)" in page) == (not known)


def test_a_set_of_positives_alone_can_be_audited(exemplars: ExemplarSet) -> None:
    positives = exemplars.subset(np.flatnonzero(exemplars.label == 1))
    models = {"good": perfect_verifier(), "bad": yes_to_all()}
    report = miv.audit(models, positives)
    document = report.document()
    assert document["models"]["good"]["reasons"]["negatives_right"] is None
    assert re.search(r"good +attention .* – ", report.text())


def test_a_report_of_two_models(exemplars: ExemplarSet) -> None:
    models = {"good": perfect_verifier(), "bad": yes_to_all()}
    report = miv.audit(models, exemplars, most=20)
    document = report.document()
    json.dumps(document, allow_nan=False)
    assert document["models"]["good"]["exemplars"] == 20
    assert document["about"]["fingerprint"] == exemplars.fingerprint  # of the whole set, though 20 were looked at
    assert document["models"]["good"]["weights"] == hash_of_weights(perfect_verifier().state_dict())
    assert document["models"]["good"]["weights"] != document["models"]["bad"]["weights"]
    page = report.text()
    assert "good   attention " in page
    assert "test: 20 exemplars" in page


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_splits(tiny_sets("features", 20), tmp_path / "data", builder="test", options={}, seed=0)
    perfect_verifier().save_pretrained("good")
    yes_to_all().save_pretrained("bad")

    def run(*arguments: str) -> str:
        return run_command("audit", *arguments)

    printed = json.loads(run("good", "bad", "data", "--json"))
    assert list(printed["models"]) == ["good", "bad"]
    assert "leave_one_out" in run("good", "data", "--witnesses", "leave_one_out")
    for arguments, message in (
        (["good", "data", "--witnesses", "alon"], "Did you mean 'alone'"),
        (["good", "good", "data"], "given twice"),
        (["good", "data", "--split", "tset"], "Did you mean 'test'"),
    ):
        with pytest.raises(MIVError, match=message):
            run(*arguments)
