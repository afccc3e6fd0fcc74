"""A set of exemplars with queries of one kind, which a backbone embeds, and bags of vectors."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from torch import nn

from miv.backbones.backbone_names import create_backbone
from miv.backbones.feature_cache import embed_instances
from miv.backbones.module_backbone import as_backbone
from miv.data import ExemplarSet, InstancePool
from miv.data.two_kinds import bag_side, query_side
from miv.errors import MIVError


def exemplars_of_two_kinds(
    queries: Sequence[Any],
    bags: Sequence[ArrayLike],
    labels: Sequence[int],
    query_backbone: str | nn.Module,
    **options: Any,
) -> ExemplarSet:
    """Embed queries, each distinct one once, and join them with bags of vectors in one set of vectors.

    Train a verifier on it with ``query_backbone`` in the settings; then ``verify`` takes such queries and bags.

    Args:
        queries: ``E`` texts or images, each as ``InstancePool`` holds one.
        bags: ``E`` arrays ``(N, T)``.
        labels: ``(E,)``.
        query_backbone: a name as for ``Verifier``, or a module for texts or images.
        options: further arguments of ``ExemplarSet.from_arrays``.
    """
    named = isinstance(query_backbone, str)
    backbone = as_backbone(create_backbone(query_backbone) if named else query_backbone).eval()  # type: ignore[arg-type]
    if backbone.kind == "features":
        raise MIVError(
            "The query backbone takes vectors. Expected one for texts or images; see query_side for vectors."
        )
    if not len(bags) or np.ndim(bags[0]) != 2:
        raise MIVError("There are no bags, or a bag is not an array (N, T). Expected vectors, one bag per query.")
    if backbone.kind == "text":
        distinct = list(dict.fromkeys(map(str, queries)))
        places = {text: place for place, text in enumerate(distinct)}
        pool, rows = InstancePool("text", np.array(distinct, object)), np.array([places[str(text)] for text in queries])
    else:
        pool, rows = InstancePool(backbone.kind, np.asarray(queries)), np.arange(len(queries))
    features = embed_instances(backbone, pool, np.arange(len(pool)))
    asked = query_side(features, bag_channels=np.shape(bags[0])[1])[rows]
    return ExemplarSet.from_arrays(asked, [bag_side(bag, features.shape[1]) for bag in bags], labels, **options)
