"""Warnings at the end of training: at chance, memorised, another threshold needed, or one label in validation."""

import math
import warnings
from collections.abc import Mapping

import numpy as np

from miv.data import ExemplarSet
from miv.errors import MIVWarning
from miv.evaluation import Evaluation
from miv.evaluation.classification import auroc_within_chance
from miv.io.checked_values import Floats
from miv.training.stage_state import START, StageState

# A verifier that always predicts the share of positives has a loss equal to the labels' entropy. One that never
# gets further below it than this has learned nothing that holds on validation.
_NO_GAIN = 0.98
_MISPLACED = 0.1  # share of answers that another threshold would put right
_REFERENCE = "`miv reference` scores plain methods on your data."
_WHAT_TO_TRY = f"Try more exemplars, another backbone, or the pooling nearest, which needs no training; {_REFERENCE}"
_WITHOUT_LEARNING = f"Try another backbone; {_REFERENCE}"


def warn_of_run(
    states: Mapping[str, StageState], evaluation: Evaluation, validation: ExemplarSet, logit: Floats
) -> None:
    """Warn if the verifier is at chance, memorised the train bags for nothing, or needs another threshold.

    Also if validation has only one label.

    Args:
        states: states of the stages that end with a verifier, in order.
        evaluation: evaluation of the final verifier on ``validation``.
        validation: the exemplars.
        logit: ``(E,)`` its answers for them.
    """
    what_to_try = _WHAT_TO_TRY if any(state.history for state in states.values()) else _WITHOUT_LEARNING
    texts = (
        _one_label(validation),
        _at_chance(evaluation.metrics["auroc"], validation, what_to_try),
        _memorised(states, validation),
        _misplaced(validation, logit),
    )
    for text in filter(None, texts):
        warnings.warn(text, MIVWarning, stacklevel=3)


def _one_label(validation: ExemplarSet) -> str | None:
    label = validation.label
    if label.min() < label.max():
        return None
    return (
        f"All {len(label):,} exemplars of validation have the label {int(label[0])}, so they could not show what "
        "helps, and the verifier may be worse than with both labels. Hold out bags of both labels."
    )


def _at_chance(auroc: float, validation: ExemplarSet, what_to_try: str) -> str | None:
    count, yes = len(validation), int(validation.label.sum())
    if not 0 < yes < count:
        return None  # there is no AUROC
    reach = auroc_within_chance(validation.label)
    if auroc > reach or reach >= 1:  # too few exemplars to tell
        return None
    return (
        f"The verifier is no better than chance: its AUROC on the {count:,} exemplars of validation is {auroc:.3f}, "
        f"and random answers reach up to {reach:.3f}. {what_to_try}"
    )


def _memorised(states: Mapping[str, StageState], validation: ExemplarSet) -> str | None:
    """The train loss fell far below the validation loss, and no epoch of any stage improved validation."""
    trained = [state for state in states.values() if state.history]
    if not trained or any(_gained(state, float(validation.label.mean())) for state in trained):
        return None
    last, start = trained[-1].history[-1], trained[-1].start
    if last["train_loss"] >= last["validation_loss"] / 2:
        return None
    if start is not None and last["validation_loss"] <= 1.05 * start["validation_loss"]:
        return None  # the start was as far off: nothing got worse
    kept = ", and no epoch beat the start, which was kept" if start is not None else ""
    on_train, on_validation = last["train_loss"], last["validation_loss"]
    return (
        f"Training memorised the train bags: after the last epoch its loss is {on_train:.4f} on train and "
        f"{on_validation:.2f} on validation{kept}. {_WHAT_TO_TRY} A lower learning rate memorises more slowly."
    )


def _misplaced(validation: ExemplarSet, logit: Floats) -> str | None:
    """Far more answers would be right at another threshold than at a probability of 0.5."""
    if validation.label.min() == validation.label.max():
        return None  # always the same answer would be right
    order = np.argsort(logit, kind="stable")
    yes, ranked = validation.label[order] == 1, logit[order]
    weight = np.ones(len(yes)) if validation.weight is None else validation.weight[order] / validation.weight.mean()
    # Right answers if the first 0, 1, … E are answered with no; a threshold cannot divide equal logits.
    right = (weight * yes).sum() + np.append(0.0, np.cumsum(np.where(yes, -weight, weight)))
    right = right[np.append(True, np.append(np.diff(ranked) > 0, True))]
    best = float(right.max()) / len(yes)
    own = float(np.average((logit >= 0) == (validation.label == 1), weights=validation.weight))
    # The best of all thresholds is better by chance too.
    if best - own < max(_MISPLACED, 1.5 / math.sqrt(len(yes))):
        return None
    return (
        f"At the default threshold, a probability of 0.5, {own:.0%} of the {len(yes):,} answers on validation are "
        f"right; at another threshold {best:.0%} would be. Set one with `miv calibrate`."
    )


def _gained(state: StageState, share: float) -> bool:
    if state.start is not None:
        return state.best != START
    if state.keeps_last:  # a trial on halves found that this many epochs help
        return True
    entropy = -sum(one * math.log(one) for one in (share, 1 - share) if one > 0)
    return min(row["validation_loss"] for row in state.history) < _NO_GAIN * entropy
