"""What `train` warns of: a verifier at chance, and a validation of one label."""

import warnings

import numpy as np
import pytest

from miv.evaluation import auroc
from miv.training.run import warn_of_run
from tests.training.tiny import tiny_sets

VALIDATION = tiny_sets("features")["validation"]  # 200 of 400 are yes


def texts(right: int = 400, *, of_yes: bool = False, by_epochs: bool = True) -> list[str]:
    """What is said of a verifier that gives so many right answers, each as sure as the others."""
    logit = np.where(VALIDATION.label == 1, 1.0, -1.0)
    logit[right:] *= -1
    chosen = VALIDATION.label == 1 if of_yes else np.ones(400, bool)
    exemplars = VALIDATION.subset(chosen)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_run(auroc(exemplars.label, logit[chosen]), exemplars, by_epochs=by_epochs)
    return [str(one.message) for one in caught]


def test_a_validation_of_one_label_is_named_and_needs_no_threshold() -> None:
    (text,) = texts(right=200, of_yes=True)
    assert "All 200 exemplars of validation have the label 1" in text


@pytest.mark.parametrize("by_epochs", [True, False])
def test_chance_is_named_with_how_far_random_answers_reach(by_epochs: bool) -> None:
    """Answers of two values have an AUROC of the share of right ones; √(401 / (12 × 200 × 200)) is 0.0289."""
    (text,) = texts(right=210, by_epochs=by_epochs)
    assert "AUROC on the 400 exemplars of validation is 0.525, and random answers reach up to 0.558" in text
    assert ("pooling nearest" in text) == by_epochs
    assert texts(right=240) == []
