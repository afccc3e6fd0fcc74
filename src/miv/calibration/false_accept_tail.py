"""How high the probabilities of negatives reach, for searches among many bags."""

from typing import Any

import numpy as np

from miv.calibration.error_evidence import ErrorEvidence
from miv.io.checked_values import Floats

_MOST_POINTS = 100


def false_accept_tail(negatives: Floats, evidence: ErrorEvidence) -> dict[str, Any]:
    """The probability that the highest, the second highest, ... of the negatives has, at fewer and fewer counts.

    Args:
        negatives: ``(n,)``, calibrated probabilities of the negatives.
        evidence: how many independent negatives they count as.

    >>> tail = false_accept_tail(np.array([0.5, 0.1, 0.3]), ErrorEvidence.of(np.array([0.5, 0.1, 0.3]), np.arange(3)))
    >>> tail["count"], tail["probability"]
    ([1, 2, 3], [0.5, 0.3, 0.1])
    """
    descending = np.sort(negatives)[::-1]
    counts = np.unique(np.geomspace(1, len(negatives), _MOST_POINTS).round().astype(np.int64))
    return {
        "effective_negatives": float(evidence.effective(np.asarray(0))),
        "count": counts.tolist(),
        "probability": descending[counts - 1].tolist(),
    }
