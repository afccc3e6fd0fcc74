"""Whole trainings: what they learn, that they can be repeated, stopped and killed."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from miv import Verifier
from miv.errors import MIVError
from miv.evaluation import Predictions
from miv.evaluation.predicting import predict
from miv.evaluation.runs import RunFolder
from miv.training.checkpoint import BEST
from miv.training.fitting import fit_temperature
from miv.training.run import Machine, run_training
from miv.verifier.decisions import OperatingPoint
from miv.verifier.scalings import Temperature
from tests.training.tiny import FEATURES, IMAGES, assert_same_run, rows, run_tiny, tiny_sets


def test_a_training_learns_and_leaves_a_whole_run_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    metrics = run_tiny("features", run)
    assert metrics["auroc"] > 0.8
    assert metrics["i_auroc"] > 0.8
    table = rows(run)
    accuracies = [float(row["validation_accuracy"]) for row in table]
    about = json.loads((run / "run.json").read_text())
    assert about["done"] is True
    assert about["best"]["epoch"] == 1 + accuracies.index(max(accuracies))
    assert [row["epoch"] for row in table] == [str(number) for number in range(1, len(table) + 1)]
    assert len(table) == 20 or len(table) == about["best"]["epoch"] + FEATURES.patience
    assert set(about["versions"]) >= {"miv", "torch", "numpy"}
    assert len(about["data"]["fingerprints"]["train"]) == 64
    evaluation = json.loads((run / "evaluation.json").read_text())
    assert set(evaluation) == {"validation", "test"}
    assert evaluation["validation"]["classification"]["accuracy"] == max(accuracies)
    answers = Predictions.load(run / "predictions" / "test.parquet")
    again = predict(Verifier.from_pretrained(run / "verifier"), tiny_sets("features")["test"])
    assert again.logit == pytest.approx(answers.logit, abs=1e-5)


def test_without_the_full_stage_the_backbone_stays_as_it_is(images_run: Path, tmp_path: Path) -> None:
    run_tiny("image", tmp_path / "run", full_stage=False)
    assert {row["stage"] for row in rows(tmp_path / "run")} == {"frozen"}
    first = Verifier.from_pretrained(images_run / "checkpoints/frozen/best").backbone.state_dict()
    ours = Verifier.from_pretrained(tmp_path / "run/verifier").backbone.state_dict()
    assert all(torch.equal(first[name], ours[name]) for name in first)
    with pytest.raises(MIVError, match="nothing is trained"):
        IMAGES.changed({"full_stage": False, "frozen_stage": False})


@pytest.mark.parametrize(("accelerator", "message"), [("cpuu", "Did you mean 'cpu'"), ("gpu", "--accelerator cpu")])
def test_an_accelerator_that_is_not_there_is_refused_before_any_work(
    tmp_path: Path, accelerator: str, message: str
) -> None:
    if accelerator == "gpu" and (torch.cuda.is_available() or torch.backends.mps.is_available()):
        pytest.skip("there is one")
    with pytest.raises(MIVError, match=message):
        run_training(tiny_sets("features"), FEATURES, tmp_path / "run", Machine(tmp_path, accelerator=accelerator))
    assert not list(tmp_path.iterdir())


def test_the_same_training_twice_is_the_same_to_the_last_bit(images_run: Path, tmp_path: Path) -> None:
    run_tiny("image", tmp_path / "again")
    assert_same_run(images_run, tmp_path / "again")
    run_tiny("image", tmp_path / "other", seed=1)
    assert (tmp_path / "other" / "metrics.csv").read_bytes() != (images_run / "metrics.csv").read_bytes()


def test_a_run_is_not_mixed_with_another(images_run: Path, tmp_path: Path) -> None:
    sets, machine = tiny_sets("image"), Machine(tmp_path / "cache")
    with pytest.raises(MIVError, match="--resume"):
        run_training(sets, IMAGES, images_run, machine)
    with pytest.raises(MIVError, match="batch_size = 12"):
        run_training(sets, IMAGES.changed({"batch_size": 6}), images_run, machine, resume=True)
    with pytest.raises(MIVError, match="other data"):
        run_training(tiny_sets("image", 46), IMAGES, images_run, machine, resume=True)
    with pytest.raises(MIVError, match="validation"):
        run_training({"train": sets["train"]}, IMAGES, tmp_path / "run", machine)
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("x")
    with pytest.raises(MIVError, match="not a run"):
        run_training(sets, IMAGES, tmp_path / "letters", machine)


def test_a_run_goes_on_with_its_own_settings_however_they_were_written(tmp_path: Path) -> None:
    """Python's tuples are lists in JSON."""
    sets, machine = tiny_sets("features"), Machine(tmp_path / "cache")
    config = FEATURES.changed({"max_epochs": 1, "pooling": "mi_net", "pooling_options": {"hidden": (8, 4)}})
    run_training(sets, config, tmp_path / "run", machine)
    run_training(sets, config, tmp_path / "run", machine, resume=True)
    with pytest.raises(MIVError, match="contrast_epochs = 0, but got 1"):
        run_training(sets, config.changed({"contrast_epochs": 1}), tmp_path / "run", machine, resume=True)


