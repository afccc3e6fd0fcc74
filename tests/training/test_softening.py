"""Answers that are too sure are softened, and others are left alone."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from miv import Verifier
from miv.data import ExemplarSet, InstancePool
from miv.evaluation.runs import RunFolder
from miv.poolings.similar import ScaledProduct
from miv.training.checkpoint import BEST
from miv.training.run import Machine, soften, train
from tests.training.tiny import FEATURES, tiny_sets

EXEMPLARS = 400


def exemplars(label: list[int]) -> ExemplarSet:
    """Only the labels count."""
    pool = InstancePool("features", np.ones((2, 4), np.float32))
    return ExemplarSet.from_lists(pool, [0] * len(label), [[1]] * len(label), label)


def honest_logits() -> tuple[np.ndarray, list[int]]:
    """Labels that are 1 as often as the logits say."""
    random = np.random.default_rng(0)
    logit = random.normal(0, 2, EXEMPLARS)
    return logit, (random.random(EXEMPLARS) < 1 / (1 + np.exp(-logit))).astype(int).tolist()


def test_logits_that_are_three_times_too_large_are_divided_by_about_three() -> None:
    logit, label = honest_logits()
    verifier = Verifier("cap_dba_l2", channels=4)
    similarity = verifier.pooling.similarity
    assert isinstance(similarity, ScaledProduct)
    before = [similarity.scale.item(), similarity.intercept.item()]
    temperature = soften(verifier, exemplars(label), 3 * logit)
    assert temperature is not None
    assert temperature == pytest.approx(3, rel=0.25)
    after = [similarity.scale.item(), similarity.intercept.item()]
    assert after == pytest.approx([one / temperature for one in before])


@pytest.mark.parametrize("factor", [1.0, 0.3])
def test_honest_and_modest_answers_stay(factor: float) -> None:
    logit, label = honest_logits()
    verifier = Verifier("cap_dba_l2", channels=4)
    before = {name: weight.clone() for name, weight in verifier.state_dict().items()}
    assert soften(verifier, exemplars(label), factor * logit) is None
    assert all(torch.equal(before[name], weight) for name, weight in verifier.state_dict().items())


def test_one_label_few_exemplars_and_the_paper_have_no_temperature() -> None:
    logit, label = honest_logits()
    assert soften(Verifier("cap_dba_l2", channels=4), exemplars(label[:29]), 30 * logit[:29]) is None
    assert soften(Verifier("cap_dba_l2", channels=4), exemplars([1] * EXEMPLARS), 3 * logit) is None
    assert soften(Verifier("cap_dba_l2", channels=4, start="paper"), exemplars(label), 3 * logit) is None


def test_the_verdicts_of_a_softened_verifier_stay() -> None:
    torch.manual_seed(0)
    verifier = Verifier("cap_dba_l2", channels=4)
    random = np.random.default_rng(1)
    pool = InstancePool("features", random.normal(size=(120, 4)).astype(np.float32))
    bags = [[20 + 4 * number + place for place in range(4)] for number in range(20)]
    asked = ExemplarSet.from_lists(pool, list(range(20)), bags, [0, 1] * 10)
    before = verifier.verify_many(pool.values[asked.query], [pool.values[asked.bag(row)] for row in range(20)])
    logit, label = honest_logits()
    temperature = soften(verifier, exemplars(label), 3 * logit)
    assert temperature is not None
    after = verifier.verify_many(pool.values[asked.query], [pool.values[asked.bag(row)] for row in range(20)])
    np.testing.assert_allclose(after.logit, before.logit / temperature, rtol=1e-5)
    assert (after.verdict == before.verdict).all()


def test_references_of_one_query_are_one_observation() -> None:
    """Equal references must not make a doubtful gain look clear."""
    logit, label = honest_logits()
    one, many = Verifier("cap_dba_l2", channels=4), Verifier("cap_dba_l2", channels=4)
    pool = InstancePool("features", np.ones((6, 4), np.float32))
    references = [[0, 1, 2, 3, 4]] * EXEMPLARS
    asked = ExemplarSet.from_lists(pool, None, [[5]] * EXEMPLARS, label, references=references)
    temperature = soften(one, exemplars(label), 2 * logit)
    assert temperature is not None
    assert soften(many, asked, np.repeat(2 * logit, 5)) == pytest.approx(temperature, rel=1e-3)


def test_verdicts_of_several_references_stay() -> None:
    random = np.random.default_rng(2)
    verifier = Verifier("cap_dba_l2", channels=4)
    values = random.normal(size=(60, 5, 4)).astype(np.float32)
    queries, bags = [one[:3] for one in values], [one[3:] for one in values]
    before = verifier.verify_many(queries, bags)
    logit, label = honest_logits()
    temperature = soften(verifier, exemplars(label), 3 * logit)
    assert temperature is not None
    after = verifier.verify_many(queries, bags)
    np.testing.assert_allclose(after.logit, before.logit / temperature, rtol=1e-4, atol=1e-6)


def test_a_run_is_softened_by_its_validation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every fourth label of validation is wrong, which a verifier that learned from train does not know."""
    sets = tiny_sets("features")
    label = sets["validation"].label.copy()
    label[::4] = 1 - label[::4]
    sets["validation"] = replace(sets["validation"], label=label, witness=None)
    train(sets, replace(FEATURES, start="similar"), tmp_path / "run", Machine(tmp_path / "cache"))
    said = re.search(r"logits are divided by ([\d.]+)", capsys.readouterr().err)
    assert said is not None
    run = RunFolder(tmp_path / "run")
    kept = Verifier.from_pretrained(run.verifier).pooling.similarity.state_dict()
    best = Verifier.from_pretrained(run.checkpoints("frozen") / BEST).pooling.similarity.state_dict()
    assert (best["scale"] / kept["scale"]).item() == pytest.approx(float(said[1]), abs=0.006)
    assert torch.equal(best["weight"], kept["weight"])


def test_nothing_is_softened_if_nothing_is_held_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sets = tiny_sets("features")
    train(
        {**sets, "validation": sets["train"]}, replace(FEATURES, start="similar"), tmp_path / "run", Machine(tmp_path)
    )
    assert "logits are divided" not in capsys.readouterr().err
