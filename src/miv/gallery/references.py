"""Several queries of one search: how their logits are combined, and the verdicts on the bags that were found."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from miv.data import csr
from miv.inference.deciding import decide
from miv.inference.engine import EmbeddedExemplars
from miv.inference.verdict import Asked, Verdict, Verdicts

if TYPE_CHECKING:
    from miv.models.verifier import Verifier

Rows = NDArray[np.float32]


def combined(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """One logit ``(B,)`` per bag from those of ``R`` references ``(R, B)``: their mean."""
    return logits[0] if len(logits) == 1 else np.asarray(logits.mean(axis=0))


def verdicts_on(
    verifier: "Verifier", queries: Rows, features: Rows, ptr: NDArray[np.int64], by: Asked
) -> tuple[list[Verdict], NDArray[np.float64]]:
    """Verdicts on bags of features ``(T, C)`` for ``R`` references ``(R, C)``, and the combined logits ``(B,)``."""
    found = [decide(verifier, _exemplars(query, features, ptr), by) for query in queries]
    if len(found) == 1:
        return list(found[0]), found[0].logit
    point = verifier.operating_point
    logit = np.mean([one.logit for one in found], axis=0)
    probability = point.probability(logit)
    shares = [one.shares for one in found if one.shares is not None]
    attention = [one.attention for one in found if one.attention is not None]
    mean_shares = np.mean(shares, axis=0) if shares else None
    joined = Verdicts(
        verdict=point.verdict(probability),
        probability=probability,
        threshold=point.threshold,
        logit=logit,
        ptr=ptr,
        witnesses_by=by,
        shares=mean_shares,
        witness=None if mean_shares is None else point.witnesses(probability, mean_shares, ptr),
        attention=np.mean(attention, axis=0) if attention else None,
        nearly_whole_sets=point.nearly_whole_sets if shares else None,
        lower_threshold=point.lower_threshold,
    )
    return list(joined), logit


def _exemplars(query: Rows, features: Rows, ptr: NDArray[np.int64]) -> EmbeddedExemplars:
    count = len(ptr) - 1
    bag = np.arange(len(features)) + 1
    joined = np.concatenate([query[None], features])
    return EmbeddedExemplars.among(joined, np.zeros(count, np.int64), bag, ptr if len(ptr) else csr.borders([]))