def test_a_finished_run_is_not_trained_again(images_run: Path) -> None:
    before = (images_run / "verifier" / "model.safetensors").stat().st_mtime_ns
    run_tiny("image", images_run)
    assert (images_run / "verifier" / "model.safetensors").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pooling": "cap_dba"}, "Did you mean 'cap_dba_l"),
        ({"heads": 7}, "7"),
        ({"pooling_options": {"layers": 2}}, "layers"),
        ({"backbone": "compact_cmm"}, "Did you mean 'compact_cnn'"),
        ({"backbone": "features"}, "are images.* takes feature vectors.*compact_cnn"),
    ],
)
def test_settings_that_make_no_verifier_leave_nothing_behind(
    tmp_path: Path, settings: dict[str, object], message: str
) -> None:
    with pytest.raises(MIVError, match=message):
        run_training(tiny_sets("image"), IMAGES.changed(settings), tmp_path / "run", Machine(tmp_path))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("select_by", ["accuracy", "auroc"])
def test_the_epoch_is_chosen_by_what_was_asked(tmp_path: Path, select_by: str) -> None:
    run_tiny("features", tmp_path / "run", select_by=select_by, learning_rates=((0, 3e-2),), max_epochs=8, patience=8)
    values = [float(row[f"validation_{select_by}"]) for row in rows(tmp_path / "run")]
    others = [
        float(row["validation_auroc" if select_by == "accuracy" else "validation_accuracy"])
        for row in rows(tmp_path / "run")
    ]
    chosen = json.loads((tmp_path / "run" / "run.json").read_text())["best"]["epoch"]
    assert chosen == 1 + values.index(max(values))
    assert values.index(max(values)) != others.index(max(others)), "an example that could not tell one from the other"


# The temperature of a verifier that is overconfident on held-out bags.


def calibrated_logits() -> tuple[np.ndarray, np.ndarray]:
    """Labels that are 1 as often as the logits say."""
    random = np.random.default_rng(0)
    logit = random.normal(0, 2, 400)
    return logit, (random.random(400) < 1 / (1 + np.exp(-logit))).astype(np.int8)


@pytest.mark.parametrize(("factor", "expected"), [(3.0, 3.0), (1.0, None), (0.3, None)])
def test_only_overconfident_logits_get_a_temperature(factor: float, expected: float | None) -> None:
    logit, label = calibrated_logits()
    temperature = fit_temperature(factor * logit, label, np.ones(400))
    assert temperature == (None if expected is None else pytest.approx(expected, rel=0.25))


def test_one_label_and_few_exemplars_have_no_temperature() -> None:
    logit, label = calibrated_logits()
    assert fit_temperature(9 * logit[:29], label[:29], np.ones(29)) is None
    assert fit_temperature(9 * logit[label == 1], label[label == 1], np.ones(int(label.sum()))) is None
    half = np.where(np.arange(400) < 200, 2.0, 0.0)  # a weight of 2 is two exemplars
    twice = np.r_[0:200, 0:200]
    assert fit_temperature(3 * logit, label, half) == fit_temperature(3 * logit[twice], label[twice], np.ones(400))


def test_a_run_gets_the_temperature_of_its_validation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every fourth label of validation is wrong, which a verifier that learned from train does not know."""
    sets = tiny_sets("features")
    label = sets["validation"].label.copy()
    label[::4] = 1 - label[::4]
    sets["validation"] = replace(sets["validation"], label=label, witness=None)
    run_training(sets, replace(FEATURES, start="similar"), tmp_path / "run", Machine(tmp_path / "cache"))
    said = re.search(r"logits are divided by (\d+\.\d+)", capsys.readouterr().err)
    assert said is not None
    run = RunFolder(tmp_path / "run")
    verifier, best = Verifier.from_pretrained(run.verifier), Verifier.from_pretrained(run.checkpoints("frozen") / BEST)
    scaling = verifier.operating_point.scaling
    assert isinstance(scaling, Temperature)
    assert scaling.temperature == pytest.approx(float(said[1]), abs=0.006)
    assert verifier.operating_point == OperatingPoint(scaling)
    assert verifier.operating_point.is_default  # it can be calibrated without --overwrite
    queries, bags = sets["test"].pool.values[:20], [sets["test"].pool.values[20:]] * 20
    after, before = verifier.verify_many(queries, bags), best.verify_many(queries, bags)
    assert (after.verdict == before.verdict).all()
    np.testing.assert_allclose(after.probability, 1 / (1 + np.exp(-before.logit / scaling.temperature)), rtol=1e-6)


def test_there_is_no_temperature_if_nothing_is_held_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sets = tiny_sets("features", 60)
    config = replace(FEATURES, start="similar", max_epochs=1)
    run_training({**sets, "validation": sets["train"]}, config, tmp_path / "run", Machine(tmp_path))
    assert "logits are divided" not in capsys.readouterr().err
