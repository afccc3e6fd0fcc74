"""A warning about bags, or numbers of references, far from those that a verifier was calibrated on."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.decisions.operating_point import OperatingPoint
from miv.errors import MIVWarning

_FAR = 2  # times as large, or as small


def warn_of_other_sizes(point: OperatingPoint, ptr: NDArray[np.int64], reference_ptr: NDArray[np.int64] | None) -> bool:
    """Warn, and return true, if rates may not hold, because exemplars are not like those they were measured on.

    A larger bag holds more instances that may look like the query by chance, and several references change all logits.

    Args:
        point: the operating point, whose ``measured["data"]`` says what it was calibrated on.
        ptr: ``(E + 1,)``, the borders between the bags.
        reference_ptr: ``(E + 1,)``, the borders between the references; ``None`` if every query is one instance.
    """
    data = point.measured.get("data")
    known = data if isinstance(data, dict) else {}
    sizes, counts = np.diff(ptr), np.ones(1, np.int64) if reference_ptr is None else np.diff(reference_ptr)
    told = []
    span = _span(known.get("bag_sizes"))
    if span is not None and (sizes.min() * _FAR < span[0] or sizes.max() > _FAR * span[1]):
        told.append(f"bags of {_between(int(sizes.min()), int(sizes.max()))} (calibrated on {_between(*span)})")
    span = _span(known.get("references"))
    if span is not None and (counts.min() < span[0] or counts.max() > span[1]):
        given = _between(int(counts.min()), int(counts.max()))
        told.append(f"queries with {given} references (calibrated on {_between(*span)})")
    if told:
        warnings.warn(
            f"The verifier was calibrated for {point.goal}, and its rates may not hold here: there are "
            f"{'; '.join(told)}. Calibrate it on exemplars like yours.",
            MIVWarning,
            stacklevel=5,
        )
    return bool(told)


def _span(given: Any) -> tuple[int, int] | None:
    """The least and the greatest number, from a file; ``None`` for anything else."""
    if isinstance(given, list) and len(given) == 2 and all(isinstance(one, int) for one in given):
        return given[0], given[1]
    return None


def _between(least: int, most: int) -> str:
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"
