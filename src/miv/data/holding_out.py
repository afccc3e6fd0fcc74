"""Choose exemplars to hold out, so that epochs and thresholds are chosen on data not used for training."""

import numpy as np
from numpy.typing import NDArray

from miv.data.connected_exemplars import units_of_queries
from miv.data.exemplar_set import ExemplarSet
from miv.errors import MIVError

_DRAWS = 100


def hold_out(exemplars: ExemplarSet, fraction: float, seed: int) -> dict[str, ExemplarSet]:
    """Divide one set into ``train`` and ``validation``; both are the whole set if nothing is or can be held out."""
    if not 0 <= fraction < 1:
        raise MIVError(f"validation_fraction is {fraction}. Expected at least 0 and less than 1.")
    held_out = choose_held_out(exemplars, fraction, np.random.default_rng(seed)) if fraction else None
    if held_out is None:
        return {"train": exemplars, "validation": exemplars}
    return {"train": exemplars.subset(~held_out), "validation": exemplars.subset(held_out)}


def choose_held_out(exemplars: ExemplarSet, fraction: float, random: np.random.Generator) -> NDArray[np.bool_] | None:
    """``(E,)`` which exemplars to hold out, with both labels on both sides, in about the same shares.

    All queries of one class stay together if classes are known, otherwise all exemplars of one query id if there are
    ids, otherwise all exemplars of one query. They are divided only if both sides cannot have both labels otherwise.
    ``None`` if one label has a single exemplar, which cannot be on both sides.
    """
    if np.bincount(exemplars.label, minlength=2).min() < 2:
        return None
    wanted = max(2, round(fraction * len(exemplars)))
    for unit in (*units_of_queries(exemplars), np.arange(len(exemplars))):
        drawn = [_drawn(unit, wanted, random) for _ in range(_DRAWS)]
        fitting = [held_out for held_out in drawn if _has_both(exemplars.label, held_out)]
        if fitting:
            share = wanted / len(exemplars)
            return min(fitting, key=lambda held_out: _unevenness(exemplars.label, held_out, share))
    return None


def _drawn(unit: NDArray[np.int64], wanted: int, random: np.random.Generator) -> NDArray[np.bool_]:
    """Draw whole units of exemplars at random until there are about as many exemplars as wanted."""
    sizes = np.bincount(unit)
    order = random.permutation(len(sizes))
    before = np.cumsum(sizes[order]) - sizes[order] / 2
    chosen = np.zeros(len(sizes), bool)
    chosen[order[before <= wanted]] = True
    return chosen[unit]


def _has_both(label: NDArray[np.int8], held_out: NDArray[np.bool_]) -> bool:
    return all(len(np.unique(label[side])) == 2 for side in (held_out, ~held_out))


def _unevenness(label: NDArray[np.int8], held_out: NDArray[np.bool_], share: float) -> float:
    """How far the held-out share of each label is from the wanted share."""
    return sum(abs(float(held_out[label == one].mean()) - share) for one in (0, 1))
