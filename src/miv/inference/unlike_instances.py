"""Which queries and bags hold instances unlike the training data, and what a verdict says about them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from miv.data import csr
from miv.files.json import Mask
from miv.inference.engine import EmbeddedExemplars

if TYPE_CHECKING:
    from miv.models.verifier import Verifier

UNLIKE = "unlike the training data"
_MOST_PLACES = 10  # places in a sentence


@dataclass(frozen=True, eq=False)
class UnlikeInstances:
    """Instances beyond the limit of a verifier, for ``E`` exemplars with ``T`` targets.

    Args:
        query: ``(E,)`` bool; a query of several references is unlike the training data if all of them are.
        bag: ``(T,)`` bool.
        ptr: ``(E + 1,)``, the borders between the bags.
    """

    query: Mask
    bag: Mask
    ptr: Any

    @classmethod
    def of(cls, verifier: "Verifier", exemplars: EmbeddedExemplars) -> "UnlikeInstances | None":
        """Compare the features of all exemplars with the limit; ``None`` if the verifier has none."""
        limit = verifier.unlike
        if limit is None:
            return None
        found = [
            [limit.unlike(rows[:, : limit.channels]) for rows in exemplars.lookup(*batch)]
            for batch in exemplars.batches()
        ]
        query, bag = (np.concatenate(parts) for parts in zip(*found, strict=True))
        if exemplars.reference_ptr is not None:
            query = ~csr.bag_any(~query, exemplars.reference_ptr)
        return cls(query, bag, exemplars.ptr)

    @property
    def withheld(self) -> Mask:
        """``(E,)`` bool: no yes or no is given, because the query or every target is unlike the training data."""
        return np.asarray(self.query | ~csr.bag_any(~self.bag, self.ptr))

    def one(self, exemplar: int) -> "UnlikeInstances":
        """Those of one exemplar."""
        first, last = int(self.ptr[exemplar]), int(self.ptr[exemplar + 1])
        return UnlikeInstances(
            self.query[exemplar : exemplar + 1], self.bag[first:last], self.ptr[exemplar : exemplar + 2] - first
        )

    @property
    def places(self) -> list[int]:
        """Places of the targets."""
        return [int(place) for place in np.flatnonzero(self.bag)]

    @property
    def reason(self) -> str | None:
        """Why one exemplar gets no answer, or ``None``."""
        if self.query[0]:
            return f"the query is {UNLIKE}"
        return f"every instance of the bag is {UNLIKE}" if self.bag.all() else None

    @property
    def note(self) -> str:
        """A sentence about targets in a bag that also holds others; else ""."""
        places = self.places
        if not places or (self.bag.all() and not self.query[0]):
            return ""
        listed = ", ".join(map(str, places[:_MOST_PLACES])) + ", …" * (len(places) > _MOST_PLACES)
        several = len(places) > 1
        return f"{len(places)} instance{'s are' if several else ' is'} {UNLIKE}: place{'s' * several} {listed}."

    def document(self) -> dict[str, Any]:
        """Return plain values of one exemplar, for JSON."""
        return {"query": bool(self.query[0]), "places": self.places}
