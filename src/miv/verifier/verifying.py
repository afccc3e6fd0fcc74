"""From user input to verdicts: embed each distinct instance once, then decide; all at once or part by part."""

from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.backbones import Backbone
from miv.backbones.cache import embed_instances
from miv.backbones.descriptors import Features
from miv.data import ExemplarSet, csr
from miv.data.kinds import KINDS
from miv.data.pool import InstancePool
from miv.errors import MIVError
from miv.files.arrays import Mask
from miv.files.images import Fit
from miv.runtime import Progress
from miv.verifier.engine import EmbeddedExemplars, decide, foreign_of, witnesses_by
from miv.verifier.network import Verifier
from miv.verifier.reading import (
    ErrorLocations,
    Reader,
    as_vector,
    as_vectors,
    check_bags,
    check_finite,
    is_finite,
    single_instances,
    vector_length,
    with_folders,
)
from miv.verifier.verdict import DisplayedInstances, Verdicts, WitnessMethod

Rows = NDArray[np.float32]


class BatchVerifier:
    """Verifies queries and bags part by part; every distinct image or text of all parts is embedded once."""

    def __init__(
        self,
        verifier: Verifier,
        resize: Fit | None = None,
        witnesses: WitnessMethod | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.verifier = verifier
        self.by = witnesses_by(verifier, witnesses)
        self._progress, self._foreign = progress, np.zeros(0, bool)
        self._reader = bag_reader(verifier, resize, in_pairs=True)
        self._kind = KINDS[verifier.backbone.kind]
        self._features = _GrowingRows(verifier.backbone.channels)

    def verify(self, queries: Any, bags: Any, places: ErrorLocations | None = None, *, show: bool = False) -> Verdicts:
        """Verify one part; ``show`` keeps images and texts for display, which is only for a single part."""
        backbone, places = self.verifier.backbone, places or ErrorLocations()
        bags = with_folders(bags, backbone.kind)
        check_bags(queries, bags, backbone.kind, places)
        ptr, shown = csr.borders([len(bag) for bag in bags]), None
        asked, reference_ptr, asked_places = single_instances(queries, backbone.kind, places)
        if self._kind.is_vector:
            length = _length_of(backbone) or vector_length(asked)
            features = _vectors(length, asked, bags, asked_places)
            if not backbone.is_identity:
                features = embedded(backbone, InstancePool("features", features))
            rows = np.arange(len(features))
            exemplars = EmbeddedExemplars(features, rows[: -ptr[-1]], rows[-ptr[-1] :], ptr, reference_ptr)
        else:
            readable = None
            if backbone.reads_pairs:
                readable, asked, bags = paired(backbone, asked, bags, asked_places, reference_ptr is not None)
            query, bag = self._rows(asked, bags, asked_places)
            pool = self._reader.take_new()
            if pool is not None:
                self._features.add(embedded(backbone, pool, self._progress))
                self._foreign = np.append(self._foreign, foreign_of(self.verifier, pool))
                if show and readable is not None:
                    shown = DisplayedInstances(readable.pool, readable.query, readable.bag_index, [], [], None)
                elif show:
                    members = [member for one_bag in bags for member in one_bag]
                    names = (_names(asked), _names(members)) if self._kind.has_form else ([], [])
                    shown = DisplayedInstances(pool, query, bag, *names, reference_ptr)
            features = self._features.values
            exemplars = EmbeddedExemplars(features, query, bag, ptr, reference_ptr, self._foreign)
        return decide(self.verifier, exemplars, self.by, self._progress, shown, places)

    def check(self, instance: Any, place: str) -> None:
        """Raise an error unless an instance can be one of a bag; ``place`` names it."""
        self._reader.add(instance, place)

    def _rows(self, queries: Any, bags: Any, places: ErrorLocations) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Collect images or texts; return the rows of queries or references and of targets among the distinct ones."""
        query = [self._reader.add(instance, places.query(number)) for number, instance in enumerate(queries)]
        bag = [self._reader.add_all(members, places.bag(number)) for number, members in enumerate(bags)]
        return np.array(query), np.concatenate(bag)


def _names(images: Any) -> list[str]:
    """The names of files; "" for an image in memory."""
    return [str(image) if isinstance(image, str | PathLike) else "" for image in images]


def _length_of(backbone: Backbone) -> int | None:
    """The vector length that a backbone takes, if it says so."""
    return backbone.channels if isinstance(backbone, Features) else None


def paired(
    backbone: Backbone, queries: Any, bags: Any, places: ErrorLocations | None = None, has_references: bool = False
) -> tuple[ExemplarSet, list[str], list[list[str]]]:
    """The exemplars as given, for display, and queries and bags of what a backbone of pairs reads."""
    if has_references:
        raise MIVError("A query has several references. A verifier of pairs reads one query at a time.")
    places, reader = places or ErrorLocations(), Reader("text")
    query = [reader.add(text, places.query(number)) for number, text in enumerate(queries)]
    rows = [reader.add_all(bag, places.bag(number)) for number, bag in enumerate(bags)]
    pool = reader.take_new()
    assert pool is not None  # noqa: S101 - bags are not empty
    readable = ExemplarSet.from_lists(pool, query, rows, np.zeros(len(rows), np.int64))
    exemplars = backbone.paired(readable)
    values = exemplars.pool.values
    members = [[values[row] for row in exemplars.bag(number)] for number in range(len(rows))]
    return readable, [values[row] for row in exemplars.query], members


def bag_reader(verifier: Verifier, resize: Fit | None = None, *, in_pairs: bool = False) -> Reader:
    """A reader of the bags of a verifier; without ``in_pairs``, one of pairs is refused."""
    if verifier.backbone.reads_pairs and not in_pairs:
        raise MIVError(
            f"The verifier's backbone is {verifier.configuration['backbone']}, which reads each target together with "
            "the query, so bags cannot be embedded before queries are known. Galleries and streams need "
            "another backbone, such as hf:minilm; use verify, verify_many or score."
        )
    return Reader(verifier.backbone.kind, verifier.instances, resize, _length_of(verifier.backbone))


def embedded(backbone: Backbone, pool: InstancePool, progress: Progress | None = None) -> Rows:
    """Features ``(P, C)`` of all instances of a pool."""
    return pool.values if backbone.is_identity else embed_instances(backbone, pool, np.arange(len(pool)), progress)


def query_features(
    verifier: Verifier,
    instances: Any,
    places: ErrorLocations,
    resize: Fit | None = None,
    progress: Progress | None = None,
) -> tuple[Rows, Mask]:
    """Features ``(R, C)`` of queries or references, for the pooling, and which are foreign, ``(R,)`` bool."""
    reader = bag_reader(verifier, resize)
    rows = [reader.add(value, places.query(number)) for number, value in enumerate(instances)]
    pool = reader.take_new()
    if pool is None:
        raise MIVError("There are no queries. Expected at least one.")
    return embedded(verifier.backbone, pool, progress)[rows], foreign_of(verifier, pool)[rows]


def _vectors(channels: int, queries: Any, bags: Any, places: ErrorLocations) -> Rows:
    """The given vectors in one array: queries or references, then the members of all bags."""
    if places.are_named:
        query = np.stack([as_vector(vector, channels, places.query(row)) for row, vector in enumerate(queries)])
    else:
        query = as_vectors(queries, channels, "The list of queries")
    members = [as_vectors(bag, channels, places.bag(number)) for number, bag in enumerate(bags)]
    vectors = np.concatenate([query, *members])
    if not is_finite(vectors):
        for number in range(len(query)):
            check_finite(query[number : number + 1], places.query(number))
        for number, bag in enumerate(members):
            check_finite(bag, places.bag(number))
    return vectors


class _GrowingRows:
    """An array ``(P, C)`` that doubles its capacity when full."""

    def __init__(self, channels: int) -> None:
        self.values: NDArray[np.float32] = np.zeros((0, channels), np.float32)
        self._count = 0

    def add(self, rows: NDArray[np.float32]) -> None:
        if not self._count:  # often the only features
            self.values, self._count = rows, len(rows)
            return
        count = self._count + len(rows)
        if count > len(self.values):
            larger = np.zeros((max(count, 2 * len(self.values)), self.values.shape[1]), np.float32)
            larger[: self._count] = self.values[: self._count]
            self.values = larger
        self.values[self._count : count] = rows
        self._count = count
