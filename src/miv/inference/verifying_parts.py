"""Verdicts on more exemplars than memory holds: part by part, with nothing kept but features."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.backbones.feature_cache import embed_instances
from miv.inference.deciding import decide
from miv.inference.gathering import Gathering
from miv.inference.given import GivenPlaces
from miv.inference.verdict import Asked, Verdicts
from miv.inference.verifying import among, gather, verify_many, witnesses_by
from miv.io.image_files import Fit
from miv.models.verifier import Verifier


class VerifyingParts:
    """Verifies queries and bags part by part; the verdicts show no instances.

    Every distinct image or text is read and embedded once, whichever parts it is in: its pixels are forgotten with its
    part, its features are kept.

    Args:
        verifier: the verifier.
        resize: as for ``Verifier.verify``.
        witnesses: as for ``Verifier.verify``.
    """

    def __init__(self, verifier: Verifier, resize: Fit | None = None, witnesses: Asked | None = None) -> None:
        self.verifier = verifier
        self.by = witnesses_by(verifier, witnesses)
        self._gathering = Gathering(verifier.backbone.kind, verifier.instances, resize)
        self._features = _Rows(verifier.backbone.channels)

    def verify(self, queries: list[Any], bags: list[list[Any]], rows: list[str]) -> Verdicts:
        """Verify one part; ``rows`` says where each exemplar came from, for errors."""
        places = GivenPlaces(rows)
        verifier = self.verifier
        if verifier.backbone.kind == "features":
            return verify_many(verifier, queries, bags, None, self.by, None, places)
        query, bag, ptr = gather(self._gathering, queries, bags, places)
        pool = self._gathering.take_new()
        if pool is not None:
            self._features.add(embed_instances(verifier.backbone, pool, np.arange(len(pool))))
        return decide(verifier, among(self._features.values, query, bag, ptr), ptr, self.by, places=places)


class _Rows:
    """An array ``(P, C)`` that grows, twice as large each time that it is full."""

    def __init__(self, channels: int) -> None:
        self.values: NDArray[np.float32] = np.zeros((0, channels), np.float32)
        self._count = 0

    def add(self, rows: NDArray[np.float32]) -> None:
        count = self._count + len(rows)
        if count > len(self.values):
            larger = np.zeros((max(count, 2 * len(self.values)), self.values.shape[1]), np.float32)
            larger[: self._count] = self.values[: self._count]
            self.values = larger
        self.values[self._count : count] = rows
        self._count = count
