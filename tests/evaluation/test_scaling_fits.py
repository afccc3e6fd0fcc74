from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from miv.errors import MIVError
from miv.evaluation.calibration_fits import choose_scaling, fit_scaling
from miv.verifier.scalings import SCALINGS, Isotonic, Platt, Temperature


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


def test_isotonic_goes_through_the_centres_of_the_stretches_of_the_plain_regression() -> None:
    logit = np.array([-2.0, -1.0, 0.0, 1.0, 2.0, 3.0])
    label = np.array([0, 1, 0, 0, 1, 1], np.int8)
    plain = IsotonicRegression().fit(logit, label).predict(logit)
    assert plain.round(3).tolist() == [0, 0.333, 0.333, 0.333, 1, 1]
    scaling = fit_scaling("isotonic", logit, label)
    assert isinstance(scaling, Isotonic)
    assert scaling.probability([-2.0, 0.0, 2.5]).round(3).tolist() == [0.125, 0.333, 0.875]  # 1/8 and 7/8 for 0 and 1
    assert scaling.probability([3.0, 9.0]).tolist() == [0.9375, 0.9375]


def test_classes_that_do_not_overlap_give_finite_scalings() -> None:
    logit, label = np.array([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0]), np.array([0, 0, 0, 1, 1, 1], np.int8)
    for name in SCALINGS:
        probability = fit_scaling(name, logit, label).probability(logit)
        assert 0 < probability.min() < 0.5 < probability.max() < 1


@pytest.mark.parametrize(
    ("slope", "offset", "expected"), [(1.0, 0.0, "none"), (0.3, 0.0, "temperature"), (1.0, 3.0, "platt")]
)
def test_the_simplest_kind_that_fits_is_chosen(slope: float, offset: float, expected: str) -> None:
    """Platt's has the temperature as a special case, and isotonic all of them: they are never much worse."""
    logit, label = labelled(3000, slope, offset, seed=1)
    chosen = choose_scaling(logit, label)
    assert chosen.scaling.name == expected
    assert log_loss(label, chosen.held_out) == pytest.approx(chosen.log_loss[expected])


def test_isotonic_is_chosen_where_no_sigmoid_fits() -> None:
    """A third, half, nearly all: too bent for a sigmoid."""
    logit = np.repeat([-1.0, 0.0, 1.0], 400) + np.linspace(-0.2, 0.2, 1200)
    label = np.concatenate([np.arange(400) % 3 == 0, np.arange(400) % 2, np.arange(400) % 20 != 0]).astype(np.int8)
    assert choose_scaling(logit, label).scaling.name == "isotonic"


def test_a_scaling_asked_for_by_name_is_taken_and_a_misspelt_one_refused() -> None:
    logit, label = labelled(50)
    assert choose_scaling(logit, label, "isotonic").scaling.name == "isotonic"
    with pytest.raises(MIVError, match="Did you mean 'isotonic'"):
        choose_scaling(logit, label, "isotonik")


def test_too_few_of_a_class_are_refused() -> None:
    with pytest.raises(MIVError, match="Of 4 exemplars 1 are positive"):
        choose_scaling(np.zeros(4), np.array([1, 0, 0, 0], np.int8))
