"""The JSON of verdicts, back to the objects that ``Verifier.verify`` returns."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.inference.deciding import LazyScores
from miv.inference.matches import LazyMatches
from miv.inference.unlike_instances import UnlikeInstances
from miv.inference.verdict import Verdict, Witness


def verdict_of(document: dict[str, Any]) -> Verdict:
    """A verdict as ``Verifier.verify`` returns it; only the instances to show are missing."""
    size, scores, matches = document["size"], _array(document["scores"]), _array(document.get("matches"))
    return Verdict(
        document["verdict"],
        document["probability"],
        document["threshold"],
        tuple(Witness(one["index"], one["score"]) for one in document["witnesses"]),
        document["witnesses_by"],
        _array(document["shares"]),
        _array(document["attention"]),
        size,
        lazy_scores=None if scores is None else LazyScores(lambda *_: scores, 0, 1),
        nearly_whole_sets=document["nearly_whole_sets"],
        lower_threshold=document["lower_threshold"],
        lazy_matches=None if matches is None else LazyMatches(lambda _: matches, range(1)),
        unlike=_unlike(document["unlike"], size),
    )


def _array(numbers: Any) -> NDArray[np.float64] | None:
    return None if numbers is None else np.array(numbers, np.float64)


def _unlike(document: dict[str, Any] | None, size: int) -> UnlikeInstances | None:
    if document is None:
        return None
    bag = np.zeros(size, bool)
    bag[document["places"]] = True
    return UnlikeInstances(np.array([document["query"]]), bag, np.array([0, size]))
