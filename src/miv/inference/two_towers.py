"""Queries of one kind and bags of another, for a verifier with a backbone of its own for queries."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from miv.backbones.cache import embed_instances
from miv.data.sources.arrays import bag_side, query_side
from miv.errors import MIVError
from miv.files.images import Fit
from miv.inference.distinct_instances import DistinctInstances
from miv.inference.given_instances import GivenPlaces, as_vectors
from miv.runtime import Progress

if TYPE_CHECKING:
    from miv.models.verifier import Verifier

Rows = NDArray[np.float32]


def query_vectors(
    verifier: "Verifier", asked: Any, places: GivenPlaces, resize: Fit | None = None, progress: Progress | None = None
) -> Rows:
    """Embed queries or references with the query backbone, and put zeros in place of the channels of the bag."""
    backbone = verifier.query_backbone
    if backbone is None:
        raise MIVError("The verifier has no backbone of its own for queries.")
    if backbone.kind == "features":
        raise MIVError("The query backbone takes vectors. Expected one for texts or images.")
    distinct = DistinctInstances(backbone.kind, None, resize)
    rows = np.array([distinct.add(one, places.query(number)) for number, one in enumerate(asked)])
    pool = distinct.take_new()
    if pool is None:
        raise MIVError("There are no queries. Expected at least one.")
    features = embed_instances(backbone, pool, np.arange(len(pool)), progress)
    return query_side(features, verifier.backbone.channels - backbone.channels)[rows]


def bag_vectors(verifier: "Verifier", bag: Any, place: str) -> Rows:
    """Put zeros in place of the channels of the query before the vectors ``(N, T)`` of a bag."""
    backbone = verifier.query_backbone
    if backbone is None:
        return as_vectors(bag, verifier.backbone.channels, place)
    return bag_side(as_vectors(bag, verifier.backbone.channels - backbone.channels, place), backbone.channels)
