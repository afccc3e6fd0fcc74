"""The temperature of a verifier that is overconfident on validation."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from miv import Verifier
from miv.data import ExemplarSet, InstancePool
from miv.evaluation.runs import RunFolder
from miv.training.checkpoint import BEST
from miv.training.run import Machine, can_fit_temperature, fit_temperature, train
from miv.verifier.decisions import OperatingPoint
from miv.verifier.scalings import Temperature
from tests.training.tiny import FEATURES, tiny_sets

EXEMPLARS = 400


def exemplars(label: list[int]) -> ExemplarSet:
    """Only the labels count."""
    pool = InstancePool("features", np.ones((2, 4), np.float32))
    return ExemplarSet.from_lists(pool, [0] * len(label), [[1]] * len(label), label)


def calibrated_logits() -> tuple[np.ndarray, list[int]]:
    """Labels that are 1 as often as the logits say."""
    random = np.random.default_rng(0)
    logit = random.normal(0, 2, EXEMPLARS)
    return logit, (random.random(EXEMPLARS) < 1 / (1 + np.exp(-logit))).astype(int).tolist()


@pytest.mark.parametrize(("factor", "expected"), [(3.0, 3.0), (1.0, None), (0.3, None)])
def test_only_overconfident_logits_get_a_temperature(factor: float, expected: float | None) -> None:
    logit, label = calibrated_logits()
    temperature = fit_temperature(exemplars(label), factor * logit)
    assert temperature == (None if expected is None else pytest.approx(expected, rel=0.25))


def test_one_label_few_exemplars_and_the_paper_have_no_temperature() -> None:
    verifier, label = Verifier("cap_dba_l2", channels=4), [0, 1] * 20
    assert can_fit_temperature(verifier, exemplars(label))
    assert not can_fit_temperature(verifier, exemplars(label[:29]))
    assert not can_fit_temperature(verifier, exemplars([1] * EXEMPLARS))
    assert not can_fit_temperature(Verifier("cap_dba_l2", channels=4, start="paper"), exemplars(label))


def test_references_of_one_query_are_one_observation() -> None:
    """Equal references must not make a doubtful gain look clear."""
    logit, label = calibrated_logits()
    pool = InstancePool("features", np.ones((6, 4), np.float32))
    several = ExemplarSet.from_lists(pool, None, [[5]] * EXEMPLARS, label, references=[[0, 1, 2, 3, 4]] * EXEMPLARS)
    alone = fit_temperature(exemplars(label), 2 * logit)
    assert alone is not None
    assert fit_temperature(several, np.repeat(2 * logit, 5)) == pytest.approx(alone, rel=1e-3)


def test_a_run_gets_the_temperature_of_its_validation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every fourth label of validation is wrong, which a verifier that learned from train does not know."""
    sets = tiny_sets("features")
    label = sets["validation"].label.copy()
    label[::4] = 1 - label[::4]
    sets["validation"] = replace(sets["validation"], label=label, witness=None)
    train(sets, replace(FEATURES, start="similar"), tmp_path / "run", Machine(tmp_path / "cache"))
    said = re.search(r"logits are divided by (\d+\.\d+)", capsys.readouterr().err)
    assert said is not None
    run = RunFolder(tmp_path / "run")
    verifier, best = Verifier.from_pretrained(run.verifier), Verifier.from_pretrained(run.checkpoints("frozen") / BEST)
    scaling = verifier.operating_point.scaling
    assert isinstance(scaling, Temperature)
    assert scaling.temperature == pytest.approx(float(said[1]), abs=0.006)
    assert verifier.operating_point == OperatingPoint(scaling)
    assert verifier.operating_point.is_default  # it can be calibrated without --overwrite
    weights = best.state_dict()
    assert all(torch.equal(weights[name], weight) for name, weight in verifier.state_dict().items())
    queries, bags = sets["test"].pool.values[:20], [sets["test"].pool.values[20:]] * 20
    after, before = verifier.verify_many(queries, bags), best.verify_many(queries, bags)
    assert (after.verdict == before.verdict).all()
    np.testing.assert_allclose(after.probability, 1 / (1 + np.exp(-before.logit / scaling.temperature)), rtol=1e-6)


def test_there_is_no_temperature_if_nothing_is_held_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sets = tiny_sets("features", 60)
    config = replace(FEATURES, start="similar", max_epochs=1)
    train({**sets, "validation": sets["train"]}, config, tmp_path / "run", Machine(tmp_path))
    assert "logits are divided" not in capsys.readouterr().err
