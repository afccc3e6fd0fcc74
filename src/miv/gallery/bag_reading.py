"""Bags and queries as people give them, to distinct instances with a hash of their content."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from miv.backbones.cache import embed_instances
from miv.data.pool import InstancePool
from miv.errors import MIVError
from miv.files.images import Fit
from miv.files.instances import InstanceKind
from miv.verifier.reading import (
    ALONE,
    DistinctInstances,
    GivenPlaces,
    as_vector,
    as_vectors,
    bag_vectors,
    check_bags,
    check_finite,
    query_vectors,
    single_instances,
    with_folders,
)
from miv.verifier.verifying import vector_length

if TYPE_CHECKING:
    from miv.verifier.network import Verifier

Rows = NDArray[np.float32]
_PART_MEMBERS: dict[InstanceKind, int] = {"image": 1024, "text": 8192, "features": 1 << 16}
_LONGEST_NAME = 1000
_LONGEST_TEXT = 200  # characters of a text that serve as its name


@dataclass(frozen=True)
class GivenBag:
    """A bag to add: its name, its instances as ``Verifier.verify`` takes them, and names of the instances."""

    name: str
    instances: Any
    instance_names: Sequence[str] | None = None


@dataclass(frozen=True, eq=False)
class ReadBags:
    """Some bags that were read, and whose instances may still have to be embedded.

    Args:
        names: of the bags.
        digests: 16 bytes for each instance, equal if the content is equal.
        members: for each bag, the places of its members among the instances.
        instance_names: for each bag, names of its members.
        features: returns the features of the instances at some places.
        is_embedded: whether the features need no work.
    """

    names: list[str]
    digests: list[bytes]
    members: list[NDArray[np.int64]]
    instance_names: list[list[str]]
    features: Callable[[NDArray[np.int64]], Rows]
    is_embedded: bool


def in_parts(bags: "Iterator[GivenBag]", kind: InstanceKind) -> Iterator[list[GivenBag]]:
    """Divide bags into parts of which the instances fit in memory."""
    part: list[GivenBag] = []
    members = 0
    for bag in bags:
        check_bag_name(bag.name)
        [instances] = with_folders([bag.instances], kind)
        check_bags([None], [instances], kind, GivenPlaces([f"The bag {bag.name!r}"]))
        part.append(GivenBag(bag.name, instances, bag.instance_names))
        members += len(instances)
        if members >= _PART_MEMBERS[kind]:
            yield part
            part, members = [], 0
    if part:
        yield part


def read_bags(verifier: "Verifier", bags: list[GivenBag], resize: Fit | None) -> ReadBags:
    """Read the instances of some bags, each distinct one once."""
    backbone = verifier.backbone
    names = [_member_names(bag, backbone.kind) for bag in bags]
    if backbone.kind == "features":
        length = vector_length(backbone, bags[0].instances)
        places = [f"The bag {bag.name!r}" for bag in bags]
        given = [bag.instances for bag in bags]
        if verifier.query_backbone is not None:
            given = [bag_vectors(verifier, bag, place) for bag, place in zip(given, places, strict=True)]
        read = [_vectors(bag, length, place) for bag, place in zip(given, places, strict=True)]
        members = np.split(np.arange(sum(map(len, read))), np.cumsum([len(one) for one in read])[:-1])
        return _read(verifier, bags, InstancePool("features", np.concatenate(read)), members, names)
    distinct = DistinctInstances(backbone.kind, verifier.instances, resize)
    members = [
        np.array(
            [distinct.add(one, f"The bag {bag.name!r}, instance {place}") for place, one in enumerate(bag.instances)]
        )
        for bag in bags
    ]
    pool = distinct.take_new()
    if pool is None:
        raise MIVError("There are no instances. Expected at least one bag.")
    return _read(verifier, bags, pool, members, names)


def _read(
    verifier: "Verifier",
    bags: list[GivenBag],
    pool: InstancePool,
    members: list[NDArray[np.int64]],
    names: list[list[str]],
) -> ReadBags:
    backbone = verifier.backbone

    def features(rows: NDArray[np.int64]) -> Rows:
        if backbone.is_identity:
            return np.asarray(pool.values[rows])
        return embed_instances(backbone, pool.take(rows), np.arange(len(rows)))

    return ReadBags([bag.name for bag in bags], pool.digests(), members, names, features, backbone.is_identity)


def query_features(verifier: "Verifier", given: Any, resize: Fit | None) -> Rows:
    """Features ``(R, C)`` of a query, or of several references: as ``Verifier.verify`` takes them."""
    backbone = verifier.backbone
    distinct = DistinctInstances(backbone.kind, verifier.instances, resize)
    references, _, places = single_instances([given], verifier.query_kind, ALONE)
    if verifier.query_backbone is not None:
        references = query_vectors(verifier, references, places, resize)
    if backbone.kind == "features":
        length = vector_length(backbone, references)
        vectors = np.stack([as_vector(one, length, places.query(row)) for row, one in enumerate(references)])
        for row in range(len(vectors)):
            check_finite(vectors[row : row + 1], places.query(row))
        pool, rows = InstancePool("features", vectors), np.arange(len(vectors))
        return vectors if backbone.is_identity else embed_instances(backbone, pool, rows)
    rows = np.array([distinct.add(one, places.query(number)) for number, one in enumerate(references)])
    new = distinct.take_new()
    if new is None:
        raise MIVError("The query has no references. Expected at least one.")
    return embed_instances(backbone, new, np.arange(len(new)))[rows]


def check_bag_name(name: object) -> str:
    """Return the name of a bag: a text that is not empty. It is data and never part of a path."""
    if not isinstance(name, str) or not name.strip() or len(name) > _LONGEST_NAME:
        raise MIVError(f"The name of a bag is {str(name)[:80]!r}. Expected a text of 1 to {_LONGEST_NAME} characters.")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise MIVError(f"The name of a bag, {name[:80]!r}, is not UTF-8. Choose another name.") from error
    return str(name)


def _vectors(given: Any, length: int, place: str) -> Rows:
    vectors = as_vectors(given, length, place)
    check_finite(vectors, place)
    return vectors + np.float32(0)  # -0.0 becomes 0.0, so that equal vectors have equal bytes


def _member_names(bag: GivenBag, kind: InstanceKind) -> list[str]:
    """Given names, else files of images, else the first words of texts."""
    if bag.instance_names is not None:
        names = [str(name) for name in bag.instance_names]
        if len(names) != len(bag.instances):
            raise MIVError(
                f"The bag {bag.name!r} has {len(bag.instances)} instances and {len(names)} instance names. "
                "Expected one name per instance."
            )
    elif kind == "image":
        names = [str(one) if isinstance(one, str | PathLike) else _file_of(one) for one in bag.instances]
    elif kind == "text":
        names = [str(one)[:_LONGEST_TEXT] for one in bag.instances]
    else:
        names = [""] * len(bag.instances)
    # File names that are not UTF-8 hold half letters, which no Arrow text can.
    return [name[:_LONGEST_NAME].encode(errors="replace").decode() for name in names]


def _file_of(given: Any) -> str:
    return str(getattr(given, "filename", "") or "") if isinstance(given, Image.Image) else ""
