"""The three answers of a verifier: yes, no and unsure."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Decision = Literal["yes", "no", "unsure"]


def decisions_of(yes: NDArray[np.bool_], no: NDArray[np.bool_]) -> NDArray[np.str_]:
    """Return ``(B,)`` decisions of bags that are accepted, rejected, or neither.

    >>> decisions_of(np.array([True, False, False]), np.array([False, True, False])).tolist()
    ['yes', 'no', 'unsure']
    """
    return np.where(yes, "yes", np.where(no, "no", "unsure"))


def decision_of(yes: bool, probability: float, lower: float | None) -> Decision:
    """Return the decision on one bag, given its lower threshold, if any."""
    if yes:
        return "yes"
    return "no" if lower is None or probability < lower else "unsure"


def threshold_words(threshold: float, lower: float | None) -> str:
    """The thresholds in words.

    >>> threshold_words(0.8, None), threshold_words(0.8, 0.25)
    ('threshold 0.800', 'thresholds 0.250 and 0.800')
    """
    if lower is None:
        return f"threshold {threshold:.3f}"
    return f"thresholds {lower:.3f} and {threshold:.3f}"
