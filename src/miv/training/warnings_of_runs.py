"""What a person should be told when a training came to its end: it stayed at chance, or it memorised the train bags."""

import math
import warnings
from collections.abc import Mapping

from miv.data import ExemplarSet
from miv.errors import MIVWarning
from miv.evaluation import Evaluation
from miv.evaluation.classification import auroc_within_chance
from miv.training.stage_state import START, StageState

# A verifier that answers everything alike, with the share of yes, has a loss of the labels' entropy. One that never
# gets further below it than this has found nothing in validation.
_NO_GAIN = 0.98
_REFERENCE = "`miv reference` shows what plain methods reach on your data."
_WHAT_TO_TRY = f"Try more exemplars, another backbone, or the pooling nearest, which has nothing to learn; {_REFERENCE}"
_WITHOUT_LEARNING = f"Try another backbone; {_REFERENCE}"


def warn_of_run(states: Mapping[str, StageState], evaluation: Evaluation, validation: ExemplarSet) -> None:
    """Warn where the verifier is at chance, and where it memorised and gained nothing.

    Args:
        states: of the stages that end with a verifier, in their order.
        evaluation: of the final verifier on ``validation``.
        validation: the exemplars.
    """
    what_to_try = _WHAT_TO_TRY if any(state.history for state in states.values()) else _WITHOUT_LEARNING
    texts = (_at_chance(evaluation.metrics["auroc"], validation, what_to_try), _memorised(states, validation))
    for text in filter(None, texts):
        warnings.warn(text, MIVWarning, stacklevel=3)


def _at_chance(auroc: float, validation: ExemplarSet, what_to_try: str) -> str | None:
    count, yes = len(validation), int(validation.label.sum())
    if not 0 < yes < count:
        return None  # there is no AUROC
    reach = auroc_within_chance(validation.label)
    if auroc > reach or reach >= 1:  # so few exemplars tell nothing
        return None
    return (
        f"The verifier cannot be told from chance: its AUROC on the {count:,} exemplars of validation is {auroc:.3f}, "
        f"and random answers reach up to {reach:.3f}. {what_to_try}"
    )


def _memorised(states: Mapping[str, StageState], validation: ExemplarSet) -> str | None:
    """The train loss went far below that of validation, and no epoch of any stage gained anything on validation."""
    trained = [state for state in states.values() if state.history]
    if not trained or any(_gained(state, float(validation.label.mean())) for state in trained):
        return None
    last, start = trained[-1].history[-1], trained[-1].start
    if last["train_loss"] >= last["validation_loss"] / 2:
        return None
    if start is not None and last["validation_loss"] <= 1.05 * start["validation_loss"]:
        return None  # the start was as far off: nothing has become worse
    kept = ", and no epoch was better than the start, which was kept" if start is not None else ""
    on_train, on_validation = last["train_loss"], last["validation_loss"]
    return (
        f"The training memorised the train bags: after the last epoch its loss is {on_train:.4f} on train and "
        f"{on_validation:.2f} on validation{kept}. {_WHAT_TO_TRY} A lower learning rate memorises more slowly."
    )


def _gained(state: StageState, share: float) -> bool:
    if state.start is not None:
        return state.best != START
    if state.keeps_last:  # a trial on halves has found that so many epochs pay
        return True
    entropy = -sum(one * math.log(one) for one in (share, 1 - share) if one > 0)
    return min(row["validation_loss"] for row in state.history) < _NO_GAIN * entropy
