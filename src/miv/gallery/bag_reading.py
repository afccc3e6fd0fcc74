"""Bags and queries as people give them, to distinct instances with a hash of their content."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from miv.data.pool import InstancePool
from miv.errors import MIVError
from miv.files.images import Fit
from miv.files.instances import InstanceKind
from miv.verifier.network import Verifier
from miv.verifier.reading import ALONE, GivenPlaces, check_bags, single_instances, with_folders
from miv.verifier.verifying import Rows, bag_pool, bag_reader, embedded
from miv.verifier.verifying import query_features as features_of_queries

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


def read_bags(verifier: Verifier, bags: list[GivenBag], resize: Fit | None) -> ReadBags:
    """Read the instances of some bags, each distinct one once."""
    backbone, reader = verifier.backbone, bag_reader(verifier, resize)
    names = [_member_names(bag, backbone.kind) for bag in bags]
    members = [reader.add_all(bag.instances, f"The bag {bag.name!r}") for bag in bags]
    pool = bag_pool(verifier, reader)
    if pool is None:
        raise MIVError("There are no instances. Expected at least one bag.")
    if pool.kind == "features":
        pool = InstancePool("features", pool.values + np.float32(0))  # -0.0 becomes 0.0: equal vectors, equal bytes

    def features(rows: NDArray[np.int64]) -> Rows:
        return embedded(backbone, pool.take(rows))

    return ReadBags([bag.name for bag in bags], pool.digests(), members, names, features, backbone.is_identity)


def query_features(verifier: Verifier, query: Any, resize: Fit | None) -> Rows:
    """Features ``(R, C)`` of a query, or of several references: as ``Verifier.verify`` takes them."""
    references, _, places = single_instances([query], verifier.query_kind, ALONE)
    return features_of_queries(verifier, references, places, resize)


def check_bag_name(name: object) -> str:
    """Return the name of a bag: a text that is not empty. It is data and never part of a path."""
    if not isinstance(name, str) or not name.strip() or len(name) > _LONGEST_NAME:
        raise MIVError(f"The name of a bag is {str(name)[:80]!r}. Expected a text of 1 to {_LONGEST_NAME} characters.")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise MIVError(f"The name of a bag, {name[:80]!r}, is not UTF-8. Choose another name.") from error
    return str(name)


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
