"""From what people have to verdicts: gather the instances, embed each distinct one once, and decide."""

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from miv.backbones.feature_cache import embed_instances
from miv.data import csr
from miv.decisions.witness_rules import ConformalRule
from miv.errors import MIVError
from miv.inference.deciding import FeatureLookup, decide
from miv.inference.gathering import Gathering
from miv.inference.given import GivenPlaces, as_vector, as_vectors, check_bags, check_finite, is_finite, with_folders
from miv.inference.verdict import Asked, Shown, Verdicts
from miv.io.image_files import Fit
from miv.runtime.progress import Progress

if TYPE_CHECKING:
    from miv.models.verifier import Verifier


def verify_many(
    verifier: "Verifier",
    queries: Any,
    bags: Any,
    resize: Fit | None,
    witnesses: Asked | None,
    progress: Progress | None,
    places: GivenPlaces | None = None,
) -> Verdicts:
    """Verify exemplars given as instances; see ``Verifier.verify_many``. ``places`` is what errors call them."""
    by = witnesses_by(verifier, witnesses)
    kind, places = verifier.backbone.kind, places or GivenPlaces()
    gathering = Gathering(kind, verifier.instances, resize)
    bags = with_folders(bags, kind)
    if kind == "features":
        check_bags(queries, bags, kind, places)
        ptr = csr.borders([len(bag) for bag in bags])
        lookup = _vectors(verifier.backbone.channels, queries, bags, places)
        return decide(verifier, lookup, ptr, by, progress, places=places)
    query, bag, ptr = gather(gathering, queries, bags, places)
    pool = gathering.take_new()
    assert pool is not None  # noqa: S101 - there is a query
    features = embed_instances(verifier.backbone, pool, np.arange(len(pool)), progress)  # (P, C)
    shown = Shown(pool, query, bag, *_names(kind, queries, bags))
    return decide(verifier, among(features, query, bag, ptr), ptr, by, progress, shown, places)


def _names(kind: str, queries: Any, bags: Any) -> tuple[list[str], list[str]]:
    """What the queries and targets are called: images by their files, all else not at all."""
    if kind != "image":
        return [], []
    members = [one for bag in bags for one in bag]
    query, bag = ([str(one) if isinstance(one, str | PathLike) else "" for one in some] for some in (queries, members))
    return query, bag


def gather(
    gathering: Gathering, queries: Any, bags: Any, places: GivenPlaces
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Collect images or texts: the rows of the queries ``(E,)`` and the targets ``(T,)``, and the borders."""
    check_bags(queries, bags, gathering.kind, places)
    query = np.array([gathering.add(one, places.query(number)) for number, one in enumerate(queries)])
    bag = np.array(
        [
            gathering.add(one, places.member(number, place))
            for number, members in enumerate(bags)
            for place, one in enumerate(members)
        ]
    )
    return query, bag, csr.borders([len(bag) for bag in bags])


def among(
    features: NDArray[np.float32], query: NDArray[np.int64], bag: NDArray[np.int64], ptr: NDArray[np.int64]
) -> FeatureLookup:
    """Look exemplars up among the features ``(P, C)`` of their instances."""
    return lambda first, last: (features[query[first:last]], features[bag[ptr[first] : ptr[last]]])


def witnesses_by(verifier: "Verifier", asked: Asked | None) -> Asked:
    """By what witnesses are chosen: as asked, else as the witness rule was calibrated, else as the pooling allows."""
    rule = verifier.operating_point.witness_rule
    calibrated = rule.by if isinstance(rule, ConformalRule) else None
    by = asked or calibrated or ("attention" if verifier.pooling.has_attention else "leave_one_out")
    if by == "none":
        return by
    if by != "attention" or not verifier.pooling.has_attention:
        from miv.explain import check_method

        check_method(verifier, by)
    if calibrated not in (None, by):
        raise MIVError(
            f"Witnesses by {by} were asked for, but the verifier's witness rule was calibrated on {calibrated}, and "
            f"its promise holds for nothing else. Leave the choice out, or calibrate with --witnesses {by}."
        )
    return by


def _vectors(channels: int, queries: Any, bags: Sequence[Any], places: GivenPlaces) -> FeatureLookup:
    """Look up vectors that were given; only those of one batch are joined, as all may be many."""
    if places.are_named:
        query = np.stack([as_vector(one, channels, places.query(row)) for row, one in enumerate(queries)])
    else:
        query = as_vectors(queries, channels, "The list of queries")
    members = [as_vectors(bag, channels, places.bag(number)) for number, bag in enumerate(bags)]

    def lookup(first: int, last: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        targets = members[first] if last == first + 1 else np.concatenate(members[first:last])
        if not (is_finite(query[first:last]) and is_finite(targets)):
            for number in range(first, last):
                check_finite(query[number : number + 1], places.query(number))
                check_finite(members[number], places.bag(number))
        return query[first:last], targets

    return lookup
