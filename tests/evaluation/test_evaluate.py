import json

import numpy as np

from miv.evaluation import (
    Predictions,
    classification_metrics,
    evaluate,
    group_table,
    witness_metrics,
)
from miv.verifier.decisions import OperatingPoint
from tests.evaluation.examples import example_predictions


def test_it_holds_what_the_functions_say() -> None:
    p = example_predictions()
    found = evaluate(p)
    assert (found.exemplars, found.positives) == (60, int(p.label.sum()))
    assert found.classification == classification_metrics(p.label, p.probability)
    assert p.attention is not None
    assert p.witness is not None
    assert p.group is not None
    assert found.witnesses == witness_metrics(p.ptr, p.witness, p.attention, p.label)
    assert found.groups == group_table(p.label, p.probability, p.group)
    first, second = ["auroc", "accuracy", "precision", "recall", "f1"], ["i_auroc", "i_ap", "i_top1"]
    assert list(found.metrics) == first + second


def test_parts_that_cannot_be_measured_are_left_out() -> None:
    found = evaluate(Predictions([1.0, -1.0], [1, 0], [0, 2, 3]))
    assert (found.witnesses, found.groups) == (None, None)
    assert list(found.metrics) == ["auroc", "accuracy", "precision", "recall", "f1"]
    assert "attention" not in found.text()


def test_logits_of_any_size_keep_their_order() -> None:
    # As probabilities all four would be 1.
    assert evaluate(Predictions([50.0, 60.0, 70.0, 80.0], [0, 0, 1, 1], np.arange(5))).metrics["auroc"] == 1.0


def test_what_is_undefined_is_null_in_json_and_a_dash_in_the_table() -> None:
    found = evaluate(Predictions([1.0], [1], [0, 1], [1.0], [True]))
    document = found.document()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["classification"]["auroc"] is None
    names = ("i_auroc", "i_ap", "i_top1", "i_ap_chance", "i_top1_chance")
    assert document["witnesses"] == {**dict.fromkeys(names), "exemplars": 0, "undefined": 1}
    assert "nan" not in found.text()


def test_a_calibrated_verifier_is_measured_at_its_operating_point_too() -> None:
    # Probabilities 0.88, 0.62, 0.73, 0.27: at 0.7 the second positive is rejected and the first negative accepted.
    answers = Predictions([2.0, 0.5, 1.0, -1.0], label=[1, 1, 0, 0], ptr=[0, 1, 2, 3, 4])
    found = evaluate(answers, point=OperatingPoint(threshold=0.7, goal="far"))
    expected = {"goal": "far", "threshold": 0.7, "accuracy": 0.5, "false_accepts": 1, "negatives": 2}
    assert found.document()["operating_point"] == expected | {"false_rejects": 1, "positives": 2}
    assert found.classification["accuracy"] == 0.75
    assert "0.7000    0.5000  1 of 2 (50.0%)  1 of 2 (50.0%)" in found.text()
    assert "operating_point" not in evaluate(answers, point=OperatingPoint.default()).document()
