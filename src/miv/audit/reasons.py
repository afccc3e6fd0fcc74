"""Where did it look? Whether the verdict is right, and whether the instance with the highest score is a witness."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from miv.data import csr
from miv.evaluation import Predictions
from miv.io.checked_values import Floats, Integers, Mask

Document = dict[str, Any]


def looked_right(ptr: Integers, label: ArrayLike, witness: Mask, scores: Floats) -> tuple[Mask, Mask]:
    """``(E,)`` which exemplars are informative, and in which the instance with the highest score is a witness.

    A positive is informative if its bag holds a witness and something else. If several instances share the highest
    score, all must be witnesses.

    >>> witness, scores = np.array([True, False, True, False]), np.array([2.0, 1.0, 3.0, 3.0])
    >>> tells, right = looked_right(np.array([0, 2, 4]), [1, 1], witness, scores)
    >>> tells.tolist(), right.tolist()
    ([True, True], [True, False])
    """
    top = scores == csr.to_rows(csr.bag_maxima(scores, ptr), ptr)  # (T,)
    tells = (np.asarray(label) == 1) & csr.bag_any(witness, ptr) & csr.bag_any(~witness, ptr)
    return tells, ~csr.bag_any(top & ~witness, ptr)


def reasons(answers: Predictions, yes: Mask, witness: Mask, scores: Floats) -> Document:
    """Verdict right or wrong × witness right or wrong, for informative positives (see ``looked_right``)."""
    tells, right_place = looked_right(answers.ptr, answers.label, witness, scores)
    right, wrong = tells & yes, tells & ~yes
    chance = csr.bag_sums(witness, answers.ptr) / answers.bag_sizes
    return {
        "positives": int(tells.sum()),
        "verdict_right_witness_right": int((right & right_place).sum()),
        "verdict_right_witness_wrong": int((right & ~right_place).sum()),
        "verdict_wrong_witness_right": int((wrong & right_place).sum()),
        "verdict_wrong_witness_wrong": int((wrong & ~right_place).sum()),
        "right_reason": share(right_place[right]),
        "right_reason_chance": float(chance[right].mean()) if right.any() else None,
        "negatives_right": share(~yes[answers.label == 0]),
    }


def share(hits: Mask) -> Document | None:
    """A share of a count with Wilson's 95% interval; ``None`` if the count is 0."""
    from scipy.stats import binomtest

    if len(hits) == 0:
        return None
    count = int(hits.sum())
    interval = binomtest(count, len(hits)).proportion_ci(method="wilson")
    low, high = float(interval.low), float(interval.high)
    return {"share": count / len(hits), "count": count, "of": len(hits), "low": low, "high": high}
