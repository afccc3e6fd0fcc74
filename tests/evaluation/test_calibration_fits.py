"""Fitted scalings and witness rules."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from miv.errors import MIVError
from miv.evaluation import Predictions
from miv.evaluation.calibration_fits import (
    choose_scaling,
    fit_scaling,
    fit_witness_rule,
)
from miv.verifier.scalings import SCALINGS, Platt, Temperature


def labelled(
    exemplars: int, slope: float = 1.0, offset: float = 0.0, seed: int = 0
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Logits whose true probabilities are the sigmoid of ``slope · z + offset``."""
    random = np.random.default_rng(seed)
    logit = random.normal(0, 3, exemplars)
    return logit, (random.random(exemplars) < expit(slope * logit + offset)).astype(np.int8)


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(4, 60), st.sampled_from([1, 3, 2**20]), st.sampled_from(list(SCALINGS)))
def test_a_fitted_scaling_never_turns_the_order(seed: int, exemplars: int, levels: int, name: str) -> None:
    random = np.random.default_rng(seed)
    logit = random.integers(-levels, levels, exemplars, endpoint=True) / levels * 5
    label = random.integers(0, 2, exemplars).astype(np.int8)
    scaling = fit_scaling(name, logit, label)
    seen = scaling.probability(np.unique(logit))
    assert (np.diff(seen) > 0).all()  # two logits of the data never tie
    assert (np.diff(scaling.probability(np.linspace(-9, 9, 50))) >= 0).all()


def test_temperature_and_platt_find_what_made_the_labels() -> None:
    logit, label = labelled(20_000, slope=0.4, offset=0.7)
    platt = fit_scaling("platt", logit, label)
    assert isinstance(platt, Platt)
    reference = LogisticRegression(C=1e6).fit(logit[:, None], label)
    assert platt.slope == pytest.approx(float(reference.coef_[0, 0]), abs=2e-3)  # Platt's targets are a little off 0, 1
    assert platt.offset == pytest.approx(float(reference.intercept_[0]), abs=2e-3)
    logit, label = labelled(20_000, slope=0.5)
    temperature = fit_scaling("temperature", logit, label)
    assert isinstance(temperature, Temperature)
    assert temperature.temperature == pytest.approx(2.0, abs=0.1)


def test_classes_that_do_not_overlap_give_finite_scalings() -> None:
    logit, label = np.array([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0]), np.array([0, 0, 0, 1, 1, 1], np.int8)
    for name in SCALINGS:
        probability = fit_scaling(name, logit, label).probability(logit)
        assert 0 < probability.min() < 0.5 < probability.max() < 1


@pytest.mark.parametrize(
    ("slope", "offset", "expected"), [(1.0, 0.0, "none"), (0.3, 0.0, "temperature"), (1.0, 3.0, "platt")]
)
def test_the_simplest_kind_that_fits_is_chosen(slope: float, offset: float, expected: str) -> None:
    """Platt's has the temperature as a special case: it is never much worse."""
    logit, label = labelled(3000, slope, offset, seed=1)
    chosen = choose_scaling(logit, label)
    assert chosen.scaling.name == expected
    assert log_loss(label, chosen.held_out) == pytest.approx(chosen.log_loss[expected])


def test_a_scaling_asked_for_by_name_is_taken_and_a_misspelt_one_refused() -> None:
    logit, label = labelled(50)
    assert choose_scaling(logit, label, "platt").scaling.name == "platt"
    with pytest.raises(MIVError, match="Did you mean 'platt'"):
        choose_scaling(logit, label, "plat")


def test_too_few_of_a_class_are_refused() -> None:
    with pytest.raises(MIVError, match="Of 4 exemplars 1 are positive"):
        choose_scaling(np.zeros(4), np.array([1, 0, 0, 0], np.int8))


def drawn(random: np.random.Generator, exemplars: int, largest: int = 20) -> Predictions:
    """Bags of 1 to ``largest``, half of them positive with one to three witnesses that get more attention."""
    label = np.arange(exemplars) % 2
    sizes = random.integers(1, largest, exemplars, endpoint=True)
    ptr = np.cumsum([0, *sizes])
    owner = np.repeat(np.arange(exemplars), sizes)
    place = np.arange(ptr[-1]) - ptr[owner]
    witness = (place < random.integers(1, 3, exemplars, endpoint=True)[owner]) & (label[owner] == 1)
    weight = np.exp(random.normal(size=ptr[-1]) + 2 * witness)
    attention = weight / np.add.reduceat(weight, ptr[:-1])[owner]
    return Predictions(random.normal(4 * label - 2, 2), label, ptr, attention, witness)


@pytest.mark.parametrize("epsilon", [0.05, 0.1, 0.3])
def test_new_witnesses_are_inside_as_often_as_promised(epsilon: float) -> None:
    random = np.random.default_rng(0)
    inside = total = 0
    for _ in range(150):
        seen, new = drawn(random, 160), drawn(random, 120)
        assert new.attention is not None
        assert new.witness is not None
        rule = fit_witness_rule(seen, seen.probability, epsilon)
        found = rule.witnesses(new.probability, new.probability >= 0.5, new.attention, new.ptr)
        inside += int((found & new.witness).sum())
        total += int(new.witness.sum())
    # 18,000 witnesses; neither fewer than promised, nor many more, which would make the sets needlessly large.
    assert 1 - epsilon - 0.01 < inside / total < 1 - epsilon + 0.03


def test_with_one_witness_a_bag_it_is_split_conformal_prediction() -> None:
    """19 bags of two, whose witness has 0.05, 0.1 … 0.95 of the other's attention; one tenth may be missed."""
    ratio = np.arange(1, 20) / 20
    attention = np.stack([ratio / (1 + ratio), 1 / (1 + ratio)], 1).ravel()
    answers = Predictions(np.full(19, 50.0), np.ones(19), np.arange(0, 39, 2), attention, np.tile([True, False], 19))
    # floor(0.1 · (19 + 1)) = 2: the threshold is the second lowest score. floor(0.2 · 20) = 4: the fourth lowest.
    assert fit_witness_rule(answers, answers.probability, 0.1).threshold == pytest.approx(2 / 11)
    assert fit_witness_rule(answers, answers.probability, 0.2).threshold == pytest.approx(1 / 3)
    with pytest.raises(MIVError, match=r"with 19 known witnesses.*at least 38"):
        fit_witness_rule(answers, answers.probability, 0.05)
