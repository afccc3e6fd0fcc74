"""The verdicts on the bags that a search found, for a query of one or several references."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from miv.data import csr
from miv.inference.deciding import decide
from miv.inference.engine import EmbeddedExemplars
from miv.inference.verdict import Asked, Verdicts

if TYPE_CHECKING:
    from miv.models.verifier import Verifier

Rows = NDArray[np.float32]


def verdicts_on(verifier: "Verifier", references: Rows, features: Rows, ptr: NDArray[np.int64], by: Asked) -> Verdicts:
    """Verdicts on bags of features ``(T, C)``, for the features ``(R, C)`` of the references of one query."""
    bags, count = len(ptr) - 1, len(references)
    rows = np.concatenate([references, features])
    query = np.tile(np.arange(count), bags)
    bag = np.arange(len(features)) + count
    borders = None if count == 1 else csr.borders([count] * bags)
    return decide(verifier, EmbeddedExemplars.among(rows, query, bag, ptr, borders), by)
