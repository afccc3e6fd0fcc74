"""What `train` warns of: a verifier at chance, and train bags that were memorised for nothing."""

import warnings

import numpy as np
import pytest

from miv.errors import MIVWarning
from miv.evaluation import Predictions, evaluate
from miv.training.checkpoint import EpochMetrics, StageState
from miv.training.run import warn_of_run
from tests.training.tiny import tiny_sets

VALIDATION = tiny_sets("features")["validation"]  # 200 of 400 are yes


def row(train_loss: float, validation_loss: float, auroc: float = 0.7) -> EpochMetrics:
    return {"train_loss": train_loss, "validation_loss": validation_loss, "validation_auroc": auroc}


def texts(state: StageState, right: int = 400, shift: float = 0.0) -> list[str]:
    """What is said of a stage whose verifier gives so many right answers, each as sure as the others."""
    logit = np.where(VALIDATION.label == 1, 1.0, -1.0)
    logit[right:] *= -1
    answers = evaluate(Predictions.of(VALIDATION, logit, None))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_run({"frozen": state}, answers, VALIDATION, logit + shift)
    return [str(one.message) for one in caught]


def state(*history: EpochMetrics, start: EpochMetrics | None = None) -> StageState:
    return StageState(list(history), start=start, criterion="validation_auroc")


def test_a_threshold_that_suits_few_answers_is_named_with_the_share_of_a_better_one() -> None:
    healthy = state(row(0.4, 0.5))
    (text,) = texts(healthy, right=360, shift=5.0)  # yes to all
    assert "50% of the 400 answers on validation are right; at another threshold 90% would be" in text
    assert "miv calibrate" in text
    assert texts(healthy, right=360) == []
    assert texts(healthy, right=360, shift=0.9) == []  # nearly yes to all, but not yet


def test_a_validation_of_one_label_is_named_and_needs_no_threshold() -> None:
    positive = VALIDATION.subset(VALIDATION.label == 1)
    logit = np.linspace(-1, 1, len(positive))  # half of the answers are wrong
    answers = evaluate(Predictions.of(positive, logit, None))
    with pytest.warns(MIVWarning) as caught:
        warn_of_run({}, answers, positive, logit)
    (text,) = (str(one.message) for one in caught)
    assert "All 200 exemplars of validation have the label 1" in text


def test_memorised_bags_are_named_with_both_losses() -> None:
    (text,) = texts(state(row(0.6, 0.69), row(0.1, 0.9), row(0.0005, 1.98)))
    assert "0.0005 on train and 1.98 on validation" in text
    assert "pooling nearest" in text
    (text,) = texts(state(row(0.01, 0.6, auroc=0.7), start=row(0.0, 0.52, auroc=0.72)))
    assert "no epoch beat the start, which was kept" in text


@pytest.mark.parametrize(
    "healthy",
    [
        state(row(0.6, 0.65), row(0.4, 0.5)),
        state(row(0.6, 0.65), row(0.1, 0.6), row(0.01, 1.2)),  # the epoch that is kept came before
        state(row(0.05, 0.6, auroc=0.75), start=row(0.0, 0.6, auroc=0.72)),
        state(row(0.5, 0.6, auroc=0.7), start=row(0.0, 0.6, auroc=0.72)),  # nothing gained, nothing memorised
        state(row(0.3, 2.6, auroc=0.7), start=row(0.0, 2.6, auroc=0.72)),  # the start was as far off on validation
        state(start=row(0.0, 0.6)),  # no epoch at all
    ],
)
def test_healthy_runs_are_not_warned_of(healthy: StageState) -> None:
    assert texts(healthy) == []


def test_chance_is_named_with_how_far_random_answers_reach() -> None:
    """Answers of two values have an AUROC of the share of right ones; √(401 / (12 × 200 × 200)) is 0.0289."""
    (text,) = texts(state(row(0.6, 0.6)), right=210)
    assert "AUROC on the 400 exemplars of validation is 0.525, and random answers reach up to 0.558" in text
    assert texts(state(row(0.6, 0.6)), right=240) == []
