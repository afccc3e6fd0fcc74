"""Where did it look? Verdict right or wrong, and what got the highest score right or wrong."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miv.evaluation import Predictions

Document = dict[str, Any]
Mask = NDArray[np.bool_]


def looked_right(
    ptr: NDArray[np.int64], label: ArrayLike, witness: Mask, scores: NDArray[np.float64]
) -> tuple[Mask, Mask]:
    """``(E,)`` which exemplars tell, and of which the instance of the highest score is a witness.

    Positives tell that hold a witness and something else. Where several instances share the highest score, all have to
    be witnesses.

    >>> witness, scores = np.array([True, False, True, False]), np.array([2.0, 1.0, 3.0, 3.0])
    >>> tells, right = looked_right(np.array([0, 2, 4]), [1, 1], witness, scores)
    >>> tells.tolist(), right.tolist()
    ([True, True], [True, False])
    """
    first, sizes = ptr[:-1], np.diff(ptr)
    top = scores == np.repeat(np.maximum.reduceat(scores, first), sizes)  # (T,)
    count = np.add.reduceat(witness.astype(np.int64), first)
    tells = (np.asarray(label) == 1) & (count > 0) & (count < sizes)
    return tells, ~np.logical_or.reduceat(top & ~witness, first)


def reasons(answers: Predictions, yes: Mask, witness: Mask, scores: NDArray[np.float64]) -> Document:
    """Verdict right or wrong × witness right or wrong, of the positives that tell (see ``looked_right``)."""
    tells, right_place = looked_right(answers.ptr, answers.label, witness, scores)
    right, wrong = tells & yes, tells & ~yes
    chance = np.add.reduceat(witness.astype(np.int64), answers.ptr[:-1]) / answers.bag_sizes
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
    """How many of how many, with Wilson's interval of 95%; ``None`` of nothing."""
    from scipy.stats import binomtest

    if len(hits) == 0:
        return None
    count = int(hits.sum())
    interval = binomtest(count, len(hits)).proportion_ci(method="wilson")
    low, high = float(interval.low), float(interval.high)
    return {"share": count / len(hits), "count": count, "of": len(hits), "low": low, "high": high}
